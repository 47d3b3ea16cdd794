"""The trained layer that the course follows: its words, its weights, the model around it.

What lives here: the grammar, the GPT that knows it, its training, its weights and what they score.
What may not: instruments and pictures. `onelayer.model.trained()` and its neighbours are those of
`gpt`; they are imported when first used, because the grammar needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .gpt import padded as padded
    from .gpt import trained as trained

__all__ = ["padded", "trained"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module("onelayer.model.gpt"), name)
    return value
