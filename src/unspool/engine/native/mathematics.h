// stub
#pragma once
#include <cmath>
#include "vector.h"
namespace unspool {
#define UNARY(name, expr) template <typename real> UNSPOOL_INLINE vec<real> name(vec<real> v) { for (int i = 0; i < LANES<real>; ++i) { real x = v[i]; v[i] = expr; } return v; }
UNARY(vexp, std::exp(x)) UNARY(vlog, std::log(x)) UNARY(vtanh, std::tanh(x)) UNARY(vsigmoid, 1/(1+std::exp(-x))) UNARY(vsqrt, std::sqrt(x)) UNARY(vabs, std::fabs(x)) UNARY(vrelu, (x > 0 ? x : x*0))
template <typename real> UNSPOOL_INLINE vec<real> vwhere(ivec<real> c, vec<real> a, vec<real> b) { return c ? a : b; }
template <typename real> UNSPOOL_INLINE vec<real> vminimum(vec<real> a, vec<real> b) { return a < b ? a : b; }
template <typename real> UNSPOOL_INLINE vec<real> vmaximum(vec<real> a, vec<real> b) { return a > b ? a : b; }
}
