"""Listings that come back from an answer: read with suspicion, and run by ourselves.

A pass over a graph is judged by the graph that it leaves. That graph arrives as rows
(`onelayer.compiler.listing`), so what it computes, what it writes into and how many operators it
takes is found out here, on fresh inputs, with torch's own operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Question, Wrong, describe, expect_close, expect_tuple, text, within
from onelayer.compiler.listing import Row, operator

Rows = list[Row]
Inputs = dict[str, Tensor]
OPERATORS = frozenset(
    (
        "aten.mm.default",
        "aten.addmm.default",
        "aten.add.Tensor",
        "aten.mul.Tensor",
        "aten.sub.Tensor",
        "aten.div.Tensor",
        "aten.relu.default",
        "aten.tanh.default",
        "aten.exp.default",
        "aten.neg.default",
        "aten.abs.default",
        "aten.t.default",
        "aten.add_.Tensor",
        "aten.mul_.Tensor",
        "aten.rand_like.default",
    )
)
ROWS_AT_MOST = 200
_FORM = "a list of rows (name, op, args, kwargs)"


def operators(rows: Sequence[Row]) -> list[str]:
    """The operators of a listing, in order."""
    return [op for _, op, _, _ in rows if op not in ("input", "output")]


def readers(rows: Sequence[Row], name: str) -> int:
    """How often a row is read, outputs included."""
    return sum(args.count(name) for _, _, args, _ in rows)


def read(got: Any) -> Rows:
    """The listing that an answer returned. Raises Wrong for anything else, and for operators that
    none of ours has."""
    each = expect_tuple(got, None, _FORM)
    if not 0 < len(each) <= ROWS_AT_MOST:
        raise Wrong(expected=_FORM, got=describe(got))
    rows = [_row(place, row) for place, row in enumerate(each)]
    if [op for _, op, _, _ in rows].count("output") != 1 or rows[-1][1] != "output":
        raise Wrong(expected="one output, in the last row", got=describe(got[-1]))
    return rows


def _row(place: int, row: Any) -> Row:
    where = f"in row {place}"
    name, op, args, kwargs = expect_tuple(row, 4, _FORM, where=where)
    if not (isinstance(name, str) and isinstance(op, str) and isinstance(kwargs, dict)):
        raise Wrong(expected=_FORM, got=describe(row), where=where)
    if op not in OPERATORS and op not in ("input", "output"):
        raise Wrong(expected="operators of the listing, or addmm", got=op, where=where)
    if not isinstance(args, (list, tuple)) or not all(
        isinstance(value, (str, int, float)) for value in (*args, *kwargs.values())
    ):
        raise Wrong(expected="args of names and numbers", got=describe(args), where=where)
    return name, op, list(args), dict(kwargs)


def run(rows: Sequence[Row], inputs: Inputs) -> list[Tensor]:
    """What a listing returns for these inputs; it may write into them. Raises Wrong where it does
    not run."""
    made: dict[str, Tensor] = {}
    for name, op, args, kwargs in rows:
        if op == "input":
            if name not in inputs:
                raise Wrong(expected=f"inputs {', '.join(inputs)}", got=f"an input {name}")
            made[name] = inputs[name]
            continue
        given = [_value(made, arg, name) for arg in args]
        if op == "output":
            return given
        made[name] = _called(op, given, kwargs, name)
    raise AssertionError("a listing that was read has an output")


def _value(made: dict[str, Tensor], arg: Any, name: str) -> Any:
    if not isinstance(arg, str):
        return arg
    if arg not in made:
        raise Wrong(
            expected="names of earlier rows", got=f"{arg!r}, which no row before has", where=name
        )
    return made[arg]


def _called(op: str, given: list[Any], kwargs: dict[str, Any], name: str) -> Tensor:
    try:
        result: Tensor = operator(op)(*given, **kwargs)
    except Exception as error:  # a stranger's arguments
        line = str(error).partition("\n")[0]
        got = text("error", error=type(error).__name__, message=line)
        raise Wrong(expected="a listing that runs", got=got, where=f"{name} = {op}") from None
    return result


def expect_same(got: Rows, rows: Sequence[Row], inputs: Inputs) -> None:
    """Both listings return the same, and leave their inputs the same. Both draw from one seed."""
    mine, theirs = ({k: t.clone() for k, t in inputs.items()} for _ in range(2))
    want, came = _seeded(rows, mine), _seeded(got, theirs)
    if len(came) != len(want):
        raise Wrong(expected=f"{len(want)} results", got=f"{len(came)} results")
    sides = [(f"result {k},", c, w) for k, (c, w) in enumerate(zip(came, want, strict=True))]
    sides += [(f"input {name} afterwards,", theirs[name], mine[name]) for name in mine]
    for place, came_as, wanted in sides:
        with within(place):
            expect_close(came_as, wanted, tolerance=1e-4)


def _seeded(rows: Sequence[Row], inputs: Inputs) -> list[Tensor]:
    with torch.random.fork_rng(devices=()):
        # torch.manual_seed would keep a stack trace for each GPU library that is not there: 2 ms.
        torch.default_generator.manual_seed(0)
        return run(rows, inputs)


@contextmanager
def named(question: Question, seen: Sequence[tuple[Rows, Rows, Inputs]]) -> Iterator[None]:
    """Inside, an answer that is wrong as a known one is gets its sentence, if no other known one is
    as wrong on this graph, and right on those before it. seen: what came of each graph so far, the
    graph, and its inputs.

    The judge compares answers as they came; listings that differ in names alone are one answer.
    """
    try:
        yield
    except Wrong as wrong:
        alike = set()
        for known in question.wrong_answers:
            (answer,) = known.functions.values()
            if all(_is_of(answer, *one) for one in reversed(seen)):
                alike.add(known.sentence)
        if len(alike) == 1:
            wrong.why = alike.pop()
        raise


def _is_of(answer: Callable[[Rows], Any], got: Rows, rows: Rows, inputs: Inputs) -> bool:
    try:
        return _alike(got, answer([*rows]), inputs)
    except Exception:  # a known answer that raises is another one
        return False


def _alike(a: Rows, b: Rows, inputs: Inputs) -> bool:
    """Whether two listings run the same operators, and come to the same or stop at the same."""
    if sorted(operators(a)) != sorted(operators(b)):
        return False
    try:
        expect_same(a, b, inputs)
    except Wrong:
        return _stops_at(a, inputs) == _stops_at(b, inputs) != ""
    return True


def _stops_at(rows: Rows, inputs: Inputs) -> str:
    """What torch says when it refuses to run a listing, "" if it runs."""
    try:
        run(rows, {name: t.clone() for name, t in inputs.items()})
    except Wrong as wrong:
        return str(wrong.got)
    return ""
