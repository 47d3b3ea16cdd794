"""A training step in float16 as rows, and what torch does with it: its optimizers, its GradScaler.

Rows are tuples, a verb first. Nobody's word counts for a loss or a weight: the rows run here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from autograder.judge import Draw, Wrong, describe, text

Rows = list[tuple[Any, ...]]
Batch = tuple[Tensor, Tensor]
STEPS = 4
SCALE = 2.0**16
NO_WEIGHTS = (
    "The row `weights` is missing. It says in which dtype the optimizers keep their weights, and "
    "every run has it, also where no such row came."
)
_PER_TOKEN = 2.0**-16
"""Of the loss, which is a mean over a large batch: this rank has a small part of it."""
_LR = 2.0**12
_HUGE = 1e6
"""A target with which a scaled gradient overflows float16."""


@dataclass
class Task:
    """Two weights with an optimizer each, by its name, and batches for each step, by theirs."""

    weights: dict[str, Tensor]
    steps: list[dict[str, Batch]]


@dataclass
class Trained:
    """What came of a run: the loss of each forward, the weights and the scale after each step."""

    losses: list[float] = field(default_factory=list)
    weights: list[dict[str, Tensor]] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)


def drawn_task(draw: Draw, optimizers: Sequence[str], batches: Sequence[str]) -> Task:
    """A small net and what it learns; in the third step one target is huge."""
    rows, wide, inner, out = draw.integer(6, 9), 5, draw.integer(7, 11), 3
    body, head = draw.tensor(wide, inner) / 2, draw.tensor(inner, out) / 2
    steps = []
    for k in range(STEPS):
        data = {name: (draw.tensor(rows, wide), draw.tensor(rows, out)) for name in batches}
        if k == 2:
            data[batches[-1]][1][draw.integer(0, rows - 1), draw.integer(0, out - 1)] = _HUGE
        steps.append(data)
    return Task(dict(zip(optimizers, (body, head), strict=True)), steps)


def trained(rows: Any, task: Task) -> Trained:
    """What torch does with these rows, in each step. Raises Wrong where it, or a row, cannot be
    run."""
    run = _Run(task)
    for data in task.steps:
        run.begin(data)
        for place, row in enumerate(_checked(rows)):
            verb, *arguments = row
            try:
                run.verbs[verb](*arguments)
            except (RuntimeError, AssertionError, TypeError, KeyError, ValueError) as error:
                line = str(error).partition("\n")[0]
                said = text("error", error=type(error).__name__, message=line)
                where = text("within", place=f"row {place},", rest=describe(row))
                raise Wrong(expected="rows that run", got=said, where=where) from None
        run.end()
    return run.seen


def _checked(rows: Any) -> Rows:
    """The rows, if each is a known verb with plain arguments."""
    form = "a list of rows (verb, ...)"
    if not isinstance(rows, (list, tuple)):
        raise Wrong(expected=form, got=describe(rows))
    for place, row in enumerate(rows):
        known = isinstance(row, (list, tuple)) and row and isinstance(row[0], str)
        plain = known and all(isinstance(one, (str, int, float)) for one in row)
        if not plain or row[0] not in _Run.names:
            raise Wrong(expected=form, got=describe(row), where=f"row {place}")
    if not any(row[0] == "weights" for row in rows):
        raise Wrong(expected="a row ('weights', dtype)", got=describe(rows), why=NO_WEIGHTS)
    return [tuple(row) for row in rows]


class _Run:
    """The state of a run; a method for each verb."""

    names = ("weights", "forward", "backward", "unscale", "clip", "step", "step_always", "update")

    def __init__(self, task: Task) -> None:
        self.params = {name: nn.Parameter(w.clone()) for name, w in task.weights.items()}
        self.optimizers = {n: torch.optim.SGD([p], lr=_LR) for n, p in self.params.items()}
        self.scaler = torch.amp.GradScaler("cpu", SCALE, growth_interval=2)
        self.kept = torch.float32
        self.seen = Trained()
        self.verbs: dict[str, Callable[..., None]] = {n: getattr(self, n) for n in self.names}

    def begin(self, data: dict[str, Batch]) -> None:
        self.data, self.losses = data, dict[str, Tensor]()
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()

    def end(self) -> None:
        with torch.no_grad():
            for p in self.params.values():
                p.copy_(p.to(self.kept))
        self.seen.weights.append({n: p.detach().clone() for n, p in self.params.items()})
        self.seen.scales.append(self.scaler.get_scale())

    def weights(self, dtype: str) -> None:
        self.kept = {"float16": torch.float16, "float32": torch.float32}[dtype]

    def forward(self, batch: str) -> None:
        x, y = self.data[batch]
        body, head = (p.half() for p in self.params.values())
        z = torch.tanh(x.half() @ body) @ head
        self.losses[batch] = ((z.float() - y) ** 2).mean()
        self.seen.losses.append(self.losses[batch].item())

    def backward(self, batch: str, which: str) -> None:
        loss = self.losses[batch] * _PER_TOKEN
        scaled = {"scaled": self.scaler.scale, "plain": lambda loss: loss}[which](loss)
        scaled.backward()

    def unscale(self, name: str) -> None:
        self.scaler.unscale_(self.optimizers[name])

    def clip(self, name: str, norm: float) -> None:
        nn.utils.clip_grad_norm_([self.params[name]], norm)

    def step(self, name: str) -> None:
        self.scaler.step(self.optimizers[name])

    def step_always(self, name: str) -> None:
        self.optimizers[name].step()

    def update(self) -> None:
        self.scaler.update()
