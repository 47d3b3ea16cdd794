// Rows of logits: softmax by a block, cross-entropy by a warp in one pass.
#include <cuda_runtime.h>
#include <float.h>

__global__ void softmax(const float* z, float* p, int V) {
    extern __shared__ float scratch[];
    const float* row = z + (size_t)blockIdx.x * V;
    float largest = -FLT_MAX;
    for (int v = threadIdx.x; v < V; v += blockDim.x) largest = fmaxf(largest, row[v]);
    scratch[threadIdx.x] = largest;
    __syncthreads();
    for (int half = blockDim.x >> 1; half; half >>= 1) {
        if (threadIdx.x < half)
            scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + half]);
        __syncthreads();
    }
    largest = scratch[0];
    __syncthreads();
    float sum = 0;
    for (int v = threadIdx.x; v < V; v += blockDim.x) sum += expf(row[v] - largest);
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x >> 1; half; half >>= 1) {
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    for (int v = threadIdx.x; v < V; v += blockDim.x)
        p[(size_t)blockIdx.x * V + v] = __expf(row[v] - largest) / scratch[0];
}
extern "C" void softmax_rows(const float* z, float* p, int n, int V) {
    if (n > 0) softmax<<<n, 64, 64 * sizeof(float)>>>(z, p, V);
}

struct Running {
    float largest, sum;
};

__device__ Running join(Running a, Running b) {
    float largest = fmaxf(a.largest, b.largest);
    return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
}

__global__ void cross_entropy(const float* z, const long long* target, float* loss, int n, int V) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= n) return;  // a whole warp
    Running mine = {-FLT_MAX, 0};
    for (int v = lane; v < V; v += 32) mine = join(mine, {z[warp * V + v], 1.0f});
    for (int with = 16; with; with /= 2) {
        Running other;
        other.largest = __shfl_xor_sync(0xffffffff, mine.largest, with);
        other.sum = __shfl_xor_sync(0xffffffff, mine.sum, with);
        mine = join(mine, other);
    }
    if (lane == 0) loss[warp] = logf(mine.sum) + mine.largest - z[warp * V + target[warp]];
}
extern "C" void cross_entropy_rows(const float* z, const long long* target, float* loss, int n, int V) {
    if (n > 0) cross_entropy<<<(n + 3) / 4, 128>>>(z, target, loss, n, V);
}
