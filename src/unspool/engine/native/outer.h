// Sums of outer products, which weight gradients are; and the list of all products that know no cell.
#pragma once

#include "product.h"

namespace unspool {

// C (M × N, row stride ldc) += Σ_k A[k]ᵀ B[k] with A[k] (M wide) packed by pack_row and B row-major with stride ldb. What
// is needed next, of B by the following columns and of C at the end, is on its way while the sums are formed.
template <int M, bool whole, typename real>
UNSPOOL_INLINE void outer_tile(
    int64_t K, const real* a, const real* b, int64_t ldb, real* c, int64_t ldc, int rows, int columns, bool ahead) {
    vec<real> sums[M][NV] = {};
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) __builtin_prefetch(c + (m < rows ? m : 0) * ldc, 1);
    for (int64_t k = 0; k < K; ++k) {
        vec<real> y[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) {
            const real* at = b + k * ldb + v * LANES<real>;
            int left = columns - v * LANES<real>;
            if constexpr (whole) y[v] = load(at);
            else y[v] = left > 0 ? load_part(at, left < LANES<real> ? left : LANES<real>) : vec<real>{};
        }
        if (ahead) __builtin_prefetch(b + k * ldb + NR<real>);
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            vec<real> x = broadcast(a[k * M + m]);
#pragma GCC unroll 4
            for (int v = 0; v < NV; ++v) sums[m][v] += x * y[v];
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        if (m >= rows) break;
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) {
            int left = columns - v * LANES<real>;
            real* at = c + m * ldc + v * LANES<real>;
            if (left >= LANES<real>) store(at, load(at) + sums[m][v]);
            else if (left > 0) store_part(at, load_part(at, left) + sums[m][v], left);
        }
    }
}

// to[j] += Σ_i from[i][j] for 0 ≤ j < columns, each column's sum from the first row to the last.
template <typename real> UNSPOOL_INLINE void add_rows(int64_t rows, const real* from, int64_t stride, int64_t columns, real* to) {
    constexpr int V = 4, L = LANES<real>;
    int64_t j = 0;
    for (; j + V * L <= columns; j += V * L) {
        vec<real> sums[V] = {};
        for (int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) sums[v] += load(from + i * stride + j + v * L);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) store(to + j + v * L, load(to + j + v * L) + sums[v]);
    }
    for (; j < columns; j += L) {
        const int count = int(std::min<int64_t>(L, columns - j));
        vec<real> sum{};
        if (count == L)
            for (int64_t i = 0; i < rows; ++i) sum += load(from + i * stride + j);
        else
            for (int64_t i = 0; i < rows; ++i) sum += load_part(from + i * stride + j, count);
        store_part(to + j, load_part(to + j, count) + sum, count);
    }
}

// The same for columns first ≤ j < last of any number of rows: sums of a few rows are added up to sums of many, and those
// to the whole. So no sum is of many terms, which keeps it exact, and rows are read in the order in which they lie.
template <typename real>
UNSPOOL_APART void add_columns(int64_t rows, const real* from, int64_t stride, int64_t first, int64_t last, real* to) {
    constexpr int64_t FEW = 64, MANY = 64 * FEW, STRIP = 512;
    if (rows <= FEW) return add_rows(rows, from + first, stride, last - first, to + first);
    for (int64_t j = first; j < last; j += STRIP) {
        const int64_t columns = std::min(STRIP, last - j);
        real whole[STRIP] = {};
        for (int64_t start = 0; start < rows; start += MANY) {
            real sums[STRIP] = {};
            const int64_t end = std::min(rows, start + MANY);
            for (int64_t i = start; i < end; i += FEW) add_rows(std::min(FEW, end - i), from + i * stride + j, stride, columns, sums);
            for (int64_t k = 0; k < columns; ++k) whole[k] += sums[k];
        }
        for (int64_t k = 0; k < columns; ++k) to[j + k] += whole[k];
    }
}

// Panels of MR entries: panel p holds A[k][p·MR … p·MR+MR) for k = 0 … room−1, the last one padded with zeros.
template <typename real> int64_t packed_rows_size(int64_t room, int64_t M) { return room * round_up(M, MR); }

// Entries first … last of one row, so that threads can share it.
template <typename real>
UNSPOOL_APART void pack_row(real* panels, int64_t room, int64_t k, const real* row, int64_t M, int64_t first, int64_t last) {
    const auto place = [&](int64_t m) { return panels + (m / MR * room + k) * MR + m % MR; };
    int64_t m = first;
    for (; m < last && m % MR; ++m) *place(m) = row[m];
    for (; m + MR <= last; m += MR) std::memcpy(place(m), row + m, MR * sizeof(real));
    for (; m < last; ++m) *place(m) = row[m];
    if (last == M)
        for (; m % MR; ++m) *place(m) = real(0);
}

// So many rows at a time: enough that adding to C pays, and no more of B's columns than the first-level cache holds.
constexpr int64_t OUTER_ROWS = 192;

// The panels have room for `room` rows, of which the first K are filled.
template <typename real>
UNSPOOL_APART void add_outer(
    int64_t K, int64_t room, const real* packed_rows, int64_t M, const real* B, int64_t ldb, int64_t N, real* C, int64_t ldc) {
    constexpr int W = NR<real>;
    for (int64_t k = 0; k < K; k += OUTER_ROWS) {
        const int64_t depth = K - k < OUTER_ROWS ? K - k : OUTER_ROWS;
        for (int64_t n = 0; n < N; n += W) {
            const int columns = int(N - n < W ? N - n : W);
            const real* b = B + k * ldb + n;
            for (int64_t m = 0; m < M; m += MR) {
                const int rows = int(M - m < MR ? M - m : MR);
                const real* a = packed_rows + m * room + k * MR;
                real* c = C + m * ldc + n;
                if (columns == W) outer_tile<MR, true>(depth, a, b, ldb, c, ldc, rows, columns, m == 0);
                else outer_tile<MR, false>(depth, a, b, ldb, c, ldc, rows, columns, false);
            }
        }
    }
}

}  // namespace unspool

// What of the above knows no cell, for one type of number: most of the work of compiling a kernel. It is compiled once,
// with an empty WHERE, and linked to the kernels, which say `extern`.
#define UNSPOOL_PRODUCTS(WHERE, real) \
    namespace unspool { \
    WHERE template void pack_transposed(real*, int64_t, int64_t, const real*, int64_t, int64_t, int64_t); \
    WHERE template void add_transposed(real*, int64_t, const real* const*, int, int64_t, int64_t, int64_t, bool); \
    WHERE template void pack_straight(real*, int64_t, int64_t, const real*, int64_t, int64_t, int64_t, int64_t); \
    WHERE template void product_pass(int, const Operand<real>*, int, int64_t, int64_t, int64_t, real*, int64_t, bool, bool); \
    WHERE template void product_unpacked(const real*, int64_t, const real*, int64_t, real*, bool); \
    WHERE template void product_back_unpacked(const real*, int64_t, const real*, int64_t, real*); \
    WHERE template void add_columns(int64_t, const real*, int64_t, int64_t, int64_t, real*); \
    WHERE template void pack_row(real*, int64_t, int64_t, const real*, int64_t, int64_t, int64_t); \
    WHERE template void add_outer(int64_t, int64_t, const real*, int64_t, const real*, int64_t, int64_t, real*, int64_t); \
    }

// What plays models of whole numbers; for float alone.
#define UNSPOOL_INT8_PRODUCTS(WHERE) \
    namespace unspool { \
    WHERE template void pack_int8(int8_t*, float*, int64_t, int64_t, int64_t, const float*, int64_t); \
    WHERE template void product_pass(int, const Operand<float, int8_t>*, int, int64_t, int64_t, int64_t, float*, int64_t, bool, bool); \
    }
