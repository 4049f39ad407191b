// Products of a few rows with packed matrices, and the sums of outer products that weight gradients are.
//
// A matrix B (K × N) is packed as panels of NR columns: panel p holds B[k][p·NR … p·NR+NR) for k = 0 … K−1, the last one
// padded with zeros. One panel stays in the first-level cache while all rows pass over it.
#pragma once

#include "vector.h"

namespace unspool {

constexpr int NV = 2;  // vectors a panel is wide
template <typename real> constexpr int NR = NV * LANES<real>;
#if defined(__AVX512F__)
constexpr int MR = 12;  // rows that share one pass: MR · NV accumulators must fit the registers
#elif defined(__AVX__)
constexpr int MR = 6;
#else
constexpr int MR = 5;
#endif

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

template <typename real> int64_t packed_size(int64_t K, int64_t N) { return K * round_up(N, NR<real>); }

// B[k][at + n] = source[n][k]: a weight matrix (N × K) as it multiplies rows from the right. Packs columns that lie in
// panels first ≤ p < last only, so that threads can share the work.
template <typename real>
UNSPOOL_APART void pack_transposed(real* panels, int64_t K, int64_t at, const real* source, int64_t N, int64_t first, int64_t last) {
    constexpr int W = NR<real>;
    for (int64_t p = at / W > first ? at / W : first; p < last && p * W < at + N; ++p) {
        int64_t from = p * W > at ? p * W : at, to = (p + 1) * W < at + N ? (p + 1) * W : at + N;
        real* panel = panels + p * W * K;
        for (int64_t k0 = 0; k0 < K; k0 += 8) {  // eight steps of k a column: one line of the source is read at once
            int64_t k1 = k0 + 8 < K ? k0 + 8 : K;
            for (int64_t column = from; column < to; ++column) {
                const real* row = source + (column - at) * K;
                real* lane = panel + (column - p * W);
                for (int64_t k = k0; k < k1; ++k) lane[k * W] = row[k];
            }
        }
    }
}

// B[at + k][n] = source[k][n]: a weight matrix (rows × N) as it multiplies gradients from the right.
template <typename real>
UNSPOOL_APART void pack_straight(
    real* panels, int64_t K, int64_t at, const real* source, int64_t rows, int64_t N, int64_t first, int64_t last) {
    constexpr int W = NR<real>;
    for (int64_t p = first; p < last && p * W < N; ++p) {
        int64_t width = N - p * W < W ? N - p * W : W;
        real* to = panels + p * W * K + at * W;
        for (int64_t k = 0; k < rows; ++k) std::memcpy(to + k * W, source + k * N + p * W, size_t(width) * sizeof(real));
    }
}

// M rows of A times P neighbouring panels. Few rows take several panels at once, since an accumulator can be added to only
// every fourth cycle or so: it takes eight of them to keep the multipliers busy.
template <int M, int P, typename real>
UNSPOOL_INLINE void tile(
    int64_t K, const real* const* a, int64_t a_at, const real* panels, int64_t panel_stride, real* c, int64_t ldc, bool add,
    int64_t columns) {
    vec<real> sums[M][P * NV] = {};
    const real* rows[M];
    for (int m = 0; m < M; ++m) rows[m] = a[m] + a_at;
    for (int64_t k = 0; k < K; ++k) {
        vec<real> b[P * NV];
#pragma GCC unroll 8
        for (int v = 0; v < P * NV; ++v)
            b[v] = load(panels + v / NV * panel_stride + k * NR<real> + v % NV * LANES<real>);
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            vec<real> x = broadcast(rows[m][k]);
#pragma GCC unroll 8
            for (int v = 0; v < P * NV; ++v) sums[m][v] += x * b[v];
        }
    }
    for (int m = 0; m < M; ++m) {
        for (int v = 0; v < P * NV; ++v) {
            int64_t left = columns - v * LANES<real>;
            if (left <= 0) break;
            real* at = c + m * ldc + v * LANES<real>;
            if (left >= LANES<real>) {
                store(at, add ? load(at) + sums[m][v] : sums[m][v]);
            } else {
                store_part(at, add ? load_part(at, int(left)) + sums[m][v] : sums[m][v], int(left));
            }
        }
    }
}

template <typename real>
UNSPOOL_INLINE void tiles(
    int rows, int64_t K, const real* const* a, int64_t a_at, const real* panel, real* c, int64_t ldc, bool add, int64_t columns) {
    int blocks = (rows + MR - 1) / MR;
    int done = 0;
    for (int block = 0; block < blocks; ++block) {  // 16 rows are 6 + 5 + 5, not 6 + 6 + 4
        int m = (rows - done + (blocks - block) - 1) / (blocks - block);
        const real* const* at = a + done;
        real* to = c + done * ldc;
        switch (m) {
#define UNSPOOL_TILE(M) \
    case M: tile<M, 1>(K, at, a_at, panel, 0, to, ldc, add, columns); break;
            UNSPOOL_TILE(1) UNSPOOL_TILE(2) UNSPOOL_TILE(3) UNSPOOL_TILE(4) UNSPOOL_TILE(5)
#if defined(__AVX__)
            UNSPOOL_TILE(6)
#endif
#if defined(__AVX512F__)
            UNSPOOL_TILE(7) UNSPOOL_TILE(8) UNSPOOL_TILE(9) UNSPOOL_TILE(10) UNSPOOL_TILE(11) UNSPOOL_TILE(12)
#endif
#undef UNSPOOL_TILE
        }
        done += m;
    }
}

// C[r] = A[r] · B, or C[r] += A[r] · B, for rows given by pointers; columns [0, N) of C with row stride ldc.
template <typename real>
UNSPOOL_APART void product(int rows, const real* const* A, int64_t K, const real* panels, int64_t N, real* C, int64_t ldc, bool add) {
    constexpr int64_t DEEP = 2048 / sizeof(real);  // a slice of a panel that the first-level cache holds beside the rows
    constexpr int W = NR<real>;
    if (K == 0 && !add)
        for (int r = 0; r < rows; ++r) std::memset(C + r * ldc, 0, size_t(N) * sizeof(real));
    for (int64_t k = 0; k < K; k += DEEP) {
        int64_t depth = K - k < DEEP ? K - k : DEEP;
        const int64_t whole = round_up(N, W);
        int64_t n = 0;
        if (rows == 1)
            for (; n + 4 * W <= whole; n += 4 * W)
                tile<1, 4>(depth, A, k, panels + n * K + k * W, W * K, C + n, ldc, add || k > 0, N - n);
        if (rows == 2 || rows == 3)
            for (; n + 2 * W <= whole; n += 2 * W)
                if (rows == 2) tile<2, 2>(depth, A, k, panels + n * K + k * W, W * K, C + n, ldc, add || k > 0, N - n);
                else tile<3, 2>(depth, A, k, panels + n * K + k * W, W * K, C + n, ldc, add || k > 0, N - n);
        for (; n < N; n += W) tiles(rows, depth, A, k, panels + n * K + k * W, C + n, ldc, add || k > 0, N - n);
    }
}

// The same for one row and a matrix as it lies, B[k][n] = weights[n][k]: for calls so short that packing would not pay.
template <typename real>
UNSPOOL_APART void product_unpacked(const real* a, int64_t K, const real* weights, int64_t N, real* c, bool add) {
    constexpr int ROWS = 4;
    for (int64_t n = 0; n < N; n += ROWS) {
        const int count = int(N - n < ROWS ? N - n : ROWS);
        const real* w[ROWS];
        for (int i = 0; i < ROWS; ++i) w[i] = weights + (n + (i < count ? i : 0)) * K;
        vec<real> sums[ROWS] = {};
        int64_t k = 0;
        for (; k + LANES<real> <= K; k += LANES<real>)
            for (int i = 0; i < ROWS; ++i) sums[i] += load(a + k) * load(w[i] + k);
        if (k < K)
            for (int i = 0; i < ROWS; ++i) sums[i] += load_part(a + k, int(K - k)) * load_part(w[i] + k, int(K - k));
        for (int i = 0; i < count; ++i) c[n + i] = (add ? c[n + i] : real(0)) + sum<real>(sums[i]);
    }
}

// c (N wide) += Σ_k a[k] · weights[k]: the way back through the same matrix.
template <typename real>
UNSPOOL_APART void product_back_unpacked(const real* a, int64_t K, const real* weights, int64_t N, real* c) {
    for (int64_t k = 0; k < K; ++k) {
        const vec<real> x = broadcast(a[k]);
        const real* w = weights + k * N;
        int64_t n = 0;
        for (; n + LANES<real> <= N; n += LANES<real>) store(c + n, load(c + n) + x * load(w + n));
        if (n < N) store_part(c + n, load_part(c + n, int(N - n)) + x * load_part(w + n, int(N - n)), int(N - n));
    }
}

// C (M × N, row stride ldc) += Σ_k A[k]ᵀ B[k] with A[k] (M wide) packed by pack_rows and B row-major with stride ldb.
template <int M, bool whole, typename real>
UNSPOOL_INLINE void outer_tile(
    int64_t K, const real* a, const real* b, int64_t ldb, real* c, int64_t ldc, int rows, int columns) {
    vec<real> sums[M][NV] = {};
    for (int64_t k = 0; k < K; ++k) {
        vec<real> y[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) {
            const real* at = b + k * ldb + v * LANES<real>;
            int left = columns - v * LANES<real>;
            if constexpr (whole) y[v] = load(at);
            else y[v] = left > 0 ? load_part(at, left < LANES<real> ? left : LANES<real>) : vec<real>{};
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            vec<real> x = broadcast(a[k * M + m]);
#pragma GCC unroll 4
            for (int v = 0; v < NV; ++v) sums[m][v] += x * y[v];
        }
    }
    for (int m = 0; m < rows; ++m) {
        for (int v = 0; v < NV; ++v) {
            int left = columns - v * LANES<real>;
            if (left <= 0) break;
            real* at = c + m * ldc + v * LANES<real>;
            if (left >= LANES<real>) store(at, load(at) + sums[m][v]);
            else store_part(at, load_part(at, left) + sums[m][v], left);
        }
    }
}

// Panels of MR entries: panel p holds A[k][p·MR … p·MR+MR) for k = 0 … room−1, the last one padded with zeros.
template <typename real> int64_t packed_rows_size(int64_t room, int64_t M) { return room * round_up(M, MR); }

template <typename real> UNSPOOL_APART void pack_row(real* panels, int64_t room, int64_t k, const real* row, int64_t M) {
    int64_t m = 0;
    for (; m + MR <= M; m += MR) std::memcpy(panels + m * room + k * MR, row + m, MR * sizeof(real));
    if (m < M) {
        real* to = panels + m * room + k * MR;
        for (int i = 0; i < MR; ++i) to[i] = m + i < M ? row[m + i] : real(0);
    }
}

// The panels have room for `room` rows, of which the first K are filled.
template <typename real>
UNSPOOL_APART void add_outer(
    int64_t K, int64_t room, const real* packed_rows, int64_t M, const real* B, int64_t ldb, int64_t N, real* C, int64_t ldc) {
    constexpr int W = NR<real>;
    for (int64_t n = 0; n < N; n += W) {
        int columns = int(N - n < W ? N - n : W);
        for (int64_t m = 0; m < M; m += MR) {
            int rows = int(M - m < MR ? M - m : MR);
            const real* a = packed_rows + m * room;
            if (columns == W) outer_tile<MR, true>(K, a, B + n, ldb, C + m * ldc + n, ldc, rows, columns);
            else outer_tile<MR, false>(K, a, B + n, ldb, C + m * ldc + n, ldc, rows, columns);
        }
    }
}

}  // namespace unspool
