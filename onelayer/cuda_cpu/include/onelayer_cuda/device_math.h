// Functions of CUDA's device code that the C library does not have under that name.
#pragma once

#define ONELAYER_MINMAX(T)                                          \
    static inline constexpr T min(T a, T b) { return b < a ? b : a; } \
    static inline constexpr T max(T a, T b) { return a < b ? b : a; }
ONELAYER_MINMAX(int)
ONELAYER_MINMAX(unsigned int)
ONELAYER_MINMAX(long)
ONELAYER_MINMAX(unsigned long)
ONELAYER_MINMAX(long long)
ONELAYER_MINMAX(unsigned long long)
#undef ONELAYER_MINMAX
static inline unsigned int min(int a, unsigned int b) { return min((unsigned int)a, b); }
static inline unsigned int min(unsigned int a, int b) { return min(a, (unsigned int)b); }
static inline unsigned int max(int a, unsigned int b) { return max((unsigned int)a, b); }
static inline unsigned int max(unsigned int a, int b) { return max(a, (unsigned int)b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
// Macros, because the C library has functions of these names for itself.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __powf(x, y) powf(x, y)
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
static inline float fdividef(float x, float y) { return x / y; }

static inline int __float_as_int(float x) { int i; __builtin_memcpy(&i, &x, 4); return i; }
static inline float __int_as_float(int i) { float x; __builtin_memcpy(&x, &i, 4); return x; }
static inline unsigned __float_as_uint(float x) { return (unsigned)__float_as_int(x); }
static inline float __uint_as_float(unsigned i) { return __int_as_float((int)i); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __mul24(int a, int b) { return a * b; }
static inline unsigned __brev(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
    return r;
}
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline int __float2int_rd(float x) { return (int)floorf(x); }
static inline float __int2float_rn(int x) { return (float)x; }

static inline void __trap() { __builtin_trap(); }
static inline void __nanosleep(unsigned) {}
