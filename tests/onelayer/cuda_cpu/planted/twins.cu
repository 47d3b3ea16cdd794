// For faults of faults.cu the same code without the fault, under the same name: nothing may be said.
#include <cuda_runtime.h>

__global__ void sum_of_workspace(const float* from, float* y, int n) {
    float v = 0;
    for (int i = 0; i < n; i++) v += from[i];
    *y = v;
}
extern "C" void unwritten_workspace(const float* x, float* y, int n) {  // by bytes, in two copies
    float* workspace;
    size_t bytes = n * sizeof(float);
    cudaMalloc(&workspace, bytes);
    cudaMemcpy(workspace, x, 7, cudaMemcpyDeviceToDevice);
    cudaMemcpyAsync((char*)workspace + 7, (const char*)x + 7, bytes - 7, cudaMemcpyDeviceToDevice);
    sum_of_workspace<<<1, 1>>>(workspace, y, n);
    cudaFree(workspace);
}

__global__ void add_to(float* sum, const float* x) { atomicAdd(sum, x[threadIdx.x]); }
extern "C" void sum_without_zero(const float* x, float* y, int n) {
    float* sum;
    cudaMalloc(&sum, sizeof(float));
    cudaMemset(sum, 0, sizeof(float));
    add_to<<<1, 32>>>(sum, x);
    cudaMemcpy(y, sum, sizeof(float), cudaMemcpyDeviceToDevice);
    cudaFree(sum);
}

extern "C" void freed_twice(const float* x, float* y, int n) {
    float* workspace;
    for (int i = 0; i < 2; i++) {
        cudaMalloc(&workspace, n * sizeof(float));
        cudaFree(workspace);
    }
    cudaFree(nullptr);
}

__device__ float sign(float v) {
    if (v > 0) return 1.0f;
    if (v < 0) return -1.0f;
    return 0.0f;
}
__device__ float or_stop(float v) {
    if (v == v) return v;
    __trap();
}
__global__ void signs(const float* x, float* y, int n) {
    y[threadIdx.x] = sign(n * x[threadIdx.x]) + or_stop(x[threadIdx.x]);
}
extern "C" void no_return(const float* x, float* y, int n) { signs<<<1, 32>>>(x, y, 0); }

template <int threads> __global__ void __launch_bounds__(threads * (1 + 1), 1) bounded(float* y) {
    y[threadIdx.x] = 1.0f;
}
__global__ __launch_bounds__(64) void declared(float* y);
extern "C" int beyond_its_bounds(const float* x, float* y, int n) {
    bounded<32><<<1, 64>>>(y);
    declared<<<1, dim3(32, 2)>>>(y);
    return cudaGetLastError();
}
__global__ void declared(float* y) { y[threadIdx.x + 32 * threadIdx.y] = 2.0f; }

__device__ float meet(float v) {
    __syncthreads();
    return v;
}
__global__ void either_way(const float* x, float* y, int n) {  // one branch is nobody's, or all take it
    if (n > 1000) meet(1.0f);
    else meet(2.0f);
    for (int i = 0; i < 3; i++) meet(meet(x[0]));
    y[threadIdx.x] = 1;
}
extern "C" void two_callers(const float* x, float* y, int n) { either_way<<<1, 64>>>(x, y, n); }

__global__ void one_says_so(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) y[0] = 1.0f;
    if (i < n) atomicExch(&y[1], 1.0f);
}
extern "C" void same_value(const float* x, float* y, int n) { one_says_so<<<2, 32>>>(x, y, n); }

extern "C" void never_freed(const float* x, float* y, int n) {  // kept for the next call
    static float* workspace;
    if (!workspace) cudaMalloc(&workspace, n * sizeof(float));
    cudaMemcpy(workspace, x, n * sizeof(float), cudaMemcpyDeviceToDevice);
    sum_of_workspace<<<1, 1>>>(workspace, y, n);
}
