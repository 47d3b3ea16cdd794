"""Drawn programs, and what Dynamo makes of them on our side.

A program is a text that defines `step`: text crosses to wherever the answer runs, and both sides
compile it there. A fresh text has a fresh code object, and Dynamo begins with an empty memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, fx

Arguments = Sequence[Any]
T = TypeVar("T")
REMEMBERED = 32


def load(source: str) -> Callable[..., Any]:
    """The function `step` that this text defines, before a Dynamo that has seen nothing."""
    from torch import _dynamo  # a second: not for whoever only asks which questions there are

    _dynamo.reset()
    page: dict[str, Any] = {"torch": torch, "F": F}
    exec(compile(source, "<step>", "exec"), page)
    step: Callable[..., Any] = page["step"]
    return step


@dataclass
class Given:
    """What a backend was given for one program: its graphs, and how often they ran."""

    graphs: list[fx.GraphModule] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)  # of each graph
    by_call: list[int] = field(default_factory=list)  # graphs that each call of the program brought

    def backend(self, graph_module: fx.GraphModule, example_inputs: list[Tensor]) -> Any:
        place = len(self.graphs)
        self.graphs.append(graph_module)
        self.runs.append(0)

        def run(*args: Any) -> Any:
            self.runs[place] += 1
            return graph_module(*args)

        return run


def compiled(source: str, calls: Sequence[Arguments]) -> Given:
    """What a backend gets when `step` is called with each of these arguments."""
    given = Given()
    step = torch.compile(load(source), backend=given.backend)
    for arguments in calls:
        before = len(given.graphs)
        step(*arguments)
        given.by_call.append(len(given.graphs) - before)
    return given


def operations(graph_module: fx.GraphModule) -> int:
    """The nodes of a graph that call something."""
    return sum(node.op.startswith("call_") for node in graph_module.graph.nodes)


def remembered(measure: Callable[[str, Sequence[Arguments]], T]) -> Callable[..., T]:
    """`measure` with a memory for a few programs: the known wrong answers ask again."""
    kept: dict[Any, T] = {}

    def measured(source: str, calls: Sequence[Arguments]) -> T:
        at = source, *(_key(argument) for arguments in calls for argument in arguments)
        if at not in kept:
            if len(kept) >= REMEMBERED:
                kept.clear()
            kept[at] = measure(source, calls)
        return kept[at]

    return measured


def _key(argument: Any) -> Any:
    if not isinstance(argument, Tensor):
        return argument
    return tuple(argument.shape), argument.dtype, float(argument.detach().double().sum())
