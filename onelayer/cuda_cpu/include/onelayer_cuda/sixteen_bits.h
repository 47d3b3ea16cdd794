// What the two types of 16 bits have in common: all arithmetic is done in float and rounded once.
#pragma once

#define ONELAYER_SIXTEEN_BITS(T, T2, from_float, to_float)                                        \
    struct __attribute__((aligned(2))) T {                                                        \
        unsigned short bits;                                                                      \
        T() = default;                                                                            \
        T(float x) : bits(from_float(x)) {}                                                       \
        T(double x) : T((float)x) {}                                                              \
        T(int x) : T((float)x) {}                                                                 \
        operator float() const { return to_float(bits); }                                         \
        T& operator+=(T y) { return *this = T((float)*this + (float)y); }                         \
        T& operator-=(T y) { return *this = T((float)*this - (float)y); }                         \
        T& operator*=(T y) { return *this = T((float)*this * (float)y); }                         \
        T& operator/=(T y) { return *this = T((float)*this / (float)y); }                         \
    };                                                                                            \
    struct __attribute__((aligned(4))) T2 { T x, y; };                                            \
    static inline T operator+(T x, T y) { return T((float)x + (float)y); }                        \
    static inline T operator-(T x, T y) { return T((float)x - (float)y); }                        \
    static inline T operator*(T x, T y) { return T((float)x * (float)y); }                        \
    static inline T operator/(T x, T y) { return T((float)x / (float)y); }                        \
    static inline T operator-(T x) { return T(-(float)x); }                                       \
    static inline bool operator<(T x, T y) { return (float)x < (float)y; }                        \
    static inline bool operator>(T x, T y) { return (float)x > (float)y; }                        \
    static inline bool operator<=(T x, T y) { return (float)x <= (float)y; }                      \
    static inline bool operator>=(T x, T y) { return (float)x >= (float)y; }                      \
    static inline bool operator==(T x, T y) { return (float)x == (float)y; }                      \
    static inline bool operator!=(T x, T y) { return (float)x != (float)y; }                      \
    static inline T __hadd(T x, T y) { return x + y; }                                            \
    static inline T __hsub(T x, T y) { return x - y; }                                            \
    static inline T __hmul(T x, T y) { return x * y; }                                            \
    static inline T __hdiv(T x, T y) { return x / y; }                                            \
    static inline T __hneg(T x) { return -x; }                                                    \
    static inline T __hfma(T x, T y, T z) { return T(fmaf((float)x, (float)y, (float)z)); }       \
    static inline T __hmax(T x, T y) { return T(fmaxf((float)x, (float)y)); }                     \
    static inline T __hmin(T x, T y) { return T(fminf((float)x, (float)y)); }                     \
    static inline bool __hlt(T x, T y) { return x < y; }                                          \
    static inline bool __hgt(T x, T y) { return x > y; }                                          \
    static inline bool __heq(T x, T y) { return x == y; }                                         \
    static inline T hexp(T x) { return T(expf((float)x)); }                                       \
    static inline T hlog(T x) { return T(logf((float)x)); }                                       \
    static inline T hsqrt(T x) { return T(sqrtf((float)x)); }                                     \
    static inline T hrsqrt(T x) { return T(rsqrtf((float)x)); }                                   \
    static inline T2 __hadd2(T2 x, T2 y) { return {x.x + y.x, x.y + y.y}; }                       \
    static inline T2 __hmul2(T2 x, T2 y) { return {x.x * y.x, x.y * y.y}; }                       \
    static inline T2 __hfma2(T2 x, T2 y, T2 z) {                                                  \
        return {__hfma(x.x, y.x, z.x), __hfma(x.y, y.y, z.y)};                                    \
    }                                                                                             \
    static inline T2 operator+(T2 x, T2 y) { return {x.x + y.x, x.y + y.y}; }                     \
    static inline T2 operator-(T2 x, T2 y) { return {x.x - y.x, x.y - y.y}; }                     \
    static inline T2 operator*(T2 x, T2 y) { return {x.x * y.x, x.y * y.y}; }                     \
    static inline float __low2float(T2 x) { return x.x; }                                         \
    static inline float __high2float(T2 x) { return x.y; }                                        \
    ONELAYER_ATOMIC T atomicAdd(T* at, T v) { ONELAYER_UPDATE_BITS(T, uint16_t, old + v) }          \
    ONELAYER_ATOMIC T2 atomicAdd(T2* at, T2 v) { ONELAYER_UPDATE_BITS(T2, uint32_t, old + v) }
