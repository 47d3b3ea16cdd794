// Host code as labs write it: a workspace, two kernels in a row, streams, events, errors asked for.
#include <cassert>
#include <cstdio>
#include <cuda_runtime.h>

#define CHECK(call)                                   \
    do {                                              \
        cudaError_t error = (call);                   \
        if (error != cudaSuccess) return (int)error;  \
    } while (0)

__global__ void square(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(blockDim.x <= 1024);
    if (i < n) y[i] = x[i] * x[i];
}
__global__ void add_up(const float* y, float* sum, int n) {
    float total = 0;
    for (int i = 0; i < n; i++) total += y[i];
    *sum = total;
}

extern "C" int sum_of_squares(const float* x, float* sum, int n) {
    float* workspace = nullptr;
    cudaStream_t stream;
    cudaEvent_t start, end;
    CHECK(cudaMalloc(&workspace, n * sizeof(float)));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(start, stream));
    if (n) square<<<(n + 127) / 128, 128, 0, stream>>>(x, workspace, n);
    CHECK(cudaGetLastError());
    add_up<<<1, 1, 0, stream>>>(workspace, sum, n);
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamSynchronize(stream));
    float ms = -1;
    CHECK(cudaEventElapsedTime(&ms, start, end));
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(workspace));
    return ms < 0;
}

// Names that are free in host code, and a null pointer by its older names.
__global__ void filled(float* y, const float* from, const float* otherwise, float value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = from ? from[i] : otherwise ? otherwise[i] : value + gridDim.x;
}
extern "C" int names_of_the_device(float* y, int n) {
    dim3 blockDim(32), gridDim((n + blockDim.x - 1) / blockDim.x), threadIdx(1, 2, 3);
    int blockIdx = threadIdx.y;
    filled<<<gridDim, blockDim>>>(y, NULL, 0, 0, n);
    return cudaGetLastError() ? -1 : blockIdx;
}

__global__ void large(float* y, int words) {
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) s[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) *y = s[words - 1];
}
extern "C" int much_shared(float* y, int bytes) {
    CHECK(cudaFuncSetAttribute(large, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    large<<<1, 128, bytes>>>(y, bytes / 4);
    return cudaGetLastError();
}

__global__ void in_order(int* order) { order[threadIdx.x] = blockDim.x - threadIdx.x; }
extern "C" int round_trip(int* host_copy_sum, int n) {
    int *device, *host = new int[n];
    CHECK(cudaMalloc((void**)&device, n * sizeof(int)));
    in_order<<<1, n>>>(device);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, device, n * sizeof(int), cudaMemcpyDeviceToHost));
    int sum = 0;
    for (int i = 0; i < n; i++) sum += host[i];
    delete[] host;
    CHECK(cudaMemcpy(host_copy_sum, &sum, sizeof sum, cudaMemcpyHostToDevice));
    CHECK(cudaFree(device));
    return 0;
}
