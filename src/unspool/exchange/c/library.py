"""Small C functions that the exported code calls; a file gets those that it uses.

`@_` stands for the prefix of the exported names. All loops are plain, so that compilers vectorize them. The mathematics
is that of the engine's kernels in float, correct to 2 units in the last place: it needs no libm, gives the same bits
on every machine without fused multiply-add, and is vectorized where calls of expf and tanhf are not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from unspool.exchange.c import text_library

#: In an order in which each may call those before it.
FUNCTIONS: dict[str, str] = {
    "as_float": """\
/* The float that has these bits, and the bits of a float. */
static inline float @_as_float(uint32_t bits)
{
    union { uint32_t bits; float value; } both;
    both.bits = bits;
    return both.value;
}
""",
    "as_bits": """\
static inline uint32_t @_as_bits(float value)
{
    union { uint32_t bits; float value; } both;
    both.value = value;
    return both.bits;
}
""",
    "exp_rest": """\
/* e^r - 1 where v = n ln 2 + r and |r| <= ln 2 / 2. */
static inline float @_exp_rest(float v, float n)
{
    const float r = (v - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    const float q = (((0x1.6ac73cp-10f * r + 0x1.123dep-7f) * r + 0x1.555858p-5f) * r + 0x1.55548cp-3f) * r
                    + 0x1.fffffcp-2f;
    return q * (r * r) + r;
}
""",
    "exp": """\
/* e^v = 2^n e^r; 2^n in two factors, so that only the last product rounds to a subnormal number or to infinity. */
static inline float @_exp(float v)
{
    const float low = -104.0f > v ? -104.0f : v;
    const float u = 89.0f < low ? 89.0f : low;
    const float t = u * 0x1.715476p0f + 12583166.0f;
    const uint32_t n = @_as_bits(t), half = n >> 1;
    const float p = @_exp_rest(u, t - 12583166.0f) + 1.0f;
    return p * @_as_float(half << 23) * @_as_float((n - half) << 23);
}
""",
    "sigmoid": """\
/* 1 / (1 + e^-v), both parts scaled by 2^-64, so that e^-v does not overflow. */
static inline float @_sigmoid(float v)
{
    const float low = -104.0f > v ? -104.0f : v;
    const float u = 30.0f < low ? 30.0f : low;
    const float t = u * -0x1.715476p0f + 12582975.0f;
    const float s = @_as_float(@_as_bits(t) << 23);
    return 0x1p-64f / (s + (@_exp_rest(-u, t - 12582975.0f) * s + 0x1p-64f));
}
""",
    "tanh": """\
/* With v = n ln 2 / 2 + r, s = 2^n and d = r coth r - r: tanh v = y / (y + d) with y = (s - 1) d / 2 + s r. */
static inline float @_tanh(float v)
{
    const uint32_t sign = @_as_bits(v) & 0x80000000u;
    const float size = @_as_float(@_as_bits(v) ^ sign);
    const float a = 9.02f < size ? 9.02f : size;
    const float t = a * 2.7f + 12583039.0f;
    const float r = a - (t - 12583039.0f) * 0x1.62e43p-2f;
    const float u = r * r;
    const float d = ((-0x1.6a2a82p-6f * u + 0x1.5554f4p-2f) * u + 1.0f) - r;
    const float s = @_as_float(@_as_bits(t) << 23);
    const float y = (s * 0.5f - 0.5f) * d + s * r;
    return @_as_float(@_as_bits(y / (y + d)) | sign);
}
""",
    "log": """\
/* v = 2^e (1 + f) with 1 + f from sqrt(1/2) to sqrt(2); ln(1 + f) = 2 artanh s with s = f / (2 + f). */
static inline float @_log(float v)
{
    const int subnormal = v < 0x1p-126f;
    const uint32_t i = @_as_bits(subnormal ? v * 8388608.0f : v) + (0x3f800000u - 0x3f3504f3u);
    const float e = @_as_float((i >> 23) | 0x4b000000u) - (subnormal ? 8388758.0f : 8388735.0f);
    const float f = @_as_float((i & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    const float s = f / (f + 2.0f), u = s * s, h = f * f * 0.5f;
    const float q = (0x1.31e0d8p-2f * u + 0x1.995ed4p-2f) * u + 0x1.55557ap-1f;
    const float found = e * 0x1.62e4p-1f + (f - (h - (s * (h + u * q) + e * 0x1.7f7d1cp-20f)));
    const float none = @_as_float(v < 0.0f ? 0x7fc00000u : 0xff800000u);
    return v <= 0.0f ? none : v < @_as_float(0x7f800000u) ? found : v;
}
""",
    "softplus": """\
/* ln(1 + e^v); the rounding of 1 + e^-|v| is taken back where it matters. */
static inline float @_softplus(float v)
{
    const float e = @_exp(v < 0.0f ? v : -v), sum = 1.0f + e;
    const float rest = sum == 1.0f ? e : @_log(sum) * (e / (sum - 1.0f));
    return (v > 0.0f ? v : 0.0f) + rest;
}
""",
    "log1p": """\
/* ln(1 + v): the logarithm of the rounded sum, and what the rounding lost. */
static inline float @_log1p(float v)
{
    const float u = v + 1.0f, found = @_log(u);
    if (v == 0.0f)
        return v;
    return u <= 0.0f || v > 0x1.fffffep127f ? found : found + (v - (u - 1.0f)) / u;
}
""",
    "erf": """\
/* Near 0, v times a polynomial in v^2; beyond, 1 - e^(-v^2) q with a polynomial q in 1 / (|v| + 3/2). */
static inline float @_erf(float v)
{
    const float a = v < 0.0f ? -v : v, u = v * v, far = 4.1f < a ? 4.1f : a, t = 1.0f / (far + 1.5f);
    const float p = ((((0x1.767da4p-14f * u - 0x1.b1d502p-11f) * u + 0x1.559d18p-8f) * u - 0x1.b823d2p-6f) * u
                     + 0x1.ce2ef8p-4f) * u - 0x1.812746p-2f;
    const float q = (((((0x1.307b56p1f * t - 0x1.2a0346p2f) * t + 0x1.2458cp1f) * t + 0x1.3bf918p-1f) * t
                      + 0x1.ca1cb6p-1f) * t + 0x1.1f1816p-1f) * t + 0x1.b3e4f8p-14f;
    const float rest = 1.0f - @_exp(-far * far) * q;
    return a < 0.9f ? v + v * (u * p + 0x1.06eba8p-3f) : v < 0.0f ? -rest : rest;
}
""",
    "sine": """\
/* The sine of v plus `ahead` right angles; exact to 2 units in the last place up to 500,000, less so beyond. */
static inline float @_sine(float v, int ahead)
{
    double d = (double)v;
    if (!(d > -1e15 && d < 1e15))
        return v - v;
    if (d > 500000.0 || d < -500000.0)
        d -= 6.283185307179586 * (double)(int64_t)(d / 6.283185307179586);
    const double n = (d * 0.6366197723675814 + 6755399441055744.0) - 6755399441055744.0;
    const float r = (float)((d - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34), u = r * r;
    const int quarter = (int)n + ahead;
    const float s = ((0x1.6d969ep-19f * u - 0x1.a0132cp-13f) * u + 0x1.11110ep-7f) * u - 0x1.555556p-3f;
    const float c = (0x1.9baff2p-16f * u - 0x1.6c1286p-10f) * u + 0x1.555554p-5f;
    const float half = u * 0.5f, one = 1.0f - half;
    const float found = quarter & 1 ? one + (((1.0f - one) - half) + u * u * c) : r + r * (u * s);
    return quarter & 2 ? -found : found;
}
""",
    "sin": """\
static inline float @_sin(float v)
{
    return v == 0.0f ? v : @_sine(v, 0);
}
""",
    "cos": """\
static inline float @_cos(float v)
{
    return @_sine(v, 1);
}
""",
    "absolute": """\
static inline float @_absolute(float v)
{
    return @_as_float(@_as_bits(v) & 0x7fffffffu);
}
""",
    "relu": """\
static inline float @_relu(float v)
{
    return 0.0f > v ? 0.0f : v;
}
""",
    "minimum": """\
static inline float @_minimum(float a, float b)
{
    return a < b || a != a ? a : b;
}
""",
    "maximum": """\
static inline float @_maximum(float a, float b)
{
    return a > b || a != a ? a : b;
}
""",
    "room": """\
/* total + count * width; SIZE_MAX where no memory can hold so many floats and one more. */
static inline size_t @_room(size_t total, size_t count, size_t width)
{
    const size_t most = SIZE_MAX / sizeof(float) - 1;
    return total <= most && count <= (most - total) / width ? total + count * width : SIZE_MAX;
}
""",
    "known": """\
/* Whether all ids are from 0 to below `tokens`. */
static inline int @_known(const int32_t *ids, size_t count, int32_t tokens)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= tokens)
            return 0;
    return 1;
}
""",
    "most": """\
static inline float @_most(const float *v, int count)
{
    float found = v[0];
    for (int j = 1; j < count; j++)
        found = @_maximum(found, v[j]);
    return found;
}
""",
    "sum": """\
static inline float @_sum(const float *v, int count)
{
    float total = 0.0f;
    for (int j = 0; j < count; j++)
        total += v[j];
    return total;
}
""",
    "copy": """\
static inline void @_copy(float *restrict y, const float *restrict x, int count)
{
    for (int j = 0; j < count; j++)
        y[j] = x[j];
}
""",
    "clear": """\
static inline void @_clear(float *y, int count)
{
    for (int j = 0; j < count; j++)
        y[j] = 0.0f;
}
""",
    "add": """\
static inline void @_add(float *restrict y, const float *restrict x, int count)
{
    for (int j = 0; j < count; j++)
        y[j] += x[j];
}
""",
    "add_product": """\
/* y[j] += sum over k of m[k][j] x[k]; four inputs at a time, so that y is read and written less often. */
static inline void @_add_product(float *restrict y, const float *restrict m, const float *restrict x, int inputs,
                                 int outputs)
{
    int k = 0;
    for (; k + 4 <= inputs; k += 4) {
        const float *restrict a = m + (size_t)k * (size_t)outputs, *restrict b = a + outputs;
        const float *restrict c = b + outputs, *restrict d = c + outputs;
        const float x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
        for (int j = 0; j < outputs; j++)
            y[j] = y[j] + x0 * a[j] + x1 * b[j] + x2 * c[j] + x3 * d[j];
    }
    for (; k < inputs; k++)
        for (int j = 0; j < outputs; j++)
            y[j] += x[k] * m[(size_t)k * (size_t)outputs + (size_t)j];
}
""",
    "add_product_int8": """\
/* y[j] += scale[j] times the sum over k of m[k][j] x[k]; 64 outputs at a time. */
static inline void @_add_product_int8(float *restrict y, const int8_t *restrict m, const float *restrict scale,
                                      const float *restrict x, int inputs, int outputs)
{
    for (int first = 0; first < outputs; first += 64) {
        const int count = outputs - first < 64 ? outputs - first : 64;
        float total[64];
        for (int j = 0; j < count; j++)
            total[j] = 0.0f;
        for (int k = 0; k < inputs; k++) {
            const int8_t *restrict a = m + (size_t)k * (size_t)outputs + first;
            for (int j = 0; j < count; j++)
                total[j] += x[k] * (float)a[j];
        }
        for (int j = 0; j < count; j++)
            y[first + j] += scale[first + j] * total[j];
    }
}
""",
    "add_row": """\
/* y += row `row` of a table. */
static inline void @_add_row(float *restrict y, const float *restrict table, size_t row, int width)
{
    for (int j = 0; j < width; j++)
        y[j] += table[row * (size_t)width + (size_t)j];
}
""",
    "add_row_int8": """\
static inline void @_add_row_int8(float *restrict y, const int8_t *restrict table, const float *restrict scale,
                                  size_t row, int width)
{
    for (int j = 0; j < width; j++)
        y[j] += scale[row] * (float)table[row * (size_t)width + (size_t)j];
}
""",
    "add_column": """\
/* y += column `column` of a matrix: a row of an embedding that is also the head's matrix. */
static inline void @_add_column(float *restrict y, const float *restrict m, size_t column, int count, int columns)
{
    for (int j = 0; j < count; j++)
        y[j] += m[(size_t)j * (size_t)columns + column];
}
""",
    "add_column_int8": """\
static inline void @_add_column_int8(float *restrict y, const int8_t *restrict m, const float *restrict scale,
                                     size_t column, int count, int columns)
{
    for (int j = 0; j < count; j++)
        y[j] += scale[column] * (float)m[(size_t)j * (size_t)columns + column];
}
""",
    "softmax": """\
/* In place: y[j] = e^y[j] / the sum of all. */
static inline void @_softmax(float *y, int count)
{
    float highest = y[0], total = 0.0f;
    for (int j = 1; j < count; j++)
        highest = y[j] > highest ? y[j] : highest;
    for (int j = 0; j < count; j++)
        y[j] = @_exp(y[j] - highest);
    for (int j = 0; j < count; j++)
        total += y[j];
    for (int j = 0; j < count; j++)
        y[j] /= total;
}
""",
    "largest": """\
/* The place of the largest value; of equal ones, the first. */
static inline int @_largest(const float *y, int count)
{
    int best = 0;
    for (int j = 1; j < count; j++)
        if (y[j] > y[best])
            best = j;
    return best;
}
""",
    "crc32": """\
/* CRC-32 as zlib has it, continued from an earlier value. */
static inline uint32_t @_crc32(uint32_t crc, const unsigned char *bytes, size_t count)
{
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1u) != 0u ? 0xedb88320u : 0u);
    }
    return ~crc;
}
""",
}
SQRT = """\
/* The square root alone comes from the system; where there is none, it is an instruction. */
#if defined(__STDC_HOSTED__) && __STDC_HOSTED__ == 0
#define @_sqrt __builtin_sqrtf
#else
#include <math.h>
#define @_sqrt sqrtf
#endif
"""


def used_by(text: str) -> str:
    """The functions that a text calls, and those that they call, before their use."""
    wanted: list[str] = []
    own: dict[str, Callable[[], str]] = {name: partial(str, function) for name, function in FUNCTIONS.items()}
    for name, make in reversed((text_library.FUNCTIONS | own).items()):
        if f"@_{name}(" in text:
            function = make()
            wanted.append(function)
            text += function
    return "\n".join(reversed(wanted))
