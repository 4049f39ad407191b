// Vectors of reals in the widest registers that the compiler was told of; plain GNU vector code, no intrinsics.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace unspool {

#if defined(__AVX512F__)
constexpr int BYTES = 64;
#elif defined(__AVX__)
constexpr int BYTES = 32;
#else
constexpr int BYTES = 16;
#endif

template <typename real> struct VectorOf;
template <> struct VectorOf<float> {
    typedef float type __attribute__((vector_size(BYTES)));
    typedef float unaligned __attribute__((vector_size(BYTES), aligned(4), may_alias));
    typedef int32_t integers __attribute__((vector_size(BYTES)));
};
template <> struct VectorOf<double> {
    typedef double type __attribute__((vector_size(BYTES)));
    typedef double unaligned __attribute__((vector_size(BYTES), aligned(8), may_alias));
    typedef int64_t integers __attribute__((vector_size(BYTES)));
};

template <typename real> using vec = typename VectorOf<real>::type;
template <typename real> using ivec = typename VectorOf<real>::integers;  // also the type of a comparison: −1 or 0
template <typename real> constexpr int LANES = BYTES / int(sizeof(real));

#define UNSPOOL_INLINE inline __attribute__((always_inline))
#define UNSPOOL_APART __attribute__((noinline))  // one copy is enough: it keeps compiling fast

template <typename real> UNSPOOL_INLINE vec<real> load(const real* p) {
    return *reinterpret_cast<const typename VectorOf<real>::unaligned*>(p);
}
template <typename real> UNSPOOL_INLINE void store(real* p, vec<real> v) {
    *reinterpret_cast<typename VectorOf<real>::unaligned*>(p) = v;
}
template <typename real> UNSPOOL_INLINE vec<real> broadcast(real x) { return x - vec<real>{}; }  // x − 0 is x, −0 too

// The first `count` lanes only; the others are 0.
template <typename real> UNSPOOL_INLINE vec<real> load_part(const real* p, int count) {
    vec<real> v{};
    std::memcpy(&v, p, size_t(count) * sizeof(real));
    return v;
}
template <typename real> UNSPOOL_INLINE void store_part(real* p, vec<real> v, int count) {
    std::memcpy(p, &v, size_t(count) * sizeof(real));
}

// Lane i of v[j] and lane j of v[i] change places: pairs of blocks of S × S lanes do, for S = 1, 2, 4, …
template <typename real, int S, int... lane> UNSPOOL_INLINE void transpose_blocks(vec<real>* v, std::integer_sequence<int, lane...> all) {
    constexpr int L = LANES<real>;
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i) {
        if (i & S) continue;
        const vec<real> a = v[i], b = v[i + S];
#if defined(__clang__)
        v[i] = __builtin_shufflevector(a, b, (lane & S ? L + lane - S : lane)...);
        v[i + S] = __builtin_shufflevector(a, b, (lane & S ? L + lane : lane + S)...);
#else
        v[i] = __builtin_shuffle(a, b, ivec<real>{(lane & S ? L + lane - S : lane)...});
        v[i + S] = __builtin_shuffle(a, b, ivec<real>{(lane & S ? L + lane : lane + S)...});
#endif
    }
    if constexpr (2 * S < L) transpose_blocks<real, 2 * S>(v, all);
}
template <typename real> UNSPOOL_INLINE void transpose(vec<real>* v) {
    transpose_blocks<real, 1>(v, std::make_integer_sequence<int, LANES<real>>{});
}

template <typename real> UNSPOOL_INLINE real sum(vec<real> v) {
    real total = 0;
    for (int lane = 0; lane < LANES<real>; ++lane) total += v[lane];
    return total;
}

}  // namespace unspool
