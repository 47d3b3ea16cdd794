"""What a schema says about memory."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from autograder.judge import Draw, Student, expect_equal

from . import lab
from .keys import Names
from .operators import overload_of

Aliases = tuple[Names, Names]


def _real_calls() -> dict[str, dict[str, Any]]:
    """Operators with arguments for one call that shares all the memory that it may share."""
    x, half = torch.ones(4, 6), torch.ones(4, 3)
    values, at = torch.ones(4, 2), torch.zeros(4, 2, dtype=torch.int64)
    return {
        "addmm": {"self": torch.ones(4, 4), "mat1": x, "mat2": torch.ones(6, 4)},
        "add_.Tensor": {"self": x, "other": torch.ones(6)},
        "view": {"self": x, "size": [24]},
        "_foreach_add_.Scalar": {"self": [x, half], "scalar": 1},
        "addmm.out": {
            "self": torch.ones(4, 4),
            "mat1": x,
            "mat2": torch.ones(6, 4),
            "out": torch.ones(4, 4),
        },
        "split.Tensor": {"self": x, "split_size": 2},
        "topk.values": {"self": x, "k": 2, "values": values, "indices": at},
        "to.dtype": {"self": x, "dtype": torch.float32},
        "index_put_": {
            "self": x,
            "indices": [torch.tensor([1])],
            "values": torch.zeros(6),
        },
    }


@lab.question(
    "read_schema",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "Print `found` and `returns` for the example. What makes an argument written, and what "
        "makes it shared?",
        "Collect the set letters of `returns` first, those between `Tensor(` and `)`, without the "
        "`!`. An argument is shared if its letter is among them, whether it is written or not.",
        r'returned = set(re.findall(r"\((\w+)!?\)", returns))',
    ),
)
def read_schema(student: Student, draw: Draw) -> None:
    """What a schema promises about memory: which arguments are written, and which may share memory
    with a return.

    schema (text) -> (names of written arguments, names of arguments that a return may alias).
    """
    for op, arguments in _real_calls().items():
        schema = str(overload_of(f"aten::{op}")._schema)
        expect_equal(student.call("read_schema", schema), _observed(op, arguments))
    written_and_kept = (
        "onelayer::named(Tensor(a) self, Tensor(b!) out) -> (Tensor(a) base, Tensor obs)"
    )
    expect_equal(student.call("read_schema", written_and_kept), (["out"], ["self"]))
    turned = "onelayer::turned(Tensor(a!) x, Tensor(b) y) -> (Tensor(b) second, Tensor(a!) first)"
    expect_equal(student.call("read_schema", turned), (["x"], ["x", "y"]))
    either = "onelayer::either(Tensor(a) x, Tensor y, Tensor(a) z) -> Tensor(a)"
    expect_equal(student.call("read_schema", either), ([], ["x", "z"]))
    for _ in draw.cases(6):
        text, truth = _drawn_schema(draw)
        expect_equal(student.call("read_schema", text), truth)


def _observed(op: str, arguments: dict[str, Any]) -> Aliases:
    """By mechanism: whose version counter moved, and whose storage came back."""
    tensors = {name: tree_leaves(value) for name, value in arguments.items()}
    held = {name: [t for t in ts if isinstance(t, torch.Tensor)] for name, ts in tensors.items()}
    before = {name: [t._version for t in ts] for name, ts in held.items()}
    result = [t for t in tree_leaves(overload_of(f"aten::{op}")(**arguments)) if t is not None]
    back = {t.untyped_storage().data_ptr() for t in result}
    written = [name for name, ts in held.items() if [t._version for t in ts] != before[name]]
    shared = {
        name for name, ts in held.items() if back & {t.untyped_storage().data_ptr() for t in ts}
    }
    return written, [name for name in held if name in shared]


def _drawn_schema(draw: Draw) -> tuple[str, Aliases]:
    """A schema put together from parts, with what its parts mean."""
    arguments, returns, written, aliased = [], [], [], []
    for name, letter in zip(draw.shuffled(("self", "other", "mask", "out")), "abcd", strict=True):
        kind = draw.integer(0, 3)
        bang = "!" if kind == 1 else ""
        arguments.append(f"Tensor({letter}{bang}) {name}" if kind < 3 else f"Tensor {name}")
        written += [name] * bool(bang)
        if kind < 2 and draw.integer(0, 2):
            returns.append(f"Tensor({letter}{bang})")
            aliased.append(name)
    arguments.insert(draw.integer(0, 3), "SymInt[] size")
    arguments.append("*, Scalar alpha=1")
    labels = draw.shuffled(("grad", "abc", "bad", "decay", "code"))
    named = [f"{kind} {label}" for kind, label in zip([*returns, "Tensor"], labels, strict=False)]
    result = returns[0] if len(returns) == 1 else f"({', '.join(named)})"
    return f"onelayer::drawn({', '.join(arguments)}) -> {result}", (written, aliased)


def _arguments(schema: str) -> list[tuple[str, str, bool]]:
    """(name, set letter, written) of each argument that has a set."""
    found = re.findall(r"\((\w+)(!?)(?: -> \*)?\)\S* (\w+)", _inside(schema))
    return [(name, letter, bool(bang)) for letter, bang, name in found]


def _inside(schema: str) -> str:
    return schema.rpartition(") -> ")[0].partition("(")[2]


def _returned(schema: str) -> set[str]:
    return set(re.findall(r"\((\w+)!?\)", schema.rpartition(") -> ")[2]))


@read_schema.wrong(
    "every_set_is_written",
    "A set alone does not mean written: `Tensor(a)` is a view's argument. Writing is the `!`.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    return [name for name, _, _ in found], [name for name, s, _ in found if s in back]


@read_schema.wrong(
    "every_set_is_returned",
    "This set stands at no return: the argument has one because it is written. Compare with what "
    "is after the arrow.",
)
def _(schema: str) -> Aliases:
    found = _arguments(schema)
    return [name for name, _, bang in found if bang], [name for name, _, _ in found]


@read_schema.wrong(
    "written_is_no_alias",
    "An operator that writes an argument and returns the same set returns that very memory: "
    "`x.add_(1)` is x. It belongs to both lists.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written, [name for name, s, bang in found if s in back and not bang]


@read_schema.wrong(
    "letter_anywhere",
    "The letter of this set occurs after the arrow, but not as a set: `Tensor grad` is in none. A "
    "set stands between brackets.",
)
def _(schema: str) -> Aliases:
    found, returns = _arguments(schema), schema.rpartition(") -> ")[2]
    written = [name for name, _, bang in found if bang]
    return written, [name for name, letter, _ in found if letter in returns]


@read_schema.wrong(
    "lists_the_wrong_way_round",
    "The two lists are the wrong way round: the written arguments come first.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return [name for name, letter, _ in found if letter in back], written


@read_schema.wrong(
    "written_is_returned",
    "The second list repeats the first. An argument may be shared without being written, as a "
    "view's is, and written without being returned.",
)
def _(schema: str) -> Aliases:
    written = [name for name, _, bang in _arguments(schema) if bang]
    return written, written


@read_schema.wrong(
    "by_the_underscore",
    "This operator writes an argument behind the `*`, and no underscore in its name says so. The "
    "`!` is the promise, wherever it stands.",
)
def _(schema: str) -> Aliases:
    name = schema.partition("(")[0].partition(".")[0]
    written = [n for n, _, _ in _arguments(schema)][:1] if name.endswith("_") else []
    back = _returned(schema)
    return written, [n for n, s, _ in _arguments(schema) if s in back]


@read_schema.wrong(
    "star_unread",
    "`Tensor(a -> *)` is in set a when the call begins; the returned list may share its memory.",
)
def _(schema: str) -> Aliases:
    found = re.findall(r"\((\w+)(!?)\)\S* (\w+)", _inside(schema))
    back = _returned(schema)
    return [n for _, bang, n in found if bang], [n for s, _, n in found if s in back]


@read_schema.wrong(
    "order_of_the_returns",
    "The second list is in the order of the returns. Asked for is the schema's: that of its "
    "arguments.",
)
def _(schema: str) -> Aliases:
    found = _arguments(schema)
    back = re.findall(r"\((\w+)!?\)", schema.rpartition(") -> ")[2])
    written = [name for name, _, bang in found if bang]
    return written, [name for s in back for name, letter, _ in found if letter == s]


@read_schema.wrong(
    "not_written_ones",
    "The first list holds the arguments of a set that are *not* written. The `!` says written.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    read = [name for name, _, bang in found if not bang]
    return read, [name for name, letter, _ in found if letter in back]


@read_schema.cost
def _(student: Student, draw: Draw) -> str:
    text = str(overload_of("aten::add_.Tensor")._schema)
    written, aliased = student.call("read_schema", text)
    return (
        f"no tensor was made: aten::add_ writes {written} and returns {aliased}. Functionalization "
        "reads the same letters"
    )


@read_schema.wrong(
    "one_argument_a_set",
    "Two arguments may be in one set, as x and z are in `Tensor(a) x, Tensor y, Tensor(a) z`: the "
    "return may share memory with either.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    last = {letter: name for name, letter, _ in found}
    written = [name for name, _, bang in found if bang]
    return written, [name for letter, name in last.items() if letter in back]
