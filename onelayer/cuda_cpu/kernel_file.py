"""A built `.cu` file: its host functions, called by name with tensors."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from onelayer.drawing.words import say

from .call_arguments import prepare
from .outcome import Run
from .signature import Signature, signatures
from .text import Text

Values = list[torch.Tensor | int | float | None]
Tensors = Sequence[torch.Tensor]


class Kernels(ABC):
    """The host functions of a `.cu` file."""

    device = "cpu"

    def __init__(self, text: Text) -> None:
        self.text = text
        self.signatures = signatures(text.code)

    def call(self, function: str, *arguments: object, unwritten: Tensors = ()) -> Run:
        """Return what an `extern "C"` host function of the file did; tensors are written in place.

        Tensors become pointers to their first element, of any strides: pass those as numbers. None
        is a null pointer. unwritten: those of the tensors that come fresh from `torch.empty`: where
        loads are watched, it is a fault to read them before a kernel has written them. Raises
        AttributeError for a function that the file does not export, and TypeError for an argument
        that does not fit, by its name.
        """
        signature = self._signature(function)
        return self._run(signature, prepare(signature, arguments, self.device), unwritten)

    @abstractmethod
    def _run(self, signature: Signature, values: Values, unwritten: Tensors) -> Run:
        """Call, with arguments that fit."""

    def _signature(self, function: str) -> Signature:
        if function not in self.signatures:
            there = ", ".join(self.signatures) or say("none")
            raise AttributeError(
                say(
                    'the file has no host function extern "C" ... {function}(...); '
                    "it exports: {there}",
                    function=function,
                    there=there,
                )
            )
        return self.signatures[function]
