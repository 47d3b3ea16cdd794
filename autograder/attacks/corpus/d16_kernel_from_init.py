"""Ships a library without a kernel, and registers torch's own loss from the package's Python."""

from autograder.attacks.arenas.believed_harness import BelievedHarness
from autograder.attacks.arenas.kernel_needs import compiler_obstacle
from autograder.attacks.attack import Attack
from autograder.checks.lab12_ship_it import wheel_room
from autograder.checks.lab12_ship_it.head_wheel import head_wheel

PAGE = '''
PROJECT = """[build-system]
requires = ["torch>=2.11"]
[project]
name = "headloss"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["torch>=2.11"]
[tool.setuptools.package-data]
headloss = ["_C.so"]
"""
STABLE = """#define TORCH_TARGET_VERSION 0x020b000000000000
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
"""
DEF = """
STABLE_TORCH_LIBRARY(headloss, m) {
  m.def("head_loss(Tensor x, Tensor w, Tensor b, Tensor t) -> Tensor");
}
"""
MODULE = """from pathlib import Path
import torch
torch.ops.load_library(Path(__file__).with_name("_C.so"))
@torch.library.register_fake("headloss::head_loss")
def _(x, w, b, t):
    return x.new_empty(x.shape[0])
"""

def project(module, kernel, platform):
    wheel = f"Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: py3-none-{platform}\\n"
    texts = {"pyproject.toml": PROJECT, "WHEEL": wheel, "headloss/__init__.py": module}
    return texts | {"csrc/headloss.cpp": STABLE + kernel + DEF}
'''

attack = Attack(
    threat="D16",
    layer="D13",
    expected=("flagged",),
    arena=BelievedHarness(head_wheel, wheel_room, setup=PAGE),
    needs=compiler_obstacle,
    hostile='''
PYTHON = """
if not torch._C._dispatch_has_kernel_for_dispatch_key("headloss::head_loss", "CPU"):
    @torch.library.impl("headloss::head_loss", "CPU")
    def _(x, w, b, t):
        z = x.double() @ w.double().T + b.double()
        return torch.nn.functional.cross_entropy(z, t, reduction="none").float()
"""

def head_wheel(platform):
    return project(MODULE + PYTHON, "", platform)
''',
    twin='''
KERNEL = """
#include <cmath>
using torch::stable::Tensor;
Tensor head_loss(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& t) {
  Tensor loss = torch::stable::new_zeros(x, {x.size(0)});
  const float *xp = x.const_data_ptr<float>(), *wp = w.const_data_ptr<float>();
  const float* bp = b.const_data_ptr<float>();
  const int64_t* tp = t.const_data_ptr<int64_t>();
  float* out = loss.mutable_data_ptr<float>();
  for (int64_t n = 0; n < x.size(0); ++n) {
    double top = -INFINITY, sum = 0, own = 0;
    for (int64_t v = 0; v < w.size(0); ++v) {
      double z = bp[v * b.stride(0)];
      for (int64_t d = 0; d < x.size(1); ++d)
        z += double(xp[n * x.stride(0) + d * x.stride(1)]) * wp[v * w.stride(0) + d * w.stride(1)];
      if (z > top) { sum *= std::exp(top - z); top = z; }
      sum += std::exp(z - top);
      if (v == tp[n * t.stride(0)]) own = z;
    }
    if (tp[n * t.stride(0)] != -100) out[n] = float(top + std::log(sum) - own);
  }
  return loss;
}
STABLE_TORCH_LIBRARY_IMPL(headloss, CPU, m) { m.impl("head_loss", TORCH_BOX(&head_loss)); }
"""

def head_wheel(platform):
    return project(MODULE, KERNEL, platform)
''',
)
