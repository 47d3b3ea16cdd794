"""The repair of a step as data: what it makes anew in each step, and converts there and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from autograder.checks.explaining import explaining
from autograder.judge import (
    Draw,
    Student,
    Wrong,
    describe,
    expect_close,
    expect_tuple,
    text,
    within,
)
from onelayer.compiler.listing import Row, operator

from . import lab

Rows = list[Row]
Pair = tuple[Rows, Rows]
CONVERT = "aten._to_copy.default"
OPERATORS = (
    CONVERT,
    "aten.mm.default",
    "aten.add.Tensor",
    "aten.mul.Tensor",
    "aten.relu.default",
    "aten.neg.default",
    "aten.exp.default",
)
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
FIXED = ["w", "b", "counts"]
_FORM = "(once, every): two lists of rows (name, op, args, kwargs)"
_RAISED = {"KeyError": "A row reads the names of earlier rows; some arguments are numbers."}
NOT_HOISTED = "A row of the step reads only what is the same in each step. It belongs into `once`."
TRIP = (
    "A value goes from bfloat16 to float32 and back, which gives the same value: read the first "
    "one instead."
)
ITSELF = "A value is converted to the dtype that it has already. Read the value itself."
DEAD = (
    "A row of the step is read by nobody. Where such a row goes, those that it alone read go too."
)
TWO = "Two lists of rows were asked for: (once, every)."
OUTPUT = "Each of the two lists ends with an output row, its only one."
STRANGE_INPUT = (
    "An input of `every` is an input of the step, or a name in the output of `once`: under that "
    "name it comes in."
)
CHANGING_INPUT = (
    "`once` runs before the loop. Of inputs it has only those that are `fixed`, under their names."
)
NO_ROW = (
    "A row reads a name that no row before it has. What is taken out is read by nobody any more, "
    "what comes from elsewhere has an input row, and rows stay in their order."
)
ONE_RESULT = "The output of `every` is that of the step: one value."
LOST = (
    "A conversion to bfloat16 is missing, and what comes out is another value. From float32 to "
    "bfloat16 and back digits are lost: that is no detour."
)
ANOTHER = (
    "What comes out is another value. A row may read another name only where that has the same "
    "value and the same dtype."
)


@lab.question(
    "tidy",
    points=5,
    minutes=15,
    difficulty=4,
    hints=(
        "Which rows read nothing but `fixed` inputs, or rows that do so themselves? And what comes "
        "of bfloat16 -> float32 -> bfloat16?",
        "Walk over the rows once and keep, for each conversion to float32, what it came from: a "
        "conversion back is that. Then drop what nobody reads, and move rows that depend on "
        "`fixed` alone into `once`; its output names what the step reads of it.",
        "same[name] = next(s for s in (source, came_from.get(source)) if s and dtypes[s] == "
        "dtypes[name])  # if there is one",
    ),
    by_effect=True,
)
def tidy(student: Student, draw: Draw) -> None:
    """A step's listing in two: what can be computed once before the loop, and what each step has to
    compute, without conversions that lead back to the same value. Same results, bit for bit.

    rows, dtypes (name of each row -> "float32" or "bfloat16"), fixed (names of inputs that are the
    same in each step) -> (once, every). The inputs of `every` are inputs of the step, or names in
    the output of `once`.
    """
    cases: list[Sequence[str]] = [
        ("constant", "there and back"),
        ("constant", "back and there"),
        ("read between", "converted constant", "to itself"),
        ("twice there and back", "unread"),
        ("there, itself and back", "back, there and back", "itself in float32"),
        ("constant read twice", "result there and back"),
        ("there, another, and back",),
        ("there, negated, and back", "equal but for a number"),
        *([draw.choice(list(_PARTS)) for _ in range(4)] for _ in draw.cases(2)),
    ]
    asked = [(parts, FIXED) for parts in cases]
    asked.append((("converted constant", "constant"), FIXED[:2]))  # the counts change
    for parts, fixed in asked:
        rows, dtypes, left = _drawn(draw, parts)
        left += 0 if "counts" in fixed else 2 * parts.count("converted constant")
        with explaining(_RAISED):
            got = student.call("tidy", rows, dtypes, fixed)
        once, every = (_listing(part) for part in expect_tuple(got, 2, _FORM, why=TWO))
        tidied = [*chain(*_tidied(rows, dtypes, fixed))]
        fewer = _to_bfloat16([*once, *every]) < _to_bfloat16(tidied)
        why = LOST if fewer and _loses_digits(tidied) else ANOTHER
        _expect_same(draw, rows, once, every, fixed, why)
        if (many := len(_operators(every))) > left:
            raise Wrong(
                expected=f"{left} operators in each step",
                got=f"{many} operators",
                why=_why(every, dtypes, fixed),
            )


# Each part reads the step's h, a (n, n) in bfloat16, leaves the next under h{k}, and says how many
# operators of it a step needs.
_PARTS: dict[str, int] = {
    "constant": 1,
    "converted constant": 1,
    "there and back": 1,
    "back and there": 5,
    "read between": 5,
    "to itself": 1,
    "twice there and back": 1,
    "unread": 1,
    "there, itself and back": 1,
    "back, there and back": 3,
    "itself in float32": 2,
    "constant read twice": 2,
    "result there and back": 0,
    "there and back, read second": 1,
    "there, another, and back": 2,
    "there, negated, and back": 3,
    "equal but for a number": 3,
}


def _part(part: str, h: str, k: int, a: float) -> Rows:
    if part == "constant":  # three rows of the fixed inputs, and one that reads them
        return [
            (f"c{k}", "aten.mul.Tensor", ["w", a], {}),
            (f"d{k}", "aten.neg.default", [f"c{k}"], {}),
            (f"e{k}", "aten.exp.default", [f"d{k}"], {}),
            (f"h{k}", "aten.add.Tensor", [h, f"e{k}"], {}),
        ]
    if part == "converted constant":
        return [
            (f"c{k}", "aten.add.Tensor", ["counts", a], {}),
            _to(f"d{k}", f"c{k}", "bfloat16"),
            (f"h{k}", "aten.mul.Tensor", [h, f"d{k}"], {}),
        ]
    if part == "there and back":
        return [
            _to(f"p{k}", h, "float32"),
            _to(f"q{k}", f"p{k}", "bfloat16"),
            (f"h{k}", "aten.relu.default", [f"q{k}"], {}),
        ]
    if part == "to itself":
        return [_to(f"p{k}", h, "bfloat16"), (f"h{k}", "aten.neg.default", [f"p{k}"], {})]
    if part == "there, itself and back":
        return [
            _to(f"p{k}", h, "float32"),
            _to(f"q{k}", f"p{k}", "float32"),
            _to(f"r{k}", f"q{k}", "bfloat16"),
            (f"h{k}", "aten.relu.default", [f"r{k}"], {}),
        ]
    if part == "back, there and back":  # digits are lost on the way back, and none behind it
        return [
            (f"p{k}", "aten.add.Tensor", [h, "counts"], {}),
            _to(f"q{k}", f"p{k}", "bfloat16"),
            _to(f"r{k}", f"q{k}", "float32"),
            _to(f"s{k}", f"r{k}", "bfloat16"),
            (f"h{k}", "aten.neg.default", [f"s{k}"], {}),
        ]
    if part == "itself in float32":
        return [
            (f"p{k}", "aten.mul.Tensor", [h, "counts"], {}),
            _to(f"q{k}", f"p{k}", "float32"),
            _to(f"h{k}", f"q{k}", "bfloat16"),
        ]
    if part == "constant read twice":  # by another constant, and by the step
        return [
            (f"c{k}", "aten.mul.Tensor", ["w", a], {}),
            (f"d{k}", "aten.neg.default", [f"c{k}"], {}),
            (f"p{k}", "aten.add.Tensor", [h, f"c{k}"], {}),
            (f"h{k}", "aten.mul.Tensor", [f"p{k}", f"d{k}"], {}),
        ]
    if part == "there and back, read second":
        return [
            _to(f"p{k}", h, "float32"),
            _to(f"q{k}", f"p{k}", "bfloat16"),
            (f"h{k}", "aten.mul.Tensor", ["w", f"q{k}"], {}),  # behind what is fixed
        ]
    if part == "there, another, and back":  # a row stands between the two conversions
        return [
            _to(f"p{k}", h, "float32"),
            (f"q{k}", "aten.relu.default", [h], {}),
            _to(f"r{k}", f"p{k}", "bfloat16"),
            (f"h{k}", "aten.mul.Tensor", [f"q{k}", f"r{k}"], {}),
        ]
    if part == "there, negated, and back":  # what comes back is another value
        return [
            _to(f"p{k}", h, "float32"),
            (f"q{k}", "aten.neg.default", [f"p{k}"], {}),
            _to(f"h{k}", f"q{k}", "bfloat16"),
        ]
    if part == "equal but for a number":
        return [
            (f"p{k}", "aten.mul.Tensor", [h, a], {}),
            (f"q{k}", "aten.mul.Tensor", [h, a + 1], {}),
            (f"h{k}", "aten.add.Tensor", [f"p{k}", f"q{k}"], {}),
        ]
    if part == "result there and back":
        return [_to(f"p{k}", h, "float32"), _to(f"h{k}", f"p{k}", "bfloat16")]
    if part == "read between":  # the value in float32 is read as well
        return [
            _to(f"p{k}", h, "float32"),
            _to(f"q{k}", f"p{k}", "bfloat16"),
            (f"r{k}", "aten.mm.default", [f"q{k}", "w"], {}),
            (f"s{k}", "aten.add.Tensor", [f"p{k}", f"r{k}"], {}),
            (f"t{k}", "aten.mul.Tensor", [f"s{k}", f"p{k}"], {}),
            _to(f"h{k}", f"t{k}", "bfloat16"),
        ]
    if part == "twice there and back":
        return [
            _to(f"p{k}", h, "float32"),
            _to(f"q{k}", f"p{k}", "bfloat16"),
            _to(f"r{k}", f"q{k}", "float32"),
            _to(f"s{k}", f"r{k}", "bfloat16"),
            (f"h{k}", "aten.relu.default", [f"s{k}"], {}),
        ]
    if part == "unread":  # two rows, one for the other, and nobody reads what comes of them
        return [
            _to(f"p{k}", h, "float32"),
            (f"q{k}", "aten.exp.default", [f"p{k}"], {}),
            (f"r{k}", "aten.neg.default", [f"q{k}"], {}),
            (f"h{k}", "aten.relu.default", [h], {}),
        ]
    return [  # float32 to bfloat16 and back: digits are lost
        (f"p{k}", "aten.add.Tensor", [h, "counts"], {}),
        _to(f"q{k}", f"p{k}", "bfloat16"),
        _to(f"r{k}", f"q{k}", "float32"),
        (f"s{k}", "aten.mul.Tensor", [f"r{k}", "counts"], {}),
        _to(f"h{k}", f"s{k}", "bfloat16"),
    ]


def _to(name: str, source: str, dtype: str) -> Row:
    return name, CONVERT, [source], {"dtype": dtype}


def _drawn(draw: Draw, parts: Sequence[str]) -> tuple[Rows, dict[str, str], int]:
    """A listing of these parts, the dtype of each row, and how many operators a step needs."""
    rows: Rows = [(name, "input", [], {}) for name in ("x", *FIXED)]
    h = "x"
    for k, part in enumerate(parts):
        rows += _part(part, h, k, draw.choice((0.5, 1.5, 2.5)))
        h = f"h{k}"
    rows.append(("out", "output", [h], {}))
    made = _made(rows, _inputs(draw))
    dtypes = {name: str(t.dtype).removeprefix("torch.") for name, t in made.items()}
    return rows, dtypes, sum(_PARTS[part] for part in parts)


def _inputs(draw: Draw, fixed: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Fresh inputs of a step; those that are `fixed` stay."""
    n = 5
    fresh = {name: draw.tensor(n, n) / 4 for name in ("x", *FIXED)}
    fresh = {name: t if name == "counts" else t.bfloat16() for name, t in fresh.items()}
    return fresh | (fixed or {})


def _listing(got: Any) -> Rows:
    """A listing that came back. Raises Wrong for anything else, and for other operators."""
    each = expect_tuple(got, None, _FORM, why=TWO)
    rows = [_row(k, row) for k, row in enumerate(each[:200])]
    if not rows or rows[-1][1] != "output" or [op for _, op, *_ in rows].count("output") != 1:
        raise Wrong(
            expected="one output, in the last row of each list", got=describe(got), why=OUTPUT
        )
    return rows


def _row(place: int, row: Any) -> Row:
    where = f"in row {place}"
    name, op, args, kwargs = expect_tuple(row, 4, _FORM, where=where)
    plain = isinstance(name, str) and isinstance(kwargs, dict) and isinstance(args, (list, tuple))
    if not plain or not all(isinstance(a, (str, int, float)) for a in args):
        raise Wrong(expected=_FORM, got=describe(row), where=where)
    if op not in (*OPERATORS, "input", "output"):
        raise Wrong(expected="operators of the listing", got=describe(op), where=where)
    if kwargs and not (op == CONVERT and kwargs in ({"dtype": name} for name in DTYPES)):
        raise Wrong(expected="a dtype, and nothing else", got=describe(kwargs), where=where)
    return name, op, list(args), dict(kwargs)


def _operators(rows: Rows) -> list[str]:
    return [op for _, op, _, _ in rows if op not in ("input", "output")]


def _made(rows: Rows, inputs: dict[str, Tensor], place: str = "the step") -> dict[str, Tensor]:
    """What each row makes, with torch's own operators. Raises Wrong where one cannot run."""
    made: dict[str, Tensor] = {}
    for name, op, args, kwargs in rows:
        if op == "input":
            if name not in inputs:
                told = f"inputs among {', '.join(inputs)}"
                why = STRANGE_INPUT if place == "`every`" else CHANGING_INPUT
                raise Wrong(expected=told, got=f"an input {name}", where=f"in {place}", why=why)
            made[name] = inputs[name]
            continue
        for arg in args:
            if isinstance(arg, str) and arg not in made:
                told = f"{arg!r}, which no row before has"
                raise Wrong(
                    expected="names of earlier rows",
                    got=told,
                    where=f"in {place}, row {name}",
                    why=NO_ROW,
                )
        if op != "output":
            made[name] = _called(op, [made.get(a, a) if isinstance(a, str) else a for a in args],
                                 kwargs, f"in {place}, row {name}")  # fmt: skip
    return made


def _called(op: str, given: list[Any], kwargs: dict[str, str], where: str) -> Tensor:
    named = {"dtype": DTYPES[kwargs["dtype"]]} if kwargs else {}
    try:
        result: Tensor = operator(op)(*given, **named)
    except Exception as error:  # a stranger's arguments
        line = str(error).partition("\n")[0]
        got = text("error", error=type(error).__name__, message=line)
        raise Wrong(expected="a listing that runs", got=got, where=where) from None
    return result


def _results(rows: Rows, inputs: dict[str, Tensor], place: str) -> list[Tensor]:
    made = _made(rows, inputs, place)
    names = rows[-1][2]
    if not all(isinstance(name, str) for name in names):
        raise Wrong(expected="names", got=describe(names), where=f"the output of {place}")
    return [made[name] for name in names]


def _to_bfloat16(rows: Rows) -> int:
    return sum(op == CONVERT and kwargs["dtype"] == "bfloat16" for _, op, _, kwargs in rows)


def _loses_digits(rows: Rows) -> bool:
    """Whether a value goes from float32 to bfloat16 and back."""
    narrow = {
        name for name, op, _, kwargs in rows if op == CONVERT and kwargs["dtype"] != "float32"
    }
    wide = [
        args[0] for _, op, args, kwargs in rows if op == CONVERT and kwargs["dtype"] == "float32"
    ]
    return not narrow.isdisjoint(wide)


def _expect_same(
    draw: Draw, rows: Rows, once: Rows, every: Rows, same: Sequence[str], why: str
) -> None:
    """`once` on the fixed inputs, then `every` on several batches: the results of the listing.
    why: what is true of another result."""
    inputs = _inputs(draw)
    fixed = {name: inputs[name] for name in same}
    ahead = dict(zip(once[-1][2], _results(once, fixed, "`once`"), strict=True))
    for batch in range(2):
        fresh = _inputs(draw, fixed)
        (want,) = _results(rows, fresh, "the step")
        came = _results(every, fresh | ahead, "`every`")
        if len(came) != 1:
            raise Wrong(expected="one result", got=f"{len(came)} results", why=ONE_RESULT)
        with within(f"batch {batch},", why=why if came[0].dtype == want.dtype else ""):
            expect_close(came[0], want, tolerance=0.0)


def _why(every: Rows, dtypes: dict[str, str], same: Sequence[str]) -> str:
    read = {arg for _, _, args, _ in every for arg in args if isinstance(arg, str)}
    if any(name not in read for name, op, _, _ in every if op not in ("input", "output")):
        return DEAD
    changing = {"x", *FIXED} - {*same}
    fixed = {name for name, op, _, _ in every if op == "input" and name not in changing}
    for _, op, args, kwargs in every:
        names = [arg for arg in args if isinstance(arg, str)]
        if op not in ("input", "output") and all(name in fixed for name in names):
            return NOT_HOISTED
        if op == CONVERT and all(dtypes.get(name) == kwargs["dtype"] for name in names):
            return ITSELF
    return TRIP


def _tidied(
    rows: Rows,
    dtypes: dict[str, str],
    fixed: Sequence[str],
    *,
    hoists: bool = True,
    trips: str = "exact",
    itself: bool = True,
    sweeps: bool = True,
    through: bool = True,
) -> Pair:
    """The repair, and the ways to get it wrong. trips: which are taken out; "exact", "all", "none",
    "both" conversions of each. itself: so is a conversion to the same dtype. through: a constant
    may depend on another one."""
    came_from: dict[str, str] = {}
    same: dict[str, str] = {}
    kept: Rows = []
    for name, op, given, kwargs in rows:
        args = [same.get(a, a) if isinstance(a, str) else a for a in given]
        if op == CONVERT and trips != "none":
            source = str(args[0])
            if trips == "both" and _leads_back(rows, dtypes, name, source):
                same[name] = source
                continue
            is_itself = itself and dtypes[source] == dtypes[name]
            before = source if is_itself else came_from.get(source, source)
            if dtypes[before] == dtypes[name] and (itself or before != source):
                same[name] = before
                continue
            if dtypes[name] == "float32" or trips == "all":
                came_from[name] = source
        kept.append((name, op, args, kwargs))
    return _split(_swept(kept) if sweeps else kept, fixed if hoists else (), through)


def _leads_back(rows: Rows, dtypes: dict[str, str], wide: str, source: str) -> bool:
    """Whether a row converts this value in float32 to the dtype from which it came."""
    back = [name for name, op, args, _ in rows if op == CONVERT and args == [wide]]
    return dtypes[wide] == "float32" and any(dtypes[name] == dtypes[source] for name in back)


def _swept(rows: Rows) -> Rows:
    read: set[str] = set()
    left = []
    for row in reversed(rows):
        if row[1] in ("input", "output") or row[0] in read:
            left.append(row)
            read |= {a for a in row[2] if isinstance(a, str)}
    return left[::-1]


def _split(rows: Rows, fixed: Sequence[str], through: bool) -> Pair:
    constant = set(fixed)
    once = [row for row in rows if row[1] == "input" and row[0] in fixed]
    every = [row for row in rows if row[1] == "input"]
    for row in rows:
        name, op, args, _ = row
        if op == "input":
            continue
        if op != "output" and all(a in constant for a in args if isinstance(a, str)):
            once.append(row)
            constant |= {name} if through else set()
            every.append((name, "input", [], {}))
        else:
            every.append(row)
    made = [name for name, op, _, _ in once if op != "input"]
    return [*once, ("ahead", "output", made, {})], every


def _wrong(name: str, sentence: str, **how: Any) -> None:
    tidy.wrong(name, sentence, tidy=lambda rows, dtypes, fixed: _tidied(rows, dtypes, fixed, **how))


_wrong("nothing_hoisted", NOT_HOISTED, hoists=False)
_wrong(
    "first_row_only",
    "Only rows that read the fixed inputs themselves are moved. A row that reads such a row is the "
    "same in each step as well.",
    through=False,
)
_wrong("trips_left", TRIP, trips="none")
_wrong("to_itself_left", ITSELF, itself=False)
_wrong("every_trip", LOST, trips="all")
_wrong(
    "both_conversions",
    "Both conversions of a detour were taken out where another row reads the value in float32: "
    "that one computes in bfloat16 now. Take out the way back alone there.",
    trips="both",
)
_wrong(
    "dead_conversions",
    "The way back is gone, and the way there is left: nobody reads it any more.",
    sweeps=False,
)


@tidy.wrong(
    "once_alone",
    "All of the step is in `once`. What reads the batch has to be computed for each batch.",
)
def _(rows: Rows, dtypes: dict[str, str], fixed: Sequence[str]) -> Pair:
    return list(rows), [rows[0], ("out", "output", ["x"], {})]


def _changed(name: str, sentence: str, answer: Callable[[Rows, Rows], Any]) -> None:
    tidy.wrong(name, sentence, tidy=lambda *given: answer(*_tidied(*given)))


_changed(
    "every_first",
    "The two listings came in the other order: (once, every).",
    lambda once, every: (every, once),
)
_changed(
    "inputs_behind",
    "A row of `every` reads an input that no row before it has: its input row comes later, or "
    "is missing. A row reads earlier ones.",
    lambda once, every: (
        once,
        [
            *(row for row in every if row[1] not in ("input", "output")),
            *(row for row in every if row[1] == "input"),
            every[-1],
        ],
    ),
)
_changed(
    "once_without_its_inputs",
    "A row of `once` reads a fixed input that no row before it has. `once` reads the fixed "
    "inputs, and an input row says so first.",
    lambda once, every: ([row for row in once if row[1] != "input"], every),
)
_changed("every_alone", "One listing came. Two were asked for: (once, every).", lambda _, e: e)
_changed(
    "no_output_row",
    "`once` has no output row. It names what the step reads of `once`.",
    lambda once, every: (once[:-1], every),
)
_changed(
    "last_name_alone",
    "The output of `once` lacks names that `every` reads.",
    lambda once, every: ([*once[:-1], ("ahead", "output", once[-1][2][-1:], {})], every),
)
_changed(
    "inputs_missing",
    "`every` reads what `once` has made, but has no input row for it before that.",
    lambda once, every: (
        once,
        [row for row in every if row[1] != "input" or row[0] in ("x", *FIXED)],
    ),
)
_changed(
    "fixed_inputs_missing",
    "`every` reads a fixed input itself, but has no input row for it before that.",
    lambda once, every: (once, [row for row in every if row[0] not in FIXED]),
)
_changed(
    "batch_in_once",
    "`once` has the batch among its inputs. It runs before the loop, and the batch is another one "
    "in each step.",
    lambda once, every: ([("x", "input", [], {}), *once], every),
)


def _taken_out(rows: Rows) -> Rows:
    """Without any conversion."""
    same: dict[Any, Any] = {}
    kept = []
    for name, op, given, kwargs in rows:
        args = [same.get(a, a) for a in given]
        if op == CONVERT:
            same[name] = args[0]
        else:
            kept.append((name, op, args, kwargs))
    return kept


@tidy.wrong(
    "every_conversion",
    "A conversion was taken out that leads to another value. Only those lead back to the same "
    "value that go to float32 and back, or to the dtype that is there already.",
)
def _(rows: Rows, dtypes: dict[str, str], fixed: Sequence[str]) -> Pair:
    return _split(_swept(_taken_out(rows)), fixed, through=True)


@tidy.wrong(
    "one_fixed_is_enough",
    "A row was moved into `once` that reads the batch, too. All that a row reads has to be the "
    "same in each step.",
)
def _(rows: Rows, dtypes: dict[str, str], fixed: Sequence[str]) -> Pair:
    once, every = _tidied(rows, dtypes, fixed)
    constant = {row[0] for row in once}
    moved = [row for row in every if row[1] not in ("input", "output") and constant & {*row[2]}]
    names = [row[0] for row in moved]
    left = [(r[0], "input", [], {}) if r[0] in names else r for r in every]
    return [*once[:-1], *moved, ("ahead", "output", [*once[-1][2], *names], {})], left


@tidy.cost
def _(student: Student, draw: Draw) -> str:
    rows, dtypes, _ = _drawn(draw, list(_PARTS))
    once, every = student.call("tidy", rows, dtypes, FIXED)
    was, now = len(_operators(rows)), len(_operators(every))
    ahead = len(_operators(once))
    return f"{was} operators in each step before, {now} now, {ahead} once before the loop"
