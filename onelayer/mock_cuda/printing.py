"""How a tensor of the mocked device prints: with its numbers where they are there, and otherwise
with the words that they are not. torch's own way reads the device behind every mode's back."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from onelayer.drawing.words import say
from onelayer.mock_cuda.aliases import missing, on_cpu, why


def print_honestly(*, values: bool) -> None:
    """From here on, in this process, the repr of a tensor of the device is as described."""
    theirs: Any = Tensor.__repr__

    def said(self: Tensor, *, tensor_contents: Any = None) -> str:
        if not self.is_cuda:
            return str(theirs(self, tensor_contents=tensor_contents))
        if not values:
            return _without_numbers(self, say("never computed"))
        if (kernel := missing(self)) is not None:
            return _without_numbers(self, say("never computed: {why}", why=why(kernel)))
        text = theirs(on_cpu(self.detach()).clone(), tensor_contents=tensor_contents)
        return f"{text[:-1]}, device='{self.device}')"

    Tensor.__repr__ = said  # type: ignore[method-assign, assignment]


def _without_numbers(t: Tensor, words: str) -> str:
    return f"tensor({words}, size={tuple(t.shape)}, dtype={t.dtype}, device='{t.device}')"
