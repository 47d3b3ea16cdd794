"""What a schema says about memory."""

from __future__ import annotations

import re
from functools import cache
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
        _expect_lists(student, schema, _observed(op, arguments))
    logged = "onelayer::logged(Tensor(a) self, Tensor(c!) log) -> Tensor(a)"
    _expect_lists(student, logged, (["log"], ["self"]))
    written_and_kept = (
        "onelayer::named(Tensor(a) self, Tensor(b!) out) -> (Tensor(a) base, Tensor obs)"
    )
    _expect_lists(student, written_and_kept, (["out"], ["self"]))
    unread = "onelayer::lone(Tensor(a) x, Tensor(b!) out) -> Tensor(b!)"
    _expect_lists(student, unread, (["out"], ["out"]))  # a set that is neither written nor returned
    turned = "onelayer::turned(Tensor(a!) x, Tensor(b) y) -> (Tensor(b) second, Tensor(a!) first)"
    _expect_lists(student, turned, (["x"], ["x", "y"]))
    either = "onelayer::either(Tensor(a) x, Tensor y, Tensor(a) z) -> Tensor(a)"
    _expect_lists(student, either, ([], ["x", "z"]))
    kept = "onelayer::kept(Tensor(a -> *) x, Tensor(b) y) -> Tensor(b)[]"
    _expect_lists(student, kept, ([], ["y"]))
    marked = "onelayer::marked(Tensor(a!) x, Tensor(b) y) -> (Tensor(b) second, Tensor(a) first)"
    _expect_lists(student, marked, (["x"], ["x", "y"]))  # written before, and returned unwritten
    twins = (
        "onelayer::twins(Tensor(b) x, Tensor(a!) y, Tensor(b) z, Tensor(a!) v) -> "
        "(Tensor(a!), Tensor(b))"
    )
    _expect_lists(student, twins, (["y", "v"], ["x", "y", "z", "v"]))
    halves = "onelayer::halves(Tensor(a) self, int at) -> (Tensor(a) left, Tensor(a) right)"
    _expect_lists(student, halves, ([], ["self"]))
    for _ in draw.cases(6):
        text, truth = _drawn_schema(draw)
        _expect_lists(student, text, truth)
    of_torch = _of_torch()
    answers = student.each("read_schema", [(schema,) for schema, _ in of_torch])
    for (schema, truth), got in zip(of_torch, answers, strict=True):
        expect_equal(got, truth, why=_because(got, truth, schema))


def _expect_lists(student: Student, schema: str, want: Aliases) -> None:
    got = student.call("read_schema", schema)
    expect_equal(got, want, why=_because(got, want, schema))


@cache
def _of_torch() -> list[tuple[str, Aliases]]:
    """Of torch's own operators one for each way in which arguments and returns are in sets, with
    what torch's parser says of them. Without `-> *`: what returns of such an argument has no set
    there."""
    kinds: dict[tuple[Any, ...], tuple[str, Aliases]] = {}
    for schema in sorted(torch._C._jit_get_all_schemas(), key=lambda s: (s.name, s.overload_name)):
        ways = (*map(_way, schema.arguments), None, *map(_way, schema.returns))
        if not schema.name.startswith("aten::") or not any(ways) or ways in kinds:
            continue
        text, back = (
            str(schema),
            {letter for r in schema.returns if (w := _way(r)) for letter in w[0]},
        )
        if _SHOWN.fullmatch(re.sub(r"Tensor\(\w!?\)", "Tensor", text)):
            held = [(a.name, w) for a in schema.arguments if (w := _way(a))]
            written = [name for name, (_, is_written) in held if is_written]
            kinds[ways] = text, (written, [name for name, (its, _) in held if back & set(its)])
    return list(kinds.values())


_SHOWN = re.compile(r"[^()]+\([^()]*\) -> (\([^()]*\)|[^()]*)")
"""A schema whose tensors have lost their sets."""


def _way(part: Any) -> tuple[tuple[str, ...], bool] | None:
    """The set of an argument or a return, and whether it is written; None without one."""
    of = part.alias_info
    return (tuple(sorted(of.before_set)), of.is_write) if of else None


def _because(got: Any, want: Aliases, schema: str) -> str:
    """The first name that is missing, or should not be there; "" for what are no two lists of
    names."""
    if not isinstance(got, (list, tuple)) or len(got) != 2:
        return "" if got is None else "A pair is asked for: a list of names, and another one."
    if not all(isinstance(names, (list, tuple)) for names in got):
        return ""
    sets = {name: letter for name, letter, _ in _arguments(schema)}
    for which, (names, wanted) in enumerate(zip(got, want, strict=True), 1):
        for name in names:
            if name not in _names(schema):
                return f"List {which} has {str(name)[:40]!r}, and no argument is called that."
            if name not in wanted:
                return (
                    f"{name} is in the first list, and its type has no `!`: it is not written."
                    if which == 1
                    else f"{name} is in the second list, and no return is in a set with it."
                )
        for name in wanted:
            if name not in names:
                return (
                    f"{name} is missing in the first list: its type has a `!`."
                    if which == 1
                    else f"{name} is missing in the second list: it is in set {sets[name]}, and so "
                    "is a return."
                )
        if list(names) != wanted and sorted(names) == sorted(wanted):
            return (
                f"List {which} has the right names. The schema's arguments come in another order."
            )
    return ""


def _names(schema: str) -> list[str]:
    """Those of all arguments, with a set or without."""
    return re.findall(r" (\w+)(?:=[^,)]*)?(?=,|$)", f" {_inside(schema)}")


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
    "The letter of this set occurs after the arrow, but not as a set: `a` in `values`, or in "
    "`Tensor grad`, is none. A set stands between brackets.",
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


@read_schema.wrong(
    "letters",
    "The second list has the letters of the sets. The names of the arguments were asked for.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written, [letter for _, letter, _ in found if letter in back]


@read_schema.wrong(
    "shared_if_written",
    "A view's argument is shared although nothing is written: the `!` decides the first list only.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written, [name for name, letter, bang in found if bang and letter in back]


@read_schema.wrong(
    "one_return",
    "Only the first return was read. There may be several, each in a set of its own.",
)
def _(schema: str) -> Aliases:
    found = _arguments(schema)
    back = re.findall(r"\((\w+)!?\)", schema.rpartition(") -> ")[2])[:1]
    written = [name for name, _, bang in found if bang]
    return written, [name for name, letter, _ in found if letter in back]


@read_schema.wrong(
    "several_returns_unread",
    "The sets of returns in brackets are missing. Look for them anywhere behind the arrow.",
)
def _(schema: str) -> Aliases:
    found = _arguments(schema)
    back = re.findall(r"^Tensor\((\w+)!?\)", schema.rpartition(") -> ")[2])
    written = [name for name, _, bang in found if bang]
    return written, [name for name, letter, _ in found if letter in back]


@read_schema.wrong(
    "returned_list_unread",
    "`Tensor(a)[]` is a list whose tensors are in set a: they may share memory with the argument "
    "too.",
)
def _(schema: str) -> Aliases:
    found = _arguments(schema)
    back = re.findall(r"\((\w+)!?\)(?!\[)", schema.rpartition(") -> ")[2])
    written = [name for name, _, bang in found if bang]
    return written, [name for name, letter, _ in found if letter in back]


@read_schema.wrong(
    "first_argument_of_a_set",
    "The first argument of a set was taken. Two may be in one set, and a return may share memory "
    "with either.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    first = {letter: name for name, letter, _ in found[::-1]}
    return written, [name for name, letter, _ in found if letter in back and first[letter] == name]


@read_schema.wrong(
    "starred_is_shared",
    "`Tensor(a -> *)` says that the argument may get into other sets, and not that a return is "
    "in one of them.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written, [n for n, letter, _ in found if letter in back or f"({letter} -> *)" in schema]


@read_schema.wrong(
    "written_by_the_return",
    "This argument is written and not returned. The `!` at the argument decides, not the one at "
    "the return.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    wrote = re.findall(r"\((\w+)!\)", schema.rpartition(") -> ")[2])
    written = [name for name, letter, _ in found if letter in wrote]
    return written, [name for name, letter, _ in found if letter in back]


@read_schema.wrong(
    "names_compared",
    "The argument's name was looked for behind the arrow. Returns have names of their own: the "
    "letter of the set connects the two.",
)
def _(schema: str) -> Aliases:
    found, returns = _arguments(schema), schema.rpartition(") -> ")[2]
    written = [name for name, _, bang in found if bang]
    return written, [name for name, _, _ in found if name in returns]


@read_schema.wrong(
    "first_name_only",
    "Several arguments can be written, and several shared. Here each list ends with its first "
    "name.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written[:1], [name for name, letter, _ in found if letter in back][:1]


@read_schema.wrong(
    "sorted_names",
    "The names are in the order of the alphabet. Asked for is the order of the schema.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return sorted(written), sorted(name for name, letter, _ in found if letter in back)


read_schema.wrong(
    "always_self",
    "This is the example's answer. Another schema has other arguments.",
    read_schema=lambda schema: (["self"], ["self"]),
)


@read_schema.wrong(
    "sets_of_names",
    "These are sets. Lists were asked for, with the names in the schema's order.",
)
def _(schema: str) -> tuple[set[str], set[str]]:
    found, back = _arguments(schema), _returned(schema)
    written = {name for name, _, bang in found if bang}
    return written, {name for name, letter, _ in found if letter in back}


@read_schema.wrong(
    "none_for_empty",
    "Where there is no such argument the list is empty. It is a list, not None.",
)
def _(schema: str) -> tuple[Names | None, Names | None]:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written or None, [name for name, letter, _ in found if letter in back] or None


@read_schema.wrong(
    "written_is_shared",
    "An argument that is written was counted as shared, and no return is in its set. Whether it is "
    "written decides the first list only.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written, [name for name, letter, bang in found if bang or letter in back]


@read_schema.wrong(
    "whole_schema_read",
    "A set that stands at an argument only was counted as one of a return. An argument is shared "
    "where its own letter stands behind the arrow.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), re.findall(r"\((\w+)!?\)", schema)
    written = [name for name, _, bang in found if bang]
    return written, [name for name, letter, _ in found if letter in back]


@read_schema.wrong(
    "set_a_only",
    "Set a was looked for, and this schema has others: the letters only say which belong together.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written, [name for name, s, _ in found if s == "a" and s in back]


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
