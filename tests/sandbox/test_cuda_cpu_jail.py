"""CUDA on the CPU in the jail: a submission builds its kernel there; faults have their lines."""

from __future__ import annotations

import pytest

from autograder.judge import Lab, State, ask, expect_close, expect_equal
from autograder.sandbox import Cell, Jail

pytestmark = [pytest.mark.jail, pytest.mark.compiler]
lab = Lab("16_kernels", "Kernels")
WELL = {"points": 1, "minutes": 5, "difficulty": 1, "hints": ("a", "b", "c")}
COMPILE_S = 200.0  # a few seconds of one processor, on a machine that has other things to do


@lab.question("doubled", budget_s=COMPILE_S, **WELL)
def doubled(student, draw):
    """2 x, by a kernel."""
    x = draw.tensor(77)
    expect_close(student.call("doubled", x), 2 * x)


@lab.question("fault", budget_s=COMPILE_S, **WELL)
def fault(student, draw):
    """The kind and the line of a fault."""
    expect_equal(student.call("fault", draw.tensor(77)), ("out_of_bounds", 4))


CELL = '''
import torch
from onelayer import cuda_cpu

SOURCE = """
__global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
extern "C" void launch(const float* x, float* y, int n) { k<<<(n + 31) / 32, 32>>>(x, y, n); }
"""

def doubled(x):
    y = torch.empty_like(x)
    cuda_cpu.build(SOURCE).call("launch", x, y, x.numel()).expect_clean()
    return y

def fault(x):
    broken = cuda_cpu.build(SOURCE.replace("if (i < n)", ""))
    found = broken.call("launch", x, torch.empty_like(x), x.numel()).faults[0]
    return found.kind, found.line
'''


@pytest.mark.timeout(600)
def test_a_kernel_is_built_and_watched_in_the_jail() -> None:
    with Jail() as jail, jail.open([Cell("a", CELL)]) as student:
        for name in ("doubled", "fault"):
            verdict = ask(lab.questions[name], student, seed=7)
            assert verdict.state is State.PASS, f"{verdict}\n{student.cells}"
