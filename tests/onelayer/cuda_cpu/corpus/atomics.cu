// Several threads, one place: a histogram, a lock, one atomic for a warp, a maximum of floats.
#include <cuda_runtime.h>

const int BINS = 16;
__global__ void histogram(const int* x, int* bins, int n) {
    __shared__ int mine[BINS];
    if (threadIdx.x < BINS) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&mine[x[i] % BINS], 1);
    __syncthreads();
    if (threadIdx.x < BINS) atomicAdd(bins + threadIdx.x, mine[threadIdx.x]);
}
extern "C" void run_histogram(const int* x, int* bins, int n) { histogram<<<4, 48>>>(x, bins, n); }

__device__ int mutex = 0;
__global__ void add_locked(const double* x, volatile double* sum, int n) {
    if (threadIdx.x == 0 && blockIdx.x < n) {
        while (atomicCAS(&mutex, 0, 1) != 0) {
        }
        __threadfence();
        *sum = *sum + x[blockIdx.x];
        __threadfence();
        atomicExch(&mutex, 0);
    }
}
extern "C" void sum_locked(const double* x, double* sum, int n) { add_locked<<<n, 32>>>(x, sum, n); }

__global__ void keep_positive(const float* x, float* kept, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        unsigned together = __activemask();
        int lane = threadIdx.x % 32, leader = __ffs(together) - 1, first = 0;
        if (lane == leader) first = atomicAdd(count, __popc(together));
        first = __shfl_sync(together, first, leader);
        kept[first + __popc(together & ((1u << lane) - 1))] = x[i];
    }
}
extern "C" void compact(const float* x, float* kept, int* count, int n) {
    keep_positive<<<(n + 63) / 64, 64>>>(x, kept, count, n);
}

// As CUDA's programming guide builds an atomic from compare-and-swap: an ordinary read comes first.
__device__ float atomic_max(float* at, float v) {
    int* bits = reinterpret_cast<int*>(at);
    int old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(v, __int_as_float(assumed))));
    } while (old != assumed);
    return __int_as_float(old);
}
__global__ void maximum(const float* x, float* most, int* extremes, int n) {
    __shared__ float here;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) here = -INFINITY;
    __syncthreads();
    if (i < n) {
        atomic_max(&here, x[i]);
        atomicMax(extremes, i);
        atomicMin(extremes + 1, -i);
    }
    __syncthreads();
    if (threadIdx.x == 0) atomic_max(most, here);
}
extern "C" void run_maximum(const float* x, float* most, int* extremes, int n) {
    maximum<<<(n + 31) / 32, 32>>>(x, most, extremes, n);
}
