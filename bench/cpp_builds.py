"""How long the four ways of building one C++ operator keep the compiler busy.

    python -m bench.cpp_builds

Processor seconds of the compiler and the lines that it reads, the least of three builds each. The
chapter of unit 06 quotes the times from here and counts lines of its own.
"""

import resource
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch

from onelayer.custom_op.cpp_compiler import compiler, identity
from onelayer.custom_op.cpp_op import lines_read

INCLUDE = Path(torch.__file__).parent / "include"
PLACES = [INCLUDE, INCLUDE / "torch/csrc/api/include", sysconfig.get_paths()["include"]]
FLAGS = ["-std=c++20", "-O2", "-fPIC", *(f"-isystem{place}" for place in PLACES)]
LOOP = """
  for (int64_t n = 0; n < N; ++n)
    for (int64_t v = 0; v < V; ++v) {
      float sum = b[v];
      for (int64_t d = 0; d < D; ++d) sum += x[n * D + d] * w[v * D + d];
      z[n * V + v] = sum;
    }
"""
FUNCTION = f"""
#include <cstdint>
extern "C" void linear(const float* x, const float* w, const float* b, float* z,
                       int64_t N, int64_t V, int64_t D) {{{LOOP}}}
"""
ATEN = f"""
at::Tensor linear(const at::Tensor& xt, const at::Tensor& wt, const at::Tensor& bt) {{
  const int64_t N = xt.size(0), V = wt.size(0), D = wt.size(1);
  TORCH_CHECK(xt.dim() == 2 && xt.size(1) == D, "x wants ", D, " columns");
  at::Tensor zt = at::empty({{N, V}}, xt.options());
  const float *x = xt.const_data_ptr<float>(), *w = wt.const_data_ptr<float>();
  const float* b = bt.const_data_ptr<float>();
  float* z = zt.mutable_data_ptr<float>();{LOOP}  return zt;
}}
TORCH_LIBRARY(bench, m) {{ m.def("linear(Tensor x, Tensor w, Tensor b) -> Tensor"); }}
TORCH_LIBRARY_IMPL(bench, CPU, m) {{ m.impl("linear", &linear); }}
"""
STABLE = (
    ATEN.replace("at::Tensor", "torch::stable::Tensor")
    .replace("TORCH_LIBRARY", "STABLE_TORCH_LIBRARY")
    .replace("TORCH_CHECK", "STD_TORCH_CHECK")
    .replace("at::empty({N, V}, xt.options())", "torch::stable::new_empty(xt, {N, V})")
    .replace("&linear", "TORCH_BOX(&linear)")
)


def including(*headers: str) -> str:
    return "".join(f"#include <{header}>\n" for header in headers)


WAYS = {
    "torch/extension.h": including("torch/extension.h") + ATEN,
    "light ATen headers": including("torch/library.h", "ATen/core/Tensor.h", "ATen/ops/empty.h")
    + ATEN,
    "stable ABI headers": including(
        "torch/csrc/stable/library.h", "torch/csrc/stable/ops.h", "torch/csrc/stable/tensor.h"
    )
    + STABLE,
    'extern "C", no headers of torch': FUNCTION,
}


def processor_s(source: str, room: Path) -> float:
    """Processor seconds of one compilation."""
    (room / "op.cpp").write_text(source, encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [*compiler(), *FLAGS, "-c", "op.cpp", "-o", "op.o"]
    subprocess.run(command, cwd=room, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    print(f"torch {torch.__version__}, {identity().splitlines()[0]}, {sys.platform}")
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        took = {way: min(processor_s(code, room) for _ in range(3)) for way, code in WAYS.items()}
        for way, seconds in took.items():
            ratio = seconds / took["stable ABI headers"]
            print(f"{way:32} {seconds:6.2f} s {ratio:6.2f} x {lines_read(WAYS[way]):9,} lines")


if __name__ == "__main__":
    main()
