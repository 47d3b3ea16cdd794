// Atomics, by the compiler's own: real ones, so that the thread mode and its race detector see them.
#pragma once

#define ONELAYER_ATOMIC static inline __attribute__((always_inline))
#define ONELAYER_ATOMIC_INTEGER(T)                                                              \
    ONELAYER_ATOMIC T atomicAdd(T* at, T v) { return __atomic_fetch_add(at, v, 0); }            \
    ONELAYER_ATOMIC T atomicSub(T* at, T v) { return __atomic_fetch_sub(at, v, 0); }            \
    ONELAYER_ATOMIC T atomicAnd(T* at, T v) { return __atomic_fetch_and(at, v, 0); }            \
    ONELAYER_ATOMIC T atomicOr(T* at, T v) { return __atomic_fetch_or(at, v, 0); }              \
    ONELAYER_ATOMIC T atomicXor(T* at, T v) { return __atomic_fetch_xor(at, v, 0); }            \
    ONELAYER_ATOMIC T atomicExch(T* at, T v) { return __atomic_exchange_n(at, v, 0); }          \
    ONELAYER_ATOMIC T atomicCAS(T* at, T expected, T v) {                                       \
        __atomic_compare_exchange_n(at, &expected, v, false, 0, 0);                             \
        return expected;                                                                        \
    }                                                                                           \
    ONELAYER_ATOMIC T atomicMin(T* at, T v) { ONELAYER_UPDATE(T, old < v ? old : v) }           \
    ONELAYER_ATOMIC T atomicMax(T* at, T v) { ONELAYER_UPDATE(T, old > v ? old : v) }

#define ONELAYER_UPDATE(T, fresh)                                                               \
    T old = __atomic_load_n(at, 0);                                                             \
    while (!__atomic_compare_exchange_n(at, &old, (T)(fresh), false, 0, 0)) {}                  \
    return old;

ONELAYER_ATOMIC_INTEGER(int)
ONELAYER_ATOMIC_INTEGER(unsigned int)
ONELAYER_ATOMIC_INTEGER(long long)
ONELAYER_ATOMIC_INTEGER(unsigned long long)

ONELAYER_ATOMIC unsigned atomicInc(unsigned* at, unsigned v) {
    ONELAYER_UPDATE(unsigned, old >= v ? 0 : old + 1)
}
ONELAYER_ATOMIC unsigned atomicDec(unsigned* at, unsigned v) {
    ONELAYER_UPDATE(unsigned, old == 0 || old > v ? v : old - 1)
}

// The same on the bits of a T, which the hardware's compare-and-swap takes for an integer.
#define ONELAYER_UPDATE_BITS(T, I, fresh)                                                       \
    I seen = __atomic_load_n((I*)at, 0);                                                        \
    for (;;) {                                                                                  \
        T old, now;                                                                             \
        __builtin_memcpy(&old, &seen, sizeof(T));                                               \
        now = fresh;                                                                            \
        I wish;                                                                                 \
        __builtin_memcpy(&wish, &now, sizeof(T));                                               \
        if (__atomic_compare_exchange_n((I*)at, &seen, wish, false, 0, 0)) return old;          \
    }

ONELAYER_ATOMIC float atomicAdd(float* at, float v) { ONELAYER_UPDATE_BITS(float, uint32_t, old + v) }
ONELAYER_ATOMIC double atomicAdd(double* at, double v) {
    ONELAYER_UPDATE_BITS(double, uint64_t, old + v)
}
ONELAYER_ATOMIC float atomicExch(float* at, float v) { ONELAYER_UPDATE_BITS(float, uint32_t, v) }
