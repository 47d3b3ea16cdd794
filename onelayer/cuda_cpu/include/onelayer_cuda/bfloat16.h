// __nv_bfloat16: the upper half of a float.
#pragma once
#include "onelayer_cuda.h"
#include "onelayer_cuda/sixteen_bits.h"

namespace onelayer_cuda {
static inline float bfloat16_to_float(unsigned short b) {
    return __uint_as_float((unsigned)b << 16);
}
static inline unsigned short float_to_bfloat16(float x) {  // to the nearest, ties to even
    unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
}  // namespace onelayer_cuda

ONELAYER_SIXTEEN_BITS(__nv_bfloat16, __nv_bfloat162, onelayer_cuda::float_to_bfloat16,
                      onelayer_cuda::bfloat16_to_float)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
static inline __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
static inline float __bfloat162float(__nv_bfloat16 x) { return x; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
static inline __nv_bfloat162 __float22bfloat162_rn(float2 x) {
    return __floats2bfloat162_rn(x.x, x.y);
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    __nv_bfloat16 x;
    return x.bits = bits, x;
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {(float)x.x, (float)x.y}; }
