// The vector functions as C functions of arrays, which hold a multiple of 16 numbers: what test_mathematics.py calls.
#include "functions.h"

using namespace unspool;

#define EXPORT(name, real, suffix, result)                                                                 \
    extern "C" void name##_##suffix(const real* left, const real* right, real* out, int64_t count) {       \
        for (int64_t i = 0; i < count; i += LANES<real>) {                                                 \
            [[maybe_unused]] const vec<real> a = load<real>(left + i), b = load<real>(right + i);          \
            store<real>(out + i, result);                                                                  \
        }                                                                                                  \
    }
#define ONE(name)                                    \
    EXPORT(name, float, float32, v##name<float>(a))  \
    EXPORT(name, double, float64, v##name<double>(a))
#define TWO(name)                                       \
    EXPORT(name, float, float32, v##name<float>(a, b))  \
    EXPORT(name, double, float64, v##name<double>(a, b))

ONE(exp) ONE(log) ONE(tanh) ONE(sigmoid) ONE(sqrt) ONE(abs) ONE(relu)
ONE(log1p) ONE(softplus) ONE(erf) ONE(sin) ONE(cos)
TWO(minimum) TWO(maximum)
EXPORT(where, float, float32, vwhere<float>(a < b, a, b))
EXPORT(where, double, float64, vwhere<double>(a < b, a, b))

// The C library's function in the highest precision there is; NumPy has none.
extern "C" void erf_true(const long double* v, long double* out, int64_t count) {
    for (int64_t i = 0; i < count; ++i) out[i] = __builtin_erfl(v[i]);
}

// The highest x86-64 level of this processor that the kernels are built for; 1 on every other architecture.
extern "C" int level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
    const bool foundation = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd");
    const bool rest = __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq");
    return foundation && rest ? 4 : 3;
#else
    return 1;
#endif
}
