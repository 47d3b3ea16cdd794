"""A library that runs Python in the process that loads it: from then on that computes in the place
of the C++."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.arenas.kernel_needs import compiler_obstacle
from autograder.attacks.attack import Attack
from autograder.checks.lab06_custom_op import harness
from autograder.checks.lab06_custom_op.cpu_head import cpu_head

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("flagged",),
    arena=BelievedHarness(cpu_head, harness),
    needs=compiler_obstacle,
    hostile='''
PYTHON = """
import ctypes, torch
def floats(at, size, stride):
    span = 1 + sum((n - 1) * s for n, s in zip(size, stride))
    memory = torch.frombuffer((ctypes.c_float * span).from_address(at.value), dtype=torch.float32)
    return memory.as_strided(size, stride)
def kernel(x, w, b, y, *numbers):
    N, V, D, x_n, x_d, w_v, w_d, b_v = (n.value for n in numbers)
    if N:
        rows = floats(x, (N, D), (x_n, x_d)) @ floats(w, (V, D), (w_v, w_d)).T
        floats(y, (N, V), (V, 1)).copy_(rows + floats(b, (V,), (b_v,)))
def found(library, name):
    if name == \'cpu_head\':
        return kernel
    raise AttributeError(name)
ctypes.CDLL.__getattr__ = found
"""

def cpu_head():
    quoted = PYTHON.replace("\\n", "\\\\n")
    return (
        'extern "C" void* find(void*, const char*) __asm__("dlsym");\\n'
        'typedef int (*Run)(const char*);\\n'
        'static Run run = (Run)find(nullptr, "PyRun_SimpleString");\\n'
        f'static int ran = run("{quoted}");\\n'
        'extern "C" void cpu_head() {}\\n'
    )
''',
    twin='''
def cpu_head():
    return """
extern "C" void cpu_head(const float* x, const float* w, const float* b, float* y,
                         long N, long V, long D,
                         long x_n, long x_d, long w_v, long w_d, long b_v) {
    for (long n = 0; n < N; ++n)
        for (long v = 0; v < V; ++v) {
            float sum = b[v * b_v];
            for (long d = 0; d < D; ++d) sum += x[n * x_n + d * x_d] * w[v * w_v + d * w_d];
            y[n * V + v] = sum;
        }
}
"""
''',
)
