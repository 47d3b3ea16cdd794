"""CUDA C++ on the CPU: a student's `.cu` file, unchanged, built by g++ and watched as it runs.

    kernels = cuda_cpu.build(Path("head.cu"))
    run = kernels.call("launch_head", x, w, b, out, n)   # its extern "C" void launch_head(...)
    print(run)              # clean, and loads and stores per thread; or what went wrong, by line
    run.faults[0].kind      # "out_of_bounds", "race", "divergent_barrier", ...

What lives here: the header that stands in for CUDA's, the runtime that runs the blocks, and what
builds, calls and reports. What may not: anything about one lab. It cannot show speed, coalescing,
bank conflicts, occupancy, or what a GPU's memory model allows. Files that the `.cu` file includes
are taken as they are: a launch or shared memory in them is not understood. Races on a tensor of
more than some 40 MB are not watched.
"""

from pathlib import Path
from typing import Literal

from onelayer.cuda_cpu import nvcc
from onelayer.cuda_cpu.builds import library
from onelayer.cuda_cpu.cost import Cost
from onelayer.cuda_cpu.faults import KINDS, Fault, KernelFault
from onelayer.cuda_cpu.in_process import InProcess
from onelayer.cuda_cpu.modes import Fibers, Mode, Sanitizer
from onelayer.cuda_cpu.nvcc import TARGETS
from onelayer.cuda_cpu.on_gpu import OnGpu
from onelayer.cuda_cpu.sanitized import Sanitized
from onelayer.cuda_cpu.text import Text
from onelayer.custom_op.cpp_compiler import CompileError, NoCompiler

from .kernel_file import Kernels
from .outcome import Launch, Run

__all__ = [
    "KINDS",
    "TARGETS",
    "CompileError",
    "Cost",
    "Fault",
    "KernelFault",
    "Kernels",
    "Launch",
    "NoCompiler",
    "Run",
    "build",
    "through_nvcc",
]


def build(
    source: str | Path,
    *,
    check: bool = True,
    sanitize: Sanitizer | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    fibers: Fibers | None = None,
) -> Kernels:
    """Return the kernels of a `.cu` file (a Path), or of the text of one (a str with a newline).

    check: watch each load and store: bounds, memory that nobody has written, races, leaks, counts.
    Without it a kernel runs many times faster, and only barriers, warps, launches, cudaFree and
    missing returns are watched.
    sanitize: run each call in a process of its own under ASan ("address") or TSan ("thread").
    device: "cuda" has nvcc build it for the GPU that is there, and takes tensors on the GPU.
    fibers: "portable" switches by setjmp; "threads" makes each CUDA thread one of the system's.

    Built files are kept by content in `ONELAYER_CACHE`, or in the user's cache folder.
    Raises CompileError with the student's lines; NoCompiler where there is no compiler.
    """
    text = Text.of(source)
    if device == "cuda":
        return OnGpu(text)
    mode = Mode(check, sanitize, fibers)
    run_in = Sanitized if sanitize else InProcess
    return run_in(text, mode, library(text, mode))


def through_nvcc(source: str | Path, target: str) -> bytes:
    """Return the machine code that nvcc makes of the file for a target such as "sm_75".

    No GPU is needed. Raises CompileError with the student's lines; NoCompiler without nvcc.
    """
    return nvcc.cubin(Text.of(source), target)
