// Further elementwise functions of vectors: at most 2 ulp off for every number, NaN and ±∞ as in NumPy.
#pragma once

#include "mathematics.h"

namespace unspool {

// ln(1 + v): the logarithm of the rounded sum, and what the rounding lost.
template <typename real> UNSPOOL_INLINE vec<real> vlog1p(vec<real> v) {
    const vec<real> u = v + 1, log = vlog<real>(u), rest = (v - (u - 1)) / u;
    const ivec<real> exact = (u <= 0) | (v > std::numeric_limits<real>::max());
    return v == 0 ? v : exact ? log : log + rest;
}

// ln(1 + eᵛ) = max(v, 0) + ln(1 + e^−|v|)
template <typename real> UNSPOOL_INLINE vec<real> vsoftplus(vec<real> v) {
    return vrelu<real>(v) + vlog1p<real>(vexp<real>(-vabs<real>(v)));
}

// Near 0, v times a polynomial in v². Beyond, 1 − e^−v² · q with q = e^v² erfc(v), a polynomial in 1/(|v| + k): whatever
// is rounded there is small beside the 1.
template <typename real> UNSPOOL_INLINE vec<real> verf(vec<real> v) {
    const bits<real> sign = bits<real>(v) & Real<real>::SIGN;
    const vec<real> a = vec<real>(bits<real>(v) ^ sign), u = v * v;
    const vec<real> far = at_most<real>(sizeof(real) == 4 ? real(4.1) : real(6.1), a);
    vec<real> near, q;
    if constexpr (sizeof(real) == 4) {
        near = polynomial<real>(u, -0x1.812746p-2f, 0x1.ce2ef8p-4f, -0x1.b823d2p-6f, 0x1.559d18p-8f, -0x1.b1d502p-11f,
                                0x1.767da4p-14f);
        near = v + v * (u * near + 0x1.06eba8p-3f);
        const vec<real> t = 1 / (far + 1.5f);
        q = polynomial<real>(t, 0x1.b3e4f8p-14f, 0x1.1f1816p-1f, 0x1.ca1cb6p-1f, 0x1.3bf918p-1f, 0x1.2458cp1f,
                             -0x1.2a0346p2f, 0x1.307b56p1f);
    } else {
        near = polynomial<real>(u, -0x1.812746b0379e7p-2, 0x1.ce2f21a042be0p-4, -0x1.b82ce31288a0cp-6,
                                0x1.565bcd0e63200p-8, -0x1.c02db3fd9b435p-11, 0x1.f9a32666b3c73p-14,
                                -0x1.f4d247fc17907p-17, 0x1.b9e4f26170ae8p-20, -0x1.5f577b7f391ecp-23,
                                0x1.fa72d111232d3p-27, -0x1.42627ac130893p-30, 0x1.2481496277bdbp-34);
        near = v + v * (u * near + 0x1.06eba8214db69p-3);
        const vec<real> t = 1 / (far + 2);
        q = polynomial<real>(t, 0x1.b9005ad27f215p-26, 0x1.20dd33fc36d2cp-1, 0x1.20e1d37235002p0, 0x1.f9299f6982246p0,
                             0x1.6b74e33ee0785p1, 0x1.418c3fdb79c57p1, 0x1.4ebd76276cea4p-1, -0x1.1c4d36ce3834fp3,
                             -0x1.2c18c6a56d6f5p5, 0x1.0d71bf236b707p8, -0x1.7e45f30ff8ccep10, 0x1.80bee96a5d0fep12,
                             -0x1.eac68135a2c88p13, 0x1.8fd4561169bb9p14, -0x1.9af2453e7e05cp14, 0x1.ebab66a32ad76p13,
                             -0x1.076eb9e1cd276p12);
    }
    const vec<real> beyond = vec<real>(bits<real>(1 - vexp<real>(-far * far) * q) | sign);
    return a < real(0.9) ? near : beyond;  // NaN goes beyond, through `far`
}

// An angle v = n · ½π + (r + rest) with |r| ≤ ¼π: which quarter it is in, and where.
template <typename real> struct Angle {
    ivec<real> quarter;
    vec<real> r, rest;
};

// So large an angle is left to the C library: taking away n · ½π would need more digits of π.
template <typename real> constexpr real LARGEST_ANGLE = real(500000);

template <typename real> UNSPOOL_INLINE Angle<real> reduce_angle(vec<real> v) {
    constexpr double TURN = 0x1.45f306dc9c883p-1, FIRST = 0x1.921fb544p0;  // 2/π; ½π, short so that n · FIRST is exact
    if constexpr (sizeof(real) == 4) {
        typedef double wide __attribute__((vector_size(2 * BYTES)));
        const wide d = __builtin_convertvector(v, wide), n = (d * TURN + ROUNDER<double>) - ROUNDER<double>;
        const wide r = (d - n * FIRST) - n * 0x1.0b4611a626331p-34;
        return {__builtin_convertvector(n, ivec<real>), __builtin_convertvector(r, vec<real>), vec<real>{}};
    } else {
        const vec<real> t = v * TURN + ROUNDER<real>, n = t - ROUNDER<real>;
        const vec<real> a = v - n * FIRST, w = n * 0x1.0b4611a6p-34, s = a - w, back = s - a;
        const vec<real> lost = ((a - (s - back)) - (w + back)) - n * 0x1.3198a2e037073p-69, r = s + lost;
        return {ivec<real>(bits<real>(t)), r, lost - (r - s)};
    }
}

// The sine (0) or cosine (1) of an angle.
template <typename real> UNSPOOL_INLINE vec<real> sine_of(Angle<real> angle, int ahead) {
    const vec<real> r = angle.r, u = r * r, half = u * real(0.5);
    vec<real> s, c;
    if constexpr (sizeof(real) == 4) {
        s = polynomial<real>(u, -0x1.555556p-3f, 0x1.11110ep-7f, -0x1.a0132cp-13f, 0x1.6d969ep-19f);
        c = polynomial<real>(u, 0x1.555554p-5f, -0x1.6c1286p-10f, 0x1.9baff2p-16f);
    } else {
        s = polynomial<real>(u, -0x1.5555555555555p-3, 0x1.111111111111p-7, -0x1.a01a01a0197d4p-13,
                             0x1.71de3a54361f8p-19, -0x1.ae6453ca65b3dp-26, 0x1.612146c012422p-33,
                             -0x1.aaf7413aa6338p-41);
        c = polynomial<real>(u, 0x1.5555555555555p-5, -0x1.6c16c16c16c16p-10, 0x1.a01a01a019c6cp-16,
                             -0x1.27e4fb76fff37p-22, 0x1.1eed8dcb66c6fp-29, -0x1.939487f8b82d5p-37,
                             0x1.ab5b60f370243p-45);
    }
    const vec<real> sine = r + (r * (u * s) + angle.rest * (1 - half)), one = 1 - half;
    const vec<real> cosine = one + (((1 - one) - half) + (u * u * c - r * angle.rest));
    const ivec<real> quarter = angle.quarter + ahead;
    const vec<real> found = (quarter & 1) != 0 ? cosine : sine;
    return vec<real>(bits<real>(found) ^ (bits<real>(quarter & 2) << (8 * sizeof(real) - 2)));
}

template <typename real, typename Exact> UNSPOOL_INLINE vec<real> sine(vec<real> v, int ahead, Exact exact) {
    const ivec<real> large = vabs<real>(v) > LARGEST_ANGLE<real>;
    bool any = false;
    for (int lane = 0; lane < LANES<real>; ++lane) any |= large[lane] != 0;
    if (__builtin_expect(any, 0)) {
        for (int lane = 0; lane < LANES<real>; ++lane) v[lane] = exact(v[lane]);
        return v;
    }
    return sine_of<real>(reduce_angle<real>(v), ahead);
}
template <typename real> UNSPOOL_INLINE vec<real> vsin(vec<real> v) {
    // the sign of zero is the only one that the reduction loses
    return v == 0 ? v : sine<real>(v, 0, [](real x) { return sizeof(real) == 4 ? real(__builtin_sinf(float(x))) : real(__builtin_sin(x)); });
}
template <typename real> UNSPOOL_INLINE vec<real> vcos(vec<real> v) {
    return sine<real>(v, 1, [](real x) { return sizeof(real) == 4 ? real(__builtin_cosf(float(x))) : real(__builtin_cos(x)); });
}

#define UNSPOOL_LIFT(function)                                                                         \
    template <typename real, typename... X, IfAnyBoth<X...> = 0> UNSPOOL_INLINE auto function(const X&... x) { \
        return for_both([](const auto&... v) { return function<real>(v...); }, x...);                  \
    }
UNSPOOL_LIFT(vlog1p) UNSPOOL_LIFT(vsoftplus) UNSPOOL_LIFT(verf) UNSPOOL_LIFT(vsin) UNSPOOL_LIFT(vcos)
#undef UNSPOOL_LIFT

}  // namespace unspool
