"""Hides a kernel's loads from whoever counts them, by a name of the header that stands in for
CUDA's."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.arenas.kernel_needs import compiler_obstacle
from autograder.attacks.attack import Attack
from autograder.checks.lab06_custom_op import harness
from autograder.checks.lab06_custom_op.tiled_head import tiled_head

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("flagged",),
    arena=BelievedHarness(tiled_head, harness),
    needs=compiler_obstacle,
    hostile='''
def tiled_head():
    return """
__device__ ONELAYER_UNSEEN float product(const float* a, const float* b) { return *a * *b; }
__global__ void k(const float* x, const float* w, const float* b, float* y,
                  int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    int v = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y * blockDim.y + threadIdx.y;
    if (n >= N || v >= V) return;
    float sum = b[v * b_v];
    for (int d = 0; d < D; ++d) sum += product(x + n * x_n + d * x_d, w + v * w_v + d * w_d);
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
constexpr int TILE = 16;

__global__ void tiled_head(const float* x, const float* w, const float* b, float* y,
                           int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    // a column more than needed: then the 16 rows of ws begin in different banks
    __shared__ float xs[TILE][TILE + 1], ws[TILE][TILE + 1];
    int i = threadIdx.y, j = threadIdx.x;                      // my place in the tiles
    int n = blockIdx.y * TILE + i, v = blockIdx.x * TILE + j;  // my element of y
    float sum = 0;
    for (int first = 0; first < D; first += TILE) {  // features first, ..., first + 15
        int d = first + j, row = blockIdx.x * TILE + i;  // find what it reads
        xs[i][j] = n < N && d < D ? x[n * x_n + d * x_d] : 0;
        ws[i][j] = row < V && d < D ? w[row * w_v + d * w_d] : 0;
        __syncthreads();  // the tiles are whole
        for (int k = 0; k < TILE; ++k) sum += xs[i][k] * ws[j][k];  // compute
        __syncthreads();  // and nobody needs them any more
    }
    if (n < N && v < V) y[n * V + v] = sum + b[v * b_v];  // write it
}

extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    dim3 block(TILE, TILE), grid((V + TILE - 1) / TILE, (N + TILE - 1) / TILE);
    if (N > 0)
        tiled_head<<<grid, block>>>(x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""
''',
)
