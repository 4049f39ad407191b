// Elementwise functions of vectors: at most 2 ulp off for every number, NaN and ±∞ as in NumPy, and no branches.
//
// The bound holds with and without fused multiply-add, which a compiler uses wherever it can. sigmoid and tanh come so
// near to it that the order of their sums matters.
#pragma once

#include <limits>
#include <type_traits>

#include "vector.h"

namespace unspool {

// How a real is laid out, and what depends on it. LN2 is short, so that n · LN2 is exact for every exponent n; beyond
// the least and the most a function no longer changes.
template <typename real> struct Real;
template <> struct Real<float> {
    typedef uint32_t bits __attribute__((vector_size(BYTES)));
    static constexpr uint32_t SIGN = 0x80000000, FRACTION = 0x007fffff, ONE = 0x3f800000, ROOT_HALF = 0x3f3504f3;
    static constexpr int DIGITS = 23, BIAS = 127;
    static constexpr float LOG2E = 0x1.715476p0f, LN2 = 0x1.62e4p-1f, LN2_REST = 0x1.7f7d1cp-20f;
    static constexpr float EXP_LEAST = -104, EXP_MOST = 89, SIGMOID_MOST = 30, TANH_MOST = 9.02f;
};
template <> struct Real<double> {
    typedef uint64_t bits __attribute__((vector_size(BYTES)));
    static constexpr uint64_t SIGN = 0x8000000000000000, FRACTION = 0x000fffffffffffff;
    static constexpr uint64_t ONE = 0x3ff0000000000000, ROOT_HALF = 0x3fe6a09e667f3bcd;
    static constexpr int DIGITS = 52, BIAS = 1023;
    static constexpr double LOG2E = 0x1.71547652b82fep0, LN2 = 0x1.62e42fefa38p-1, LN2_REST = 0x1.ef35793c7673p-45;
    static constexpr double EXP_LEAST = -746, EXP_MOST = 710, SIGMOID_MOST = 40, TANH_MOST = 19.1;
};
template <typename real> using bits = typename Real<real>::bits;

// A number this large has no fraction left: adding it rounds to the nearest integer, which then fills the lowest bits.
template <typename real> constexpr real ROUNDER = real(3ull << (Real<real>::DIGITS - 1));

template <typename real> UNSPOOL_INLINE vec<real> vwhere(ivec<real> condition, vec<real> a, vec<real> b) {
    return condition ? a : b;
}
template <typename real> UNSPOOL_INLINE vec<real> vabs(vec<real> v) {
    return vec<real>(bits<real>(v) & ~Real<real>::SIGN);
}
template <typename real> UNSPOOL_INLINE vec<real> vsqrt(vec<real> v) {
    for (int lane = 0; lane < LANES<real>; ++lane) v[lane] = __builtin_sqrt(v[lane]);
    return v;
}
template <typename real> UNSPOOL_INLINE vec<real> vminimum(vec<real> a, vec<real> b) {
    return ((a < b) | (a != a)) ? a : b;
}
template <typename real> UNSPOOL_INLINE vec<real> vmaximum(vec<real> a, vec<real> b) {
    return ((a > b) | (a != a)) ? a : b;
}

// A bound whose value the compiler cannot see: it makes one instruction of a minimum of variables, two of a constant's.
// The comparisons stand the way round in which that instruction hands NaN (and, in relu, −0) through.
template <typename real> UNSPOOL_INLINE vec<real> hidden(real bound) {
    asm("" : "+r"(bound));
    return broadcast<real>(bound);
}
template <typename real> UNSPOOL_INLINE vec<real> at_least(real bound, vec<real> v) {
    const vec<real> b = hidden<real>(bound);
    return b > v ? b : v;
}
template <typename real> UNSPOOL_INLINE vec<real> at_most(real bound, vec<real> v) {
    const vec<real> b = hidden<real>(bound);
    return b < v ? b : v;
}
template <typename real> UNSPOOL_INLINE vec<real> vrelu(vec<real> v) { return at_least<real>(0, v); }

// c₀ + c₁x + c₂x² + …; below, always with the c of least greatest error on the interval that x is reduced to.
template <typename real> UNSPOOL_INLINE vec<real> polynomial(vec<real>, real c) { return broadcast<real>(c); }
template <typename real, typename... Rest> UNSPOOL_INLINE vec<real> polynomial(vec<real> x, real c, Rest... rest) {
    return polynomial<real>(x, rest...) * x + c;
}

// eʳ − 1 for |r| ≤ ½ ln 2, where eᵛ = 2ⁿ eʳ.
template <typename real> UNSPOOL_INLINE vec<real> exp_rest(vec<real> v, vec<real> n) {
    const vec<real> r = (v - n * Real<real>::LN2) - n * Real<real>::LN2_REST;
    vec<real> q;
    if constexpr (sizeof(real) == 4)
        q = polynomial<real>(r, 0x1.fffffcp-2f, 0x1.55548cp-3f, 0x1.555858p-5f, 0x1.123dep-7f, 0x1.6ac73cp-10f);
    else
        q = polynomial<real>(r, 0x1.000000000000cp-1, 0x1.5555555555559p-3, 0x1.555555554ff91p-5,
                             0x1.111111110f6afp-7, 0x1.6c16c185c23ecp-10, 0x1.a01a01afe5073p-13,
                             0x1.a0199657be5bep-16, 0x1.71ddf853eca68p-19, 0x1.28b078762950ap-22,
                             0x1.af5ebe81249cap-26);
    return q * (r * r) + r;
}

// 2ⁿ goes on in two halves: neither leaves the normal numbers, and only the last product rounds to a subnormal or to ∞.
template <typename real> UNSPOOL_INLINE vec<real> vexp(vec<real> v) {
    constexpr real SHIFT = ROUNDER<real> + 2 * Real<real>::BIAS;
    v = at_most<real>(Real<real>::EXP_MOST, at_least<real>(Real<real>::EXP_LEAST, v));
    const vec<real> t = v * Real<real>::LOG2E + SHIFT;
    const bits<real> n = bits<real>(t), half = n >> 1;
    const vec<real> p = exp_rest<real>(v, t - SHIFT) + 1;
    return p * vec<real>(half << Real<real>::DIGITS) * vec<real>((n - half) << Real<real>::DIGITS);
}

// 1/(1 + e⁻ᵛ), both parts scaled by 2⁻⁶⁴ so that e⁻ᵛ does not overflow before σ has gone through the subnormals.
// The large power of two comes last into the sum: what was rounded before it is at most half a unit of the sum.
template <typename real> UNSPOOL_INLINE vec<real> vsigmoid(vec<real> v) {
    constexpr real SHIFT = ROUNDER<real> + Real<real>::BIAS - 64, ONE = real(0x1p-64);
    v = at_most<real>(Real<real>::SIGMOID_MOST, at_least<real>(Real<real>::EXP_LEAST, v));
    const vec<real> t = v * -Real<real>::LOG2E + SHIFT, s = vec<real>(bits<real>(t) << Real<real>::DIGITS);
    return ONE / (s + (exp_rest<real>(-v, t - SHIFT) * s + ONE));
}

// With v = n·½ ln 2 + r, s = 2ⁿ and d = r coth r − r:  tanh v = y/(y + d),  y = ½(s − 1)·d + s·r. Where n = 0, y is v.
//
// Which n is not critical, and errors are smallest when it stays low until tanh v reaches the next power of two: in
// double by an offset; in float, where time counts most, by a small factor that lets r grow with v, for large v matters
// ever less. For that reason float also needs no second part of ln 2.
template <typename real> UNSPOOL_INLINE vec<real> vtanh(vec<real> v) {
    constexpr real SHIFT = ROUNDER<real> + Real<real>::BIAS;
    const bits<real> sign = bits<real>(v) & Real<real>::SIGN;
    const vec<real> a = at_most<real>(Real<real>::TANH_MOST, vec<real>(bits<real>(v) ^ sign));
    vec<real> t, r, d;
    if constexpr (sizeof(real) == 4) {
        t = a * 2.7f + SHIFT;
        r = a - (t - SHIFT) * 0x1.62e43p-2f;
        d = polynomial<real>(r * r, 1.0f, 0x1.5554f4p-2f, -0x1.6a2a82p-6f) - r;
    } else {
        t = (a * 2.8853900817779268 - 0.2375) + SHIFT;
        r = (a - (t - SHIFT) * (Real<real>::LN2 / 2)) - (t - SHIFT) * (Real<real>::LN2_REST / 2);
        d = polynomial<real>(r * r, 1.0, 0x1.5555555555553p-2, -0x1.6c16c16c13f37p-6, 0x1.1566abb73e4c5p-9,
                             -0x1.bbd75fd811b9ap-13, 0x1.6696949d760f9p-16, -0x1.1bf4731748f66p-19) - r;
    }
    const vec<real> s = vec<real>(bits<real>(t) << Real<real>::DIGITS);
    const vec<real> y = (s * real(0.5) - real(0.5)) * d + s * r;
    return vec<real>(bits<real>(y / (y + d)) | sign);
}

// v = 2ᵉ(1 + f) with √½ ≤ 1 + f < √2;  ln(1 + f) = 2 artanh s = f − (½f² − s·(½f² + R(s²))),  s = f/(2 + f).
template <typename real> UNSPOOL_INLINE vec<real> vlog(vec<real> v) {
    using R = Real<real>;
    using limits = std::numeric_limits<real>;
    constexpr real SCALE = real(1ull << R::DIGITS), SHIFT = SCALE + R::BIAS;
    const ivec<real> subnormal = v < limits::min();
    const bits<real> i = bits<real>(subnormal ? v * SCALE : v) + (R::ONE - R::ROOT_HALF);
    const vec<real> e = vec<real>((i >> R::DIGITS) | bits<real>(broadcast<real>(SCALE))) -
                        (subnormal ? broadcast<real>(SHIFT + R::DIGITS) : broadcast<real>(SHIFT));
    const vec<real> f = vec<real>((i & R::FRACTION) + R::ROOT_HALF) - 1, s = f / (f + 2), u = s * s;
    vec<real> q;
    if constexpr (sizeof(real) == 4)
        q = polynomial<real>(u, 0x1.55557ap-1f, 0x1.995ed4p-2f, 0x1.31e0d8p-2f);
    else
        q = polynomial<real>(u, 0x1.5555555555592p-1, 0x1.999999997fefp-2, 0x1.24924941e50c6p-2, 0x1.c71c52106c1d2p-3,
                             0x1.74663ddf6beb0p-3, 0x1.39a1cd25b2c36p-3, 0x1.2f04edc9e6d51p-3);
    const vec<real> h = f * f * real(0.5), log = e * R::LN2 + (f - (h - (s * (h + u * q) + e * R::LN2_REST)));
    const vec<real> zero_or_less = v < 0 ? broadcast<real>(limits::quiet_NaN()) : broadcast<real>(-limits::infinity());
    return v <= 0 ? zero_or_less : v < limits::infinity() ? log : v;  // the last is ∞ or NaN itself
}

// Two vectors side by side, and everything above for them; what is the same for both stands alone.
template <typename V> struct Both {
    V a, b;
};
template <typename V> UNSPOOL_INLINE V first_of(const V& v) { return v; }
template <typename V> UNSPOOL_INLINE V first_of(const Both<V>& v) { return v.a; }
template <typename V> UNSPOOL_INLINE V second_of(const V& v) { return v; }
template <typename V> UNSPOOL_INLINE V second_of(const Both<V>& v) { return v.b; }
template <typename V> struct IsBoth : std::false_type {};
template <typename V> struct IsBoth<Both<V>> : std::true_type {};
template <typename... X> using IfAnyBoth = std::enable_if_t<(IsBoth<X>::value || ...), int>;

template <typename F, typename... X> UNSPOOL_INLINE auto for_both(F f, const X&... x) {
    return Both<decltype(f(first_of(x)...))>{f(first_of(x)...), f(second_of(x)...)};
}
#define UNSPOOL_LIFT(function)                                                                         \
    template <typename real, typename... X, IfAnyBoth<X...> = 0> UNSPOOL_INLINE auto function(const X&... x) { \
        return for_both([](const auto&... v) { return function<real>(v...); }, x...);                  \
    }
UNSPOOL_LIFT(vsigmoid) UNSPOOL_LIFT(vtanh) UNSPOOL_LIFT(vrelu) UNSPOOL_LIFT(vexp) UNSPOOL_LIFT(vlog) UNSPOOL_LIFT(vsqrt)
UNSPOOL_LIFT(vabs) UNSPOOL_LIFT(vminimum) UNSPOOL_LIFT(vmaximum) UNSPOOL_LIFT(vwhere)
#undef UNSPOOL_LIFT
#define UNSPOOL_LIFT(sign)                                                                                        \
    template <typename X, typename Y, IfAnyBoth<X, Y> = 0> UNSPOOL_INLINE auto operator sign(const X& x, const Y& y) { \
        return for_both([](const auto& v, const auto& w) { return v sign w; }, x, y);                             \
    }
UNSPOOL_LIFT(+) UNSPOOL_LIFT(-) UNSPOOL_LIFT(*) UNSPOOL_LIFT(/) UNSPOOL_LIFT(<) UNSPOOL_LIFT(<=)
#undef UNSPOOL_LIFT
template <typename V> UNSPOOL_INLINE Both<V> operator-(const Both<V>& v) { return {-v.a, -v.b}; }

}  // namespace unspool
