"""A tape (`onelayer.profiling.tape`), run: its values by torch, its waits and its time by the
lab's machine. The tape comes from a stranger: every row is looked at before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Wrong, describe, expect_tuple, text
from onelayer.compiler.listing import operator
from onelayer.profiling.tape import FOREACH, Row

from .machine import Copy, Launch, Machine, Span, Wait

VIEWS = ("view.default", "reshape.default", "unsqueeze.default", "squeeze.default")
"""They launch nothing: what a tape's operators make is contiguous."""
OPERATORS = frozenset(
    f"aten.{name}"
    for name in (
        *(
            "mm.default",
            "relu.default",
            "tanh.default",
            "mean.default",
            "stack.default",
            "neg.default",
            "sum.default",
            "cat.default",
        ),
        *VIEWS,
        *("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "_foreach_neg.default"),
        *("_foreach_add.List", "_foreach_add.Scalar", "_foreach_sub.List", "_foreach_sub.Scalar"),
        *("_foreach_mul.List", "_foreach_mul.Scalar"),
    )
)
MAX_ROWS, MAX_LIST, MAX_NUMEL = 1000, 64, 10_000
LISTED = (
    "`tape.read` takes one value: make one of the list on the device, with `aten.stack.default`."
)
_FORM = "rows of a tape: (names, call, args, kwargs)"
_KERNEL_US, _COPY_US, _CALL_US = 4.0, 30.0, 3.0


@dataclass
class Played:
    """What became of a tape. device, host, pinned: values by name. pinned_from: what was pinned,
    under another name. waits: the rows in which the host waits. launches: how many operators were
    asked for, without views. pageable: rows that copy from it."""

    device: dict[str, Tensor]
    host: dict[str, Tensor]
    pinned: set[str] = field(default_factory=set)
    pinned_from: set[str] = field(default_factory=set)
    waits: list[str] = field(default_factory=list)
    pageable: list[str] = field(default_factory=list)
    launches: int = 0
    program: list[Any] = field(default_factory=list)

    @property
    def took_us(self) -> float:
        """Of the machine, from the first call to the end of the last work."""
        machine = Machine(start_us=0.0, pid=1)
        machine.run(self.program)
        return machine.seen.end_us


def played(rows: Any, host: Mapping[str, Tensor], device: Mapping[str, Tensor]) -> Played:
    """Runs the rows on these batches of the host and these tensors of the device.

    Raises Wrong for what is no row, or cannot run.
    """
    state = Played(dict(device), dict(host))
    each = expect_tuple(rows, None, _FORM, where="the rows")
    if len(each) > MAX_ROWS:
        raise Wrong(expected=f"at most {MAX_ROWS} rows", got=f"{len(each)} rows")
    for number, row in enumerate(each):
        _play(state, _row(row, f"in row {number}"), f"in row {number}")
    return state


def _row(row: Any, where: str) -> Row:
    names, call, args, kwargs = expect_tuple(row, 4, _FORM, where=where)
    listed = isinstance(names, (list, tuple)) and isinstance(args, (list, tuple))
    if not listed or not isinstance(kwargs, dict) or not isinstance(call, str):
        raise Wrong(expected=_FORM, got=describe(row), where=where)
    flat = [part for arg in args for part in (arg if isinstance(arg, (list, tuple)) else [arg])]
    plain = all(isinstance(part, (str, int, float)) for part in [*flat, *kwargs.values()])
    if not plain or not all(isinstance(name, str) for name in names) or len(flat) > MAX_LIST:
        raise Wrong(expected=_FORM, got=describe(row), where=where)
    return list(names), call, list(args), dict(kwargs)


def _play(state: Played, row: Row, where: str) -> None:
    names, call, args, kwargs = row
    if call in ("pin", "copy", "read"):
        made = [_moved(state, call, args, kwargs, names, where)]
    elif call == "gradients":
        made = _gradients(state, args, where)
        state.program += [_launch(call) for _ in made]
    elif call in OPERATORS:
        made = _operated(state, call, args, kwargs, where)
        if call.removeprefix("aten.") not in VIEWS:
            state.launches += 1
            state.program.append(_launch(call))
    else:
        lists = call.startswith(FOREACH)
        known = ", ".join(sorted(n for n in OPERATORS if n.startswith(FOREACH) == lists))
        why = f"For lists this check runs {known}." if lists else f"This check runs {known}."
        raise Wrong(expected="operators that it runs", got=describe(call), where=where, why=why)
    if len(made) != len(names):
        raise Wrong(expected=f"{len(made)} names", got=f"{len(names)} names", where=where)
    if sum(t.numel() for t in made) > MAX_NUMEL:
        raise Wrong(expected=f"at most {MAX_NUMEL} numbers", got="more", where=where)
    (state.host if call in ("pin", "read") else state.device).update(zip(names, made, strict=True))


def _moved(
    state: Played, call: str, args: list[Any], kwargs: dict[str, Any], names: list[str], where: str
) -> Tensor:
    """Between the host's memory and the device's."""
    place, said = (state.device, "device") if call == "read" else (state.host, "host")
    if call == "read" and args and isinstance(args[0], (list, tuple)):
        raise Wrong(expected="one name", got=describe(args[0]), where=where, why=LISTED)
    if len(args) != 1 or not isinstance(args[0], str) or args[0] not in place:
        raise Wrong(expected=f"what the {said} has", got=describe(args), where=where)
    value, nbytes = place[args[0]], place[args[0]].nbytes
    told = f"{call} {args[0]} ({where.removeprefix('in ')})"
    if call == "pin":
        state.pinned |= set(names)
        state.pinned_from.add(args[0])
        return value
    if call == "read":
        state.waits.append(told)
        copy = Copy("DtoH (Device -> Pinned)", nbytes, 1.5, _CALL_US)
        state.program += [copy, Wait("cudaStreamSynchronize", 0.5)]
        return value.detach()
    pinned = args[0] in state.pinned
    waits = not pinned or not kwargs.get("non_blocking")
    if waits:
        state.waits.append(told)
    if not pinned:
        state.pageable.append(told)
    kind = "Pinned" if pinned else "Pageable"
    state.program.append(Copy(f"HtoD ({kind} -> Device)", nbytes, _COPY_US, _CALL_US, waits=waits))
    return value


def _operated(
    state: Played, call: str, args: list[Any], kwargs: dict[str, Any], where: str
) -> list[Tensor]:
    given = [_value(state, arg, where) for arg in args]
    try:
        result = operator(call)(*given, **kwargs)
    except Exception as error:  # a stranger's arguments
        line = str(error).partition("\n")[0]
        got = text("error", error=type(error).__name__, message=line)
        raise Wrong(expected="a call that runs", got=got, where=where) from None
    return list(result) if call.startswith(FOREACH) else [result]


def _gradients(state: Played, args: list[Any], where: str) -> list[Tensor]:
    """Of the loss, through the rows that made it from these weights, and no further."""
    form = "a loss, and the weights that it was made from"
    if len(args) != 2 or not isinstance(args[0], str) or not isinstance(args[1], (list, tuple)):
        raise Wrong(expected=form, got=describe(args), where=where)
    loss, weights = _value(state, args[0], where), _value(state, args[1], where)
    try:
        made = torch.autograd.grad(loss, weights, retain_graph=True)
    except RuntimeError as error:
        line = str(error).partition("\n")[0]
        got = text("error", error=type(error).__name__, message=line)
        raise Wrong(expected=form, got=got, where=where) from None
    return [g.detach() for g in made]


def _value(state: Played, arg: Any, where: str) -> Any:
    if isinstance(arg, (list, tuple)):
        return [_value(state, part, where) for part in arg]
    if not isinstance(arg, str):
        return arg
    if arg not in state.device:
        there = "on the host" if arg in state.host else "nowhere"
        raise Wrong(expected="names of what the device has", got=f"{arg}, {there}", where=where)
    return state.device[arg]


def _launch(call: str) -> Span:
    kernels = [(call, _KERNEL_US)]
    return Span("cpu_op", call, 4.0, [Launch("cudaLaunchKernel", _CALL_US, kernels)])
