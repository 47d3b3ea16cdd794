// __half: IEEE 754 binary16, in software; one code for every processor.
#pragma once
#include "onelayer_cuda.h"
#include "onelayer_cuda/sixteen_bits.h"

namespace onelayer_cuda {
static inline float half_to_float(unsigned short h) {
    unsigned sign = (unsigned)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
    if (exponent == 0) {  // zero and what lies next to it: fraction * 2^-24
        float small = (float)fraction * 5.9604644775390625e-8f;
        return __uint_as_float(__float_as_uint(small) | sign);
    }
    exponent = exponent == 31 ? 255 : exponent + 112;
    return __uint_as_float(sign | exponent << 23 | fraction << 13);
}
static inline unsigned short float_to_half(float x) {  // to the nearest, ties to even
    unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
    if (size < 0x38800000u) {  // below 2^-14: counted in units of 2^-24
        float units = __uint_as_float(size) * 16777216.0f;
        return (unsigned short)(sign | (unsigned)rintf(units));
    }
    unsigned rounded = size + 0xfffu + (size >> 13 & 1u);
    return (unsigned short)(sign | ((rounded - 0x38000000u) >> 13));
}
}  // namespace onelayer_cuda

ONELAYER_SIXTEEN_BITS(__half, __half2, onelayer_cuda::float_to_half, onelayer_cuda::half_to_float)
typedef __half half;
typedef __half2 half2;

static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }
static inline float __half2float(__half x) { return x; }
static inline __half __ushort_as_half(unsigned short bits) {
    __half x;
    return x.bits = bits, x;
}
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
static inline __half2 make_half2(__half x, __half y) { return {x, y}; }
static inline __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
static inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
static inline __half2 __float22half2_rn(float2 x) { return {__half(x.x), __half(x.y)}; }
static inline float2 __half22float2(__half2 x) { return {(float)x.x, (float)x.y}; }
static inline __half __low2half(__half2 x) { return x.x; }
static inline __half __high2half(__half2 x) { return x.y; }
