// CUDA's vector types, with its sizes and alignments: a float4 lies at a multiple of 16 bytes.
#pragma once

#define ONELAYER_VECTORS(name, type, align2, align4)                                          \
    struct name##1 { type x; };                                                               \
    struct __attribute__((aligned(align2))) name##2 { type x, y; };                           \
    struct name##3 { type x, y, z; };                                                         \
    struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; };                     \
    static inline name##1 make_##name##1(type x) { return {x}; }                              \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                   \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }        \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

ONELAYER_VECTORS(char, signed char, 2, 4)
ONELAYER_VECTORS(uchar, unsigned char, 2, 4)
ONELAYER_VECTORS(short, short, 4, 8)
ONELAYER_VECTORS(ushort, unsigned short, 4, 8)
ONELAYER_VECTORS(int, int, 8, 16)
ONELAYER_VECTORS(uint, unsigned int, 8, 16)
ONELAYER_VECTORS(long, long, 16, 16)
ONELAYER_VECTORS(ulong, unsigned long, 16, 16)
ONELAYER_VECTORS(longlong, long long, 16, 16)
ONELAYER_VECTORS(ulonglong, unsigned long long, 16, 16)
ONELAYER_VECTORS(float, float, 8, 16)
ONELAYER_VECTORS(double, double, 16, 16)
#undef ONELAYER_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1)
        : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    operator uint3() const { return {x, y, z}; }
};
