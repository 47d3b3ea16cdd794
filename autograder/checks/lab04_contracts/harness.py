"""What runs in the clean room of lab 04: an admitted cell with a Function, asked what its node did.

Only its text travels, so it imports nothing beside it.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from autograder.judge.admission import defined

ANSWERS: dict[str, Any] = {}


def take_cell(name: str, source: str) -> None:
    """From now on the function that this admitted cell defines is the answer `name`."""
    ANSWERS[name] = defined(source, name, {})[name]


def linear_fn(x: Tensor, w: Tensor, b: Tensor | None, dy: Tensor) -> Any:
    """(y, the tensors that y's node saved, what backward answers).

    What the answer says of the node counts for nothing: torch is asked, or its hooks where a
    backward has freed the tensors.
    """
    packed: list[Tensor] = []

    def pack(t: Tensor) -> Tensor:
        packed.append(t)
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        found = ANSWERS["linear_fn"](x, w, b, dy)
        if not isinstance(found, (tuple, list)) or len(found) != 3:
            return found
        y, _, answers = found
        node = y.grad_fn if isinstance(y, Tensor) else None
        return y, _saved_by(node, packed), answers


def _saved_by(node: Any, packed: list[Tensor]) -> list[Tensor]:
    """Of a Function's node or of torch's own."""
    if node is None:
        return []
    names = [name for name in dir(node) if name.startswith("_saved_")]
    try:
        saved = node.saved_tensors if hasattr(node, "saved_tensors") else None
        found = [getattr(node, name) for name in names] if saved is None else saved
    except RuntimeError:  # freed: the answer went through autograd's engine
        return packed
    return [t for t in found if isinstance(t, Tensor)]
