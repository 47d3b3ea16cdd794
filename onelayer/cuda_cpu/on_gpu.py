"""Kernels that nvcc built, on the GPU of this machine."""

import ctypes

import torch

from onelayer.cuda_cpu import nvcc
from onelayer.cuda_cpu.call_arguments import invoke, prepare
from onelayer.cuda_cpu.faults import KernelFault
from onelayer.cuda_cpu.signature import Signature
from onelayer.cuda_cpu.text import Text
from onelayer.drawing.words import say

from .kernel_file import Kernels, Tensors, Values
from .outcome import Run


class OnGpu(Kernels):
    """The same file on a GPU. What a GPU does not tell (races, counts), this does not either."""

    device = "cuda"

    def __init__(self, text: Text) -> None:
        super().__init__(text)
        if not torch.cuda.is_available():
            raise RuntimeError(say("device='cuda' needs a GPU, and this machine has none."))
        major, minor = torch.cuda.get_device_capability()
        self._library = ctypes.CDLL(str(nvcc.library(text, f"sm_{major}{minor}")))

    def enqueue(self, function: str, *arguments: object) -> int | float | bool | None:
        """Return what the host function returns, which waits for nothing, and neither does this.

        For a function that takes a stream: pass `torch.cuda.current_stream().cuda_stream`, or it
        does not know of the work that its tensors still wait for. What a kernel does wrong shows
        later, in whatever waits next. Raises as `call` does for arguments that do not fit.
        """
        signature = self._signature(function)
        return self._begin(signature, prepare(signature, arguments, self.device))

    def _begin(self, signature: Signature, values: Values) -> int | float | bool | None:
        addresses = [v.data_ptr() if isinstance(v, torch.Tensor) else None for v in values]
        return invoke(self._library, signature, values, addresses)

    def _run(self, signature: Signature, values: Values, unwritten: Tensors) -> Run:
        torch.cuda.synchronize()  # the tensors are there: the file launches on a stream of its own
        value = self._begin(signature, values)
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise KernelFault(
                say("the GPU reports: {words}", words=str(error).splitlines()[0])
            ) from error
        return Run(value, where="cuda")
