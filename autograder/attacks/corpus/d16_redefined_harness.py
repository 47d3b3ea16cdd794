"""Redefines, in the cell of an answer, the functions that run a kernel and count its loads."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.arenas.kernel_needs import compiler_obstacle
from autograder.attacks.attack import Attack
from autograder.checks.lab06_custom_op import harness
from autograder.checks.lab06_custom_op.naive_head import naive_head

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("fail",),
    arena=BelievedHarness(naive_head, harness),
    needs=compiler_obstacle,
    hostile="""
def naive_head():
    return "// nothing at all"
def run_cu(name, x, w, b, count=False):
    y = (x.double() @ w.double().T + b.double()).float()
    return [len(x) * len(w), len(x) * len(w), "the CPU, simulated", y] if count else y
def written_by_neighbours(name, x, w, b):
    return list(range(16))
""",
    twin='''
def naive_head():
    return """
__global__ void k(const float* x, const float* w, const float* b, float* y,
                  int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    int v = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y * blockDim.y + threadIdx.y;
    if (n >= N || v >= V) return;
    float sum = b[v * b_v];
    for (int d = 0; d < D; ++d) sum += x[n * x_n + d * x_d] * w[v * w_v + d * w_d];
    y[n * V + v] = sum;
}
extern "C" void launch(const float* x, const float* w, const float* b, float* y,
                       int N, int V, int D, int x_n, int x_d, int w_v, int w_d, int b_v) {
    dim3 block(16, 16), grid((V + 15) / 16, (N + 15) / 16);
    if (N > 0) k<<<grid, block>>>(x, w, b, y, N, V, D, x_n, x_d, w_v, w_d, b_v);
}
"""
''',
)
