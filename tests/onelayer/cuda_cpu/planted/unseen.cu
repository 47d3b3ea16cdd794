// Faults of which nothing is said here, and one that is none: docs/cuda_cpu.md names them.
#include <cuda_runtime.h>

__global__ void write(float* y) { y[threadIdx.x] = 1.0f; }
__global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

// On a GPU `copy` may come before `write`: nothing orders two streams.
extern "C" int two_streams(const float* x, float* y, int n) {
    cudaStream_t one, other;
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    write<<<1, n, 0, one>>>(y);
    copy<<<1, n, 0, other>>>(y, y + n);
    cudaStreamDestroy(one);
    cudaStreamDestroy(other);
    return cudaDeviceSynchronize();
}

extern "C" void copied_unwritten(const float* x, float* y, int n) {
    float *fresh, host;
    cudaMalloc(&fresh, sizeof(float));
    cudaMemcpy(&host, fresh, sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(y, &host, sizeof(float), cudaMemcpyHostToDevice);
    cudaFree(fresh);
}

// No leak: the next call would find it. The search ends at the library's own variables.
extern "C" void kept_in_the_heap(const float* x, float* y, int n) {
    struct Kept { float* workspace; };
    static Kept* kept = new Kept();
    if (!kept->workspace) cudaMalloc(&kept->workspace, n * sizeof(float));
}
