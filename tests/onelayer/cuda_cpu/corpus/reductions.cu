// Sums in several styles: a tree in dynamic shared memory, shuffles, votes, the last block of all.
#include <cuda_runtime.h>

__global__ void tree(const float* x, float* sums, int n) {
    extern __shared__ float s[];
    unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half >>= 1) {
        if (t < half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) atomicAdd(sums, s[0]);
}
extern "C" void sum_tree(const float* x, float* sum, int n) {
    cudaMemset(sum, 0, sizeof(float));
    if (n) tree<<<(n + 255) / 256, 256, 256 * sizeof(float)>>>(x, sum, n);
}

__device__ __forceinline__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(0xffffffffu, v, offset);
    return v;
}

template <int WARPS> __device__ float block_sum(float v) {
    __shared__ float partial[WARPS];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    v = warp_sum(v);
    if (lane == 0) partial[warp] = v;
    __syncthreads();
    if (warp == 0) v = warp_sum(lane < WARPS ? partial[lane] : 0.0f);
    return v;  // in thread 0
}

__global__ void rows(const float* x, float* sums, int columns) {
    float v = 0;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) v += x[(size_t)blockIdx.x * columns + j];
    v = block_sum<4>(v);
    if (threadIdx.x == 0) sums[blockIdx.x] = v;
}
extern "C" void sum_rows(const float* x, float* sums, int n, int columns) {
    if (n) rows<<<n, 128>>>(x, sums, columns);
}

__global__ void count_positive(const float* x, int* by_count, int* by_ballot, int* everywhere, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int positive = i < n && x[i] > 0;
    int here = __syncthreads_count(positive);
    unsigned votes = __ballot_sync(0xffffffffu, positive);
    if (threadIdx.x == 0) atomicAdd(by_count, here);
    if (threadIdx.x % 32 == 0) atomicAdd(by_ballot, __popc(votes));
    if (__syncthreads_and(positive) && threadIdx.x == 0) atomicExch(everywhere, 1);
    if (__any_sync(0xffffffffu, positive) != (votes != 0)) by_ballot[0] = -1;
    if (__all_sync(0xffffffffu, positive) != (votes == 0xffffffffu)) by_ballot[0] = -1;
}
extern "C" void count(const float* x, int* by_count, int* by_ballot, int* everywhere, int n) {
    count_positive<<<(n + 95) / 96, 96>>>(x, by_count, by_ballot, everywhere, n);
}

template <int BY> __device__ float from_left(float v) {  // each instance has an array of its own
    __shared__ float s[32];
    s[threadIdx.x] = v;
    __syncthreads();
    return s[(threadIdx.x + 32 - BY) % 32];
}
__global__ void neighbours(const float* x, float* y) {
    float v = x[threadIdx.x];
    y[threadIdx.x] = from_left<1>(v) + from_left<5>(v);
}
typedef void (*Kernel)(const float*, float*);
extern "C" void sum_neighbours(const float* x, float* y) {
    Kernel table[] = {neighbours};
    table[0]<<<1, 32>>>(x, y);
}

__device__ unsigned int finished{0};
__global__ void last_block(const float* x, float* partial, float* sum, int n) {
    __shared__ bool last;
    float v = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
    v = block_sum<2>(v);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = v;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float total = 0;
        for (int i = 0; i < gridDim.x; i++) total += partial[i];
        *sum = total;
    }
}
extern "C" void sum_last_block(const float* x, float* partial, float* sum, int n, int blocks) {
    last_block<<<blocks, 64>>>(x, partial, sum, n);
}

__global__ void prefix(const float* x, float* y, int n) {  // Hillis and Steele, two buffers
    extern __shared__ float buffer[];
    int t = threadIdx.x, from = 0;
    buffer[t] = t < n ? x[t] : 0;
    __syncthreads();
    for (int by = 1; by < blockDim.x; by *= 2) {
        int to = 1 - from;
        float left = t >= by ? buffer[from * blockDim.x + t - by] : 0;
        buffer[to * blockDim.x + t] = buffer[from * blockDim.x + t] + left;
        from = to;
        __syncthreads();
    }
    if (t < n) y[t] = buffer[from * blockDim.x + t];
}
extern "C" void prefix_sum(const float* x, float* y, int n) {
    prefix<<<1, 128, 2 * 128 * sizeof(float)>>>(x, y, n);
}

__global__ void prefix_warp(const int* x, int* y) {
    int lane = threadIdx.x & 31, v = x[threadIdx.x];
    for (int by = 1; by < 32; by <<= 1) {
        int left = __shfl_up_sync(0xffffffffu, v, by);
        if (lane >= by) v += left;
    }
    y[threadIdx.x] = v;
}
extern "C" void prefix_of_warps(const int* x, int* y, int warps) { prefix_warp<<<1, 32 * warps>>>(x, y); }
