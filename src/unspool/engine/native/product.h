// Products of a few rows with packed matrices.
//
// A matrix B (K × N) is packed as panels of NR columns: panel p holds B[k][p·NR … p·NR+NR) for k = 0 … K−1, the last one
// padded with zeros. One panel stays in the first-level cache while all rows pass over it.
#pragma once

#include <algorithm>

#include "vector.h"

namespace unspool {

constexpr int NV = 2;  // vectors a panel is wide
template <typename real> constexpr int NR = NV * LANES<real>;
#if defined(__AVX512F__)
constexpr int REGISTERS = 32, MR = 12;  // rows that share one pass: MR · NV accumulators must fit the registers
#elif defined(__AVX__)
constexpr int REGISTERS = 16, MR = 6;
#else
constexpr int REGISTERS = 16, MR = 5;
#endif

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

template <typename real> int64_t packed_size(int64_t K, int64_t N) { return K * round_up(N, NR<real>); }

// B[k][at + n] = source[n][k]: a weight matrix (N × K) as it multiplies rows from the right. Packs columns that lie in
// panels first ≤ p < last only, so that threads can share the work.
template <typename real>
UNSPOOL_APART void pack_transposed(real* panels, int64_t K, int64_t at, const real* source, int64_t N, int64_t first, int64_t last) {
    constexpr int W = NR<real>, L = LANES<real>;
    for (int64_t p = at / W > first ? at / W : first; p < last && p * W < at + N; ++p) {
        int64_t from = p * W > at ? p * W : at, to = (p + 1) * W < at + N ? (p + 1) * W : at + N;
        real* panel = panels + p * W * K;
        for (int64_t column = from; column < to;) {
            const real* rows = source + (column - at) * K;
            real* lane = panel + (column - p * W);
            int64_t k = 0;
            const bool whole = column + L <= to;
            if (whole)
                for (; k + L <= K; k += L) {
                    vec<real> v[L];
#pragma GCC unroll 16
                    for (int i = 0; i < L; ++i) v[i] = load(rows + i * K + k);
                    transpose<real>(v);
#pragma GCC unroll 16
                    for (int i = 0; i < L; ++i) store(lane + (k + i) * W, v[i]);
                }
            const int count = whole ? L : 1;
            for (; k < K; ++k)
                for (int i = 0; i < count; ++i) lane[k * W + i] = rows[i * K + k];
            column += count;
        }
    }
}

// to[n][k] = Σ from[k][n] over several sources, for n in [0, N) and k in [0, K); row strides ldt and ldf.
template <typename real>
UNSPOOL_APART void add_transposed(real* to, int64_t ldt, const real* const* from, int sources, int64_t ldf, int64_t N, int64_t K, bool add) {
    constexpr int L = LANES<real>;
    for (int64_t n = 0; n < N;) {
        int64_t k = 0;
        const bool whole = n + L <= N;
        if (whole)
            for (; k + L <= K; k += L) {
                vec<real> v[L];
#pragma GCC unroll 16
                for (int i = 0; i < L; ++i) v[i] = load(from[0] + (k + i) * ldf + n);
                for (int s = 1; s < sources; ++s)
#pragma GCC unroll 16
                    for (int i = 0; i < L; ++i) v[i] += load(from[s] + (k + i) * ldf + n);
                transpose<real>(v);
#pragma GCC unroll 16
                for (int i = 0; i < L; ++i) {
                    real* at = to + (n + i) * ldt + k;
                    store(at, add ? load(at) + v[i] : v[i]);
                }
            }
        const int count = whole ? L : 1;
        for (; k < K; ++k)
            for (int i = 0; i < count; ++i) {
                real total = from[0][k * ldf + n + i];
                for (int s = 1; s < sources; ++s) total += from[s][k * ldf + n + i];
                real& at = to[(n + i) * ldt + k];
                at = add ? at + total : total;
            }
        n += count;
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

// The same in whole numbers from −127 to 127, each times its column's scale: scales[at + n] = max_k |source[n][k]| / 127.
// Four rows of a panel lie together, in the four bytes of a lane; so K is a multiple of 4, and what is beyond `depth` zero.
// Packing happens once, so it need not be fast.
template <typename real>
UNSPOOL_APART void pack_int8(int8_t* panels, real* scales, int64_t K, int64_t depth, int64_t at, const real* source, int64_t N) {
    constexpr int W = NR<real>;
    for (int64_t n = 0; n < N; ++n) {
        const real* row = source + n * depth;
        real largest = 0;
        for (int64_t k = 0; k < depth; ++k) largest = std::max(largest, row[k] < 0 ? -row[k] : row[k]);
        const real inverse = largest > 0 ? real(127) / largest : real(0);
        int8_t* lane = panels + (at + n) / W * W * K + (at + n) % W * 4;
        scales[at + n] = largest / real(127);
        for (int64_t k = 0; k < depth; ++k)
            lane[k / 4 * 4 * W + k % 4] = int8_t(row[k] * inverse + (row[k] < 0 ? real(-0.5) : real(0.5)));
    }
}

// Rows of a tile, at most: of whole numbers fewer, since they take long to compile, and are seldom met by many rows.
template <typename stored> constexpr int MOST_ROWS = sizeof(stored) == 1 ? std::min(MR, 6) : MR;

// How far ahead a panel is fetched from the second-level cache, in its own rows, and for how many rows of A at least: with
// fewer of them, fetching costs more than it saves.
constexpr int AHEAD = 16, MANY_ROWS = 9;

// What a product sums over: rows of A, given by pointers, and the panels of the matrix that they meet.
template <typename real, typename stored = real> struct Operand {
    const real* const* rows;
    const stored* panels;
    int64_t depth;       // how much of K
    int64_t stride;      // from panel to panel
    int64_t at = 0;      // where in the rows it begins
    const real* scales = nullptr;  // of whole numbers: one per column
};

template <int M, int V, typename real>
UNSPOOL_INLINE void store_tile(vec<real> (&sums)[M][V], real* c, int64_t ldc, bool add, int64_t columns) {
    if (columns >= V * LANES<real>) {
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
            for (int v = 0; v < V; ++v) {
                real* at = c + m * ldc + v * LANES<real>;
                store(at, add ? load(at) + sums[m][v] : sums[m][v]);
            }
        return;
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
            const int64_t left = columns - v * LANES<real>;
            if (left <= 0) continue;
            const int part = int(left < LANES<real> ? left : LANES<real>);
            real* at = c + m * ldc + v * LANES<real>;
            store_part(at, add ? load_part(at, part) + sums[m][v] : sums[m][v], part);
        }
}

// M rows times P neighbouring panels, summed over several operands. Few rows take several panels at once, since an
// accumulator can be added to only every fourth cycle or so: it takes eight of them to keep the multipliers busy.
template <int M, int P, typename real>
UNSPOOL_INLINE void tile(
    const Operand<real>* operands, int count, int row, int64_t panel, real* c, int64_t ldc, bool add, int64_t columns) {
    constexpr int V = P * NV;
    vec<real> sums[M][V] = {};
    for (int i = 0; i < count; ++i) {
        const Operand<real>& operand = operands[i];
        const int64_t depth = operand.depth, stride = operand.stride;
        const real* panels = operand.panels + panel * stride;
        const real* rows[M];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) rows[m] = operand.rows[row + m] + operand.at;
        for (int64_t k = 0; k < depth; ++k) {
            if constexpr (M < V && M * V + V >= REGISTERS) {  // then only the rows' entries fit the registers
                vec<real> x[M];
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) x[m] = broadcast(rows[m][k]);
#pragma GCC unroll 8
                for (int v = 0; v < V; ++v) {
                    const vec<real> b = load(panels + v / NV * stride + k * NR<real> + v % NV * LANES<real>);
#pragma GCC unroll 16
                    for (int m = 0; m < M; ++m) sums[m][v] += x[m] * b;
                }
            } else {
                if constexpr (M >= MANY_ROWS) {
                    const real* soon = panels + (k + AHEAD) * NR<real>;
#pragma GCC unroll 8
                    for (int v = 0; v < V; ++v) __builtin_prefetch(soon + v * LANES<real>);
                }
                vec<real> b[V];
#pragma GCC unroll 8
                for (int v = 0; v < V; ++v) b[v] = load(panels + v / NV * stride + k * NR<real> + v % NV * LANES<real>);
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    const vec<real> x = broadcast(rows[m][k]);
#pragma GCC unroll 8
                    for (int v = 0; v < V; ++v) sums[m][v] += x * b[v];
                }
            }
        }
    }
    store_tile<M, V>(sums, c, ldc, add, columns);
}

// The same with one operand whose panels hold whole numbers: a byte of each lane at a time, moved to its top and back.
template <int M, int P, typename real>
UNSPOOL_INLINE void tile(
    const Operand<real, int8_t>* operands, int, int row, int64_t panel, real* c, int64_t ldc, bool add, int64_t columns) {
    static_assert(sizeof(real) == 4);
    constexpr int V = P * NV;
    typedef int32_t lanes __attribute__((vector_size(BYTES), aligned(1), may_alias));
    vec<real> sums[M][V] = {};
    const Operand<real, int8_t>& operand = operands[0];
    const int8_t* panels = operand.panels + panel * operand.stride;
    auto four = [&](int64_t k, int count) __attribute__((always_inline)) {
        ivec<real> w[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v)
            w[v] = *reinterpret_cast<const lanes*>(panels + v / NV * operand.stride + k * NR<real> + v % NV * BYTES);
#pragma GCC unroll 4
        for (int i = 0; i < count; ++i)
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                const vec<real> x = broadcast(operand.rows[row + m][operand.at + k + i]);
#pragma GCC unroll 8
                for (int v = 0; v < V; ++v)
                    sums[m][v] += x * __builtin_convertvector((w[v] << (24 - 8 * i)) >> 24, vec<real>);
            }
    };
    int64_t k = 0;
    for (; k + 4 <= operand.depth; k += 4) four(k, 4);
    if (k < operand.depth) four(k, int(operand.depth - k));
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sums[m][v] *= load(operand.scales + panel * NR<real> + v * LANES<real>);
    store_tile<M, V>(sums, c, ldc, add, columns);
}

template <typename real, typename stored>
UNSPOOL_INLINE void tiles(
    int rows, const Operand<real, stored>* operands, int count, int64_t panel, real* c, int64_t ldc, bool add, int64_t columns, int blocks) {
    const int least = rows / blocks, larger = rows % blocks;  // 16 rows are 6 + 5 + 5, not 6 + 6 + 4
    for (int block = 0, row = 0; block < blocks; ++block) {
        const int m = least + (block < larger);
        switch (m) {
#define UNSPOOL_TILE(M) \
    case M: \
        if constexpr (M <= MOST_ROWS<stored>) tile<M, 1>(operands, count, row, panel, c + row * ldc, ldc, add, columns); \
        break;
            UNSPOOL_TILE(1) UNSPOOL_TILE(2) UNSPOOL_TILE(3) UNSPOOL_TILE(4) UNSPOOL_TILE(5)
#if defined(__AVX__)
            UNSPOOL_TILE(6)
#endif
#if defined(__AVX512F__)
            UNSPOOL_TILE(7) UNSPOOL_TILE(8) UNSPOOL_TILE(9) UNSPOOL_TILE(10) UNSPOOL_TILE(11) UNSPOOL_TILE(12)
#endif
#undef UNSPOOL_TILE
        }
        row += m;
    }
}

// Panels first ≤ p < last of C[r] = Σ A[r] · B, or C[r] += Σ A[r] · B, over operands; C has N columns and row stride ldc.
// Going down and up in turns finds the last panels still in the first-level cache.
template <typename real, typename stored>
UNSPOOL_APART void product_pass(
    int rows, const Operand<real, stored>* operands, int count, int64_t first, int64_t last, int64_t N, real* C, int64_t ldc, bool add,
    bool down) {
    constexpr int W = NR<real>;
    const int wide = rows == 1 ? 4 : rows <= 3 ? 2 : 1, blocks = (rows + MOST_ROWS<stored> - 1) / MOST_ROWS<stored>;
    const int64_t turns = (last - first) / wide;
    const int64_t all = turns + (last - first) % wide;  // wide ones, then what is left singly
    for (int64_t turn = 0; turn < all; ++turn) {
        const bool single = wide == 1 || turn >= turns;
        const int64_t p = single && wide > 1 ? first + turns * wide + (turn - turns) : first + (down ? turns - 1 - turn : turn) * wide;
        real* c = C + p * W;
        if (single) tiles(rows, operands, count, p, c, ldc, add, N - p * W, blocks);
        else if (rows == 1) tile<1, 4>(operands, count, 0, p, c, ldc, add, N - p * W);
        else if (rows == 2) tile<2, 2>(operands, count, 0, p, c, ldc, add, N - p * W);
        else tile<3, 2>(operands, count, 0, p, c, ldc, add, N - p * W);
    }
}

// The same in passes: over no more of a panel at a time than the first-level cache holds beside the rows.
template <int MOST, typename real, typename stored>
void product(
    int rows, const Operand<real, stored>* operands, int count, int64_t first, int64_t last, int64_t N, real* C, int64_t ldc, bool add,
    bool down = false) {
    constexpr int64_t DEEP = 2048 / sizeof(real);
    if (rows == 0) return;
    Operand<real, stored> pass[MOST + 1];
    int taken = 0;
    int64_t depth = 0;
    for (int i = 0; i < count; ++i)
        for (int64_t k = 0; k < operands[i].depth;) {
            const int64_t part = operands[i].depth - k < DEEP - depth ? operands[i].depth - k : DEEP - depth;
            pass[taken++] = {operands[i].rows, operands[i].panels + k * NR<real>, part, operands[i].stride, operands[i].at + k, operands[i].scales};
            depth += part;
            k += part;
            if (depth < DEEP) continue;
            product_pass(rows, pass, taken, first, last, N, C, ldc, add, down);
            taken = 0;
            depth = 0;
            add = true;
        }
    if (taken || !add) product_pass(rows, pass, taken, first, last, N, C, ldc, add, down);
}

// The same for one row and a matrix as it lies, B[k][n] = weights[n][k]: for calls so short that packing would not pay.
template <typename real>
UNSPOOL_APART void product_unpacked(const real* a, int64_t K, const real* weights, int64_t N, real* c, bool add) {
    constexpr int L = LANES<real>;
    for (int64_t n = 0; n < N; n += L) {
        const int count = int(N - n < L ? N - n : L);
        const real* w[L];
        for (int i = 0; i < L; ++i) w[i] = weights + (n + (i < count ? i : 0)) * K;
        vec<real> sums[L] = {};
        int64_t k = 0;
        for (; k + L <= K; k += L)
#pragma GCC unroll 16
            for (int i = 0; i < L; ++i) sums[i] += load(a + k) * load(w[i] + k);
        if (k < K)
            for (int i = 0; i < L; ++i) sums[i] += load_part(a + k, int(K - k)) * load_part(w[i] + k, int(K - k));
        transpose<real>(sums);
        vec<real> total = sums[0];
#pragma GCC unroll 16
        for (int i = 1; i < L; ++i) total += sums[i];
        store_part(c + n, add ? load_part(c + n, count) + total : total, count);
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

}  // namespace unspool
