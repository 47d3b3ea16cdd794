// Barriers and warp operations. Each knows the line from which it is called.
#pragma once
#define ONELAYER_LINE int line = __builtin_LINE()

extern "C" {
int onelayer_barrier(int kind, int predicate, int line);  // kind: 0 plain, 1 count, 2 and, 3 or
uint64_t onelayer_warp(int kind, unsigned mask, uint64_t value, int source, int line);
void onelayer_fence();
long long onelayer_clock();
}
enum onelayer_warp_kind { OL_SYNCWARP, OL_SHUFFLE, OL_BALLOT, OL_ANY, OL_ALL, OL_ACTIVE, OL_MATCH };

static inline void __syncthreads(ONELAYER_LINE) { onelayer_barrier(0, 0, line); }
static inline int __syncthreads_count(int p, ONELAYER_LINE) { return onelayer_barrier(1, p, line); }
static inline int __syncthreads_and(int p, ONELAYER_LINE) { return onelayer_barrier(2, p, line); }
static inline int __syncthreads_or(int p, ONELAYER_LINE) { return onelayer_barrier(3, p, line); }
static inline void __threadfence() { onelayer_fence(); }
static inline void __threadfence_block() { onelayer_fence(); }
static inline void __threadfence_system() { onelayer_fence(); }
static inline long long clock64() { return onelayer_clock(); }

static inline void __syncwarp(unsigned mask = 0xffffffffu, ONELAYER_LINE) {
    onelayer_warp(OL_SYNCWARP, mask, 0, -1, line);
}
static inline unsigned __ballot_sync(unsigned mask, int p, ONELAYER_LINE) {
    return (unsigned)onelayer_warp(OL_BALLOT, mask, p != 0, -1, line);
}
static inline int __any_sync(unsigned mask, int p, ONELAYER_LINE) {
    return (int)onelayer_warp(OL_ANY, mask, p != 0, -1, line);
}
static inline int __all_sync(unsigned mask, int p, ONELAYER_LINE) {
    return (int)onelayer_warp(OL_ALL, mask, p != 0, -1, line);
}
static inline unsigned __activemask(ONELAYER_LINE) {
    return (unsigned)onelayer_warp(OL_ACTIVE, 0, 0, -1, line);
}

namespace onelayer_cuda {
inline int lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}
template <class T> uint64_t bits_of(T value) {
    static_assert(sizeof(T) <= 8, "a shuffle moves a value of at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T> T value_of(uint64_t bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
// The lane to read from, or this very lane where the wish leads out of its segment.
inline int within(int wish, int width, int here) {
    int first = here & ~(width - 1);
    return wish < first || wish >= first + width ? here : wish;
}
template <class T> T shuffle(unsigned mask, T value, int source, int line) {
    return value_of<T>(onelayer_warp(OL_SHUFFLE, mask, bits_of(value), source, line));
}
// A value of any size, eight bytes at a time: cooperative groups move structures of up to 32 bytes.
template <class T> T shuffle_words(unsigned mask, T value, int source, int line) {
    static_assert(sizeof(T) <= 32, "cooperative groups shuffle a value of at most 32 bytes");
    uint64_t words[(sizeof(T) + 7) / 8] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    for (uint64_t& word : words) word = onelayer_warp(OL_SHUFFLE, mask, word, source, line);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
}  // namespace onelayer_cuda

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, ONELAYER_LINE) {
    int here = onelayer_cuda::lane();
    return onelayer_cuda::shuffle(mask, value, (here & ~(width - 1)) | (source & (width - 1)), line);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, ONELAYER_LINE) {
    int here = onelayer_cuda::lane();
    int source = onelayer_cuda::within(here - (int)by, width, here);
    return onelayer_cuda::shuffle(mask, value, source, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                                 ONELAYER_LINE) {
    int here = onelayer_cuda::lane();
    int source = onelayer_cuda::within(here + (int)by, width, here);
    return onelayer_cuda::shuffle(mask, value, source, line);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, ONELAYER_LINE) {
    int here = onelayer_cuda::lane();
    int source = onelayer_cuda::within(here ^ with, width, here);
    return onelayer_cuda::shuffle(mask, value, source, line);
}
template <class T>
static inline unsigned __match_any_sync(unsigned mask, T value, ONELAYER_LINE) {
    return (unsigned)onelayer_warp(OL_MATCH, mask, onelayer_cuda::bits_of(value), -1, line);
}
