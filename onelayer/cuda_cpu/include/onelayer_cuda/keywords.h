// CUDA's keywords. `__shared__`, `<<<` and the variables of a device are rewritten in the student's
// file itself (source.py); the definitions here serve the headers that it includes.
#pragma once
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __constant__
#define __managed__
#define __grid_constant__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define __CUDACC__ 1

// A variable of the device lies in a section of its own, so that the runtime knows its bounds. Not
// under ASan, which puts its red zones around variables without a section.
#ifdef ONELAYER_ADDRESS_SANITIZER
#define ONELAYER_PLACE(number) __attribute__((unused))
#else
#define ONELAYER_PLACE(number) __attribute__((unused, section("onelayer_place_" #number)))
#endif

#ifdef ONELAYER_THREADS
#define ONELAYER_PER_THREAD __thread
#else
#define ONELAYER_PER_THREAD
#endif
#define ONELAYER_HIDDEN __attribute__((visibility("hidden")))
extern "C" {
#ifdef ONELAYER_RUNTIME
extern ONELAYER_HIDDEN ONELAYER_PER_THREAD uint3 onelayer_thread_index;
extern ONELAYER_HIDDEN uint3 onelayer_block_index;
extern ONELAYER_HIDDEN dim3 onelayer_block_size;
extern ONELAYER_HIDDEN dim3 onelayer_grid_size;
#define threadIdx onelayer_thread_index
#define blockDim onelayer_block_size
#else  // for a thread they never change: nobody watches loads of a constant. Host code may have its own
extern ONELAYER_PER_THREAD const uint3 threadIdx __asm__("onelayer_thread_index") ONELAYER_HIDDEN;
extern const uint3 blockIdx __asm__("onelayer_block_index") ONELAYER_HIDDEN;
extern const uint3 blockDim __asm__("onelayer_block_size") ONELAYER_HIDDEN;
extern const uint3 gridDim __asm__("onelayer_grid_size") ONELAYER_HIDDEN;
#endif
extern ONELAYER_HIDDEN char onelayer_dynamic_shared[];
}

// Shared memory of the type T, the same for all threads of a block: source.py writes a call for each
// declaration, whose number and line it gives.
extern "C" void* onelayer_shared(void* slot, size_t bytes, int number, int line,
                                 const char* function);
namespace onelayer_cuda {
struct Slot {
    char* at;
    size_t bytes;
    int launch;
    const char* function;  // of which instance of a template: another one has another place
    Slot* next;
};
template <class T, int number> struct Shared {
    static inline Slot slot;
};
#ifdef __clang__
#define ONELAYER_UNSEEN __attribute__((no_sanitize("thread", "address")))
#else
#define ONELAYER_UNSEEN __attribute__((no_sanitize_thread, no_sanitize_address))
#endif
template <class T, int number> ONELAYER_UNSEEN __attribute__((noinline)) 
T& shared(int line, const char* function) {
    return *(T*)onelayer_shared(&Shared<T, number>::slot, sizeof(T), number, line, function);
}
}  // namespace onelayer_cuda
static constexpr int warpSize = 32;
