"""What runs in the clean room of lab 04: an admitted cell with a Function, asked what its node did.

Only its text travels, so it imports nothing beside it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from autograder.judge.admission import defined

ANSWERS: dict[str, Any] = {}


class NoFunction(Exception):
    """Behind y is no node of a Function."""


def take_cell(name: str, source: str) -> None:
    """From now on the function that this admitted cell defines is the answer `name`."""
    ANSWERS[name] = defined(source, name, {})[name]


def linear_fn(x: Tensor, w: Tensor, b: Tensor | None, dy: Tensor) -> Any:
    """(y, the tensors that y's node saved, what backward answers).

    What the answer says of the node counts for nothing: torch is asked. Its engine runs the node
    once more, so that the answers are those of this very node.
    """
    with graphs_kept():
        found = ANSWERS["linear_fn"](x, w, b, dy)
    if not isinstance(found, (tuple, list)) or len(found) != 3:
        return found
    y, _, answers = found
    node: Any = y.grad_fn if isinstance(y, Tensor) else None
    if not isinstance(node, BackwardCFunction):
        raise NoFunction("None" if node is None else node.name())
    saved = [t for t in node.saved_tensors if isinstance(t, Tensor)]
    return y, saved, _of_the_node(y, answers, [x, w, b], dy.clone())


@contextmanager
def graphs_kept() -> Iterator[None]:
    """Inside, autograd's engine frees nothing that a node has saved: whoever has an answer from it
    leaves a node that can still be asked."""
    grad, backward = torch.autograd.grad, torch.autograd.backward
    torch.autograd.grad, torch.autograd.backward = _keeping(grad), _keeping(backward)
    try:
        yield
    finally:
        torch.autograd.grad, torch.autograd.backward = grad, backward


def _keeping(run: Callable[..., Any]) -> Callable[..., Any]:
    def keeping(*args: Any, **named: Any) -> Any:
        given = inspect.signature(run).bind(*args, **named)
        given.arguments["retain_graph"] = True
        return run(*given.args, **given.kwargs)

    return keeping


def _of_the_node(y: Tensor, told: Any, inputs: list[Any], dy: Tensor) -> Any:
    """`told`, with the node's own answer wherever it gives another one."""
    if not isinstance(told, (tuple, list)) or len(told) != len(inputs):
        return told
    learning = [k for k, t in enumerate(inputs) if t is not None and t.requires_grad]
    given = [inputs[k] for k in learning]
    found = torch.autograd.grad(y, given, dy, retain_graph=True, allow_unused=True)
    answers = list(told)
    for k, own in zip(learning, found, strict=True):
        if own is None or (isinstance(told[k], Tensor) and _is_other(told[k], own)):
            answers[k] = own
    return answers


def _is_other(told: Tensor, own: Tensor) -> bool:
    """In the same form, other numbers; of another form torch has repaired what was told."""
    alike = told.shape == own.shape and told.dtype == own.dtype
    return alike and not torch.allclose(told, own, rtol=1e-4, atol=1e-5, equal_nan=True)
