// Vectors of reals in the widest registers that the compiler was told of; plain GNU vector code, no intrinsics.
#pragma once

#include <cstdint>
#include <cstring>

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

template <typename real> UNSPOOL_INLINE real sum(vec<real> v) {
    real total = 0;
    for (int lane = 0; lane < LANES<real>; ++lane) total += v[lane];
    return total;
}

}  // namespace unspool
