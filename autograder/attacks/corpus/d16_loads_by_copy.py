"""Loads whole rows by std::copy, which calls what the compiler has built in, and nobody watched."""

from autograder.attacks.arenas.believed_harness import Overlooked
from autograder.attacks.arenas.kernel_needs import compiler_obstacle
from autograder.attacks.attack import Attack
from autograder.checks.lab06_custom_op import harness
from autograder.checks.lab06_custom_op.tiled_head import tiled_head

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=Overlooked(tiled_head, harness, look="_expect_few_loads"),
    needs=compiler_obstacle,
    hostile='''
def tiled_head():
    return """
#include <algorithm>

__global__ void k(const float* x, const float* w, const float* b, float* y,
                  int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    int v = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y * blockDim.y + threadIdx.y;
    if (n >= N || v >= V) return;
    float sum = b[v * b_v];
    float p[64], q[64];
    if (x_d == 1 && w_d == 1 && D <= 64) {
        std::copy(x + n * x_n, x + n * x_n + D, p);
        std::copy(w + v * w_v, w + v * w_v + D, q);
        for (int d = 0; d < D; ++d) sum += p[d] * q[d];
    } else {
        for (int d = 0; d < D; ++d) sum += x[n * x_n + d * x_d] * w[v * w_v + d * w_d];
    }
    y[n * V + v] = sum;
}
extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    dim3 block(16, 16), grid((V + 15) / 16, (N + 15) / 16);
    if (N > 0) k<<<grid, block>>>(x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""
''',
    twin='''
def tiled_head():
    return """
#include <algorithm>

constexpr int TILE = 16;

__global__ void tiled_head(const float* x, const float* w, const float* b, float* y,
                           int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    __shared__ float xs[TILE][TILE + 1], ws[TILE][TILE + 1];
    int i = threadIdx.y, j = threadIdx.x;
    int n = blockIdx.y * TILE + i, v = blockIdx.x * TILE + j;
    float sum = 0;
    for (int first = 0; first < D; first += TILE) {
        int d = first + j, row = blockIdx.x * TILE + i;
        xs[i][j] = n < N && d < D ? *std::min(x + n * x_n + d * x_d, x + n * x_n + d * x_d) : 0;
        ws[i][j] = row < V && d < D ? w[row * w_v + d * w_d] : 0;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum = fmaf(xs[i][k], ws[j][k], sum);
        __syncthreads();
    }
    if (n < N && v < V) y[n * V + v] = sum + b[v * b_v];
}

extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    dim3 block(TILE, TILE), grid((V + TILE - 1) / TILE, (N + TILE - 1) / TILE);
    if (N > 0) tiled_head<<<grid, block>>>(x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""
''',
)
