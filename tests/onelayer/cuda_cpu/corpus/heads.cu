// The head y = x W^T + b in several styles: naive, tiled, any strides, one template for three types.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__global__ void naive(const float* x, const float* w, const float* b, float* y, int N, int D, int V) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    int n = blockIdx.y * blockDim.y + threadIdx.y;
    if (n >= N || v >= V) return;
    float acc = b[v];
    for (int d = 0; d < D; d++) acc += x[n * D + d] * w[v * D + d];
    y[n * V + v] = acc;
}

#define TILE 16

__global__ void __launch_bounds__(TILE* TILE)
    tiled(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
          float* __restrict__ y, int N, int D, int V) {
    __shared__ float xs[TILE][TILE], ws[TILE][TILE + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int n = blockIdx.y * TILE + ty, v = blockIdx.x * TILE + tx;
    float acc = 0.0f;
    for (int d0 = 0; d0 < D; d0 += TILE) {
        const int row = blockIdx.x * TILE + ty, d = d0 + tx;
        xs[ty][tx] = (n < N && d < D) ? x[n * D + d] : 0.0f;
        ws[ty][tx] = (row < V && d < D) ? w[row * D + d] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) acc += xs[ty][k] * ws[tx][k];
        __syncthreads();
    }
    if (n < N && v < V) y[(size_t)n * V + v] = acc + b[v];
}

struct View {  // a matrix of any strides
    const float* at;
    int rows, columns, down, across;
    __device__ __forceinline__ float get(int i, int j) const {
        return i < rows && j < columns ? at[i * down + j * across] : 0.0f;
    }
};

template <int SIDE>
__global__ void of_any_strides(View x, View w, const float* b, float* y, int down, int across) {
    __shared__ float xs[SIDE * SIDE];
    __shared__ float ws[SIDE * SIDE];
    int tx = threadIdx.x % SIDE, ty = threadIdx.x / SIDE;
    int n = blockIdx.y * SIDE + ty, v = blockIdx.x * SIDE + tx;
    float acc = 0;
    for (int d = 0; d < x.columns; d += SIDE) {
        xs[ty * SIDE + tx] = x.get(n, d + tx);
        ws[ty * SIDE + tx] = w.get(blockIdx.x * SIDE + ty, d + tx);
        __syncthreads();
        for (int k = 0; k < SIDE; k++) acc = fmaf(xs[ty * SIDE + k], ws[tx * SIDE + k], acc);
        __syncthreads();
    }
    if (n < x.rows && v < w.rows) y[n * down + v * across] = acc + b[v];
}

template <typename T> __device__ float wide(T x);
template <> __device__ float wide(float x) { return x; }
template <> __device__ float wide(__half x) { return __half2float(x); }
template <> __device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T> __device__ T narrow(float x);
template <> __device__ float narrow(float x) { return x; }
template <> __device__ __half narrow(float x) { return __float2half(x); }
template <> __device__ __nv_bfloat16 narrow(float x) { return __float2bfloat16(x); }

template <typename T> __global__ void of_any_type(const T* x, const T* w, const T* b, T* y, int N, int D, int V) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* row = reinterpret_cast<T*>(memory);  // this token's x
    for (int d = threadIdx.x; d < D; d += blockDim.x) row[d] = x[blockIdx.x * D + d];
    __syncthreads();
    for (int v = threadIdx.x; v < V; v += blockDim.x) {
        float acc = wide(b[v]);
        for (int d = 0; d < D; d++) acc += wide(row[d]) * wide(w[v * D + d]);
        y[blockIdx.x * V + v] = narrow<T>(acc);
    }
}

static int ceil_div(int a, int b) { return (a + b - 1) / b; }

extern "C" int head_naive(const float* x, const float* w, const float* b, float* y, int N, int D, int V) {
    if (N == 0) return 0;
    dim3 block(32, 8);
    dim3 grid(ceil_div(V, block.x), ceil_div(N, block.y));
    naive<<<grid, block>>>(x, w, b, y, N, D, V);
    return cudaGetLastError();
}

extern "C" int head_tiled(const float* x, const float* w, const float* b, float* y, int N, int D, int V,
                          cudaStream_t stream) {
    if (N == 0) return 0;
    tiled<<<dim3(ceil_div(V, TILE), ceil_div(N, TILE)), dim3(TILE, TILE), 0, stream>>>(x, w, b, y, N, D, V);
    return cudaGetLastError();
}

extern "C" int head_strided(const float* x, const float* w, const float* b, float* y, int N, int D, int V,
                            int x_down, int x_across, int w_down, int w_across, int y_down, int y_across) {
    if (N == 0) return 0;
    View xs{x, N, D, x_down, x_across}, ws{w, V, D, w_down, w_across};
    of_any_strides<8><<<dim3(ceil_div(V, 8), ceil_div(N, 8)), 64>>>(xs, ws, b, y, y_down, y_across);
    return cudaGetLastError();
}

extern "C" {
void head_half(const __half* x, const __half* w, const __half* b, __half* y, int N, int D, int V) {
    if (N > 0) of_any_type<__half><<<N, 96, D * sizeof(__half)>>>(x, w, b, y, N, D, V);
}
void head_bfloat16(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b, __nv_bfloat16* y,
                   int N, int D, int V) {
    if (N > 0) of_any_type<<<N, 96, D * sizeof(__nv_bfloat16)>>>(x, w, b, y, N, D, V);
}
}
