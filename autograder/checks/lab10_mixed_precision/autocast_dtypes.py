"""The dtype of each result of a program with autocast regions, predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import ascii_letters
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_kind

from . import lab

Row = tuple[str, str, list[str]]
Dtypes = dict[str, str]
SIZE = 4
LOWER = ("mm", "linear", "addmm")
WIDER = ("mse_loss", "smooth_l1_loss", "prod", "trace")
PLAIN = ("add", "mul", "exp", "tanh", "softmax", "sum")
IN_PLACE = ("add_", "mul_")
REDUCING = ("mse_loss", "smooth_l1_loss", "prod", "trace", "sum")
RANKS = ("bfloat16", "float16", "float32", "float64")
_RAISED = {
    "KeyError": "Is there a row that was not read? `input` and the operators make names, `enter` "
    "and `leave` do not.",
}
_OPERATORS: dict[str, Callable[..., Tensor]] = {
    "mm": torch.mm,
    "linear": F.linear,
    "addmm": torch.addmm,
    "mse_loss": F.mse_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
    "prod": torch.prod,
    "trace": torch.trace,
    "cat": lambda a, b: torch.cat([a, b])[:SIZE],
    "add": torch.add,
    "mul": torch.mul,
    "exp": torch.exp,
    "tanh": torch.tanh,
    "softmax": lambda a: torch.softmax(a, 0),
    "sum": torch.sum,
    "add_": lambda a, b: a.add_(b),
    "mul_": lambda a, b: a.mul_(b),
}


@lab.question(
    "autocast_dtypes",
    points=5,
    minutes=13,
    difficulty=4,
    hints=(
        "Which three things decide: the list an operator is on, the region around it, its inputs?",
        "Keep a stack of regions. In a region cast the inputs of the lower list to its dtype and "
        "those of the wider list to float32, both but for float64; all else goes by type "
        "promotion, where a 0-d tensor yields to a matrix, and in place by the first input.",
        "regions = [None]; 'enter' appends, 'leave' pops, and regions[-1] says what holds",
    ),
)
def autocast_dtypes(student: Student, draw: Draw) -> None:
    """The dtype of what each operator of a program makes.

    program: rows (name, op, args) -> {name: "float32", ...} for each operator's name.
    """
    programs = [_whole(draw, *pair) for pair in (("float16", "bfloat16"), ("bfloat16", "float16"))]
    programs += [_drawn(draw) for _ in draw.cases(4)]
    answers = student.each("autocast_dtypes", [(program,) for program in programs])
    with explaining(_RAISED):
        for program, got in zip(programs, answers, strict=True):
            _expect(got, program)


def _expect(got: Any, program: Sequence[Row]) -> None:
    """The truth is what torch does with the program, here."""
    said = expect_kind(got, dict, "a dict: name of an operator's row -> name of its dtype")
    for (name, op, args), want in _run(program):
        if name not in said:
            raise Wrong(expected=f"the dtype of {name}", got=describe(sorted(map(str, said))))
        if said[name] != want:
            where = f"{name} = {op}({', '.join(args)})"
            raise Wrong(expected=repr(want), got=describe(said[name]), where=where)


def _run(program: Sequence[Row]) -> list[tuple[Row, str]]:
    """Each operator's row, and the dtype that torch gives it. Raises RuntimeError where torch
    does."""
    made: dict[str, Tensor] = {}
    found: list[tuple[Row, str]] = []
    regions: list[torch.autocast] = []
    try:
        for row in program:
            name, op, args = row
            if op == "enter":
                regions.append(_entered(args[0]))
            elif op == "leave":
                _left(regions.pop())
            elif op == "input":
                made[name] = _input(*args)
            else:
                made[name] = _OPERATORS[op](*(made[arg] for arg in args))
                found.append((row, str(made[name].dtype).removeprefix("torch.")))
    finally:
        while regions:
            _left(regions.pop())
    return found


def _entered(region: str) -> torch.autocast:
    dtype = torch.bfloat16 if region == "off" else getattr(torch, region)
    entered = torch.autocast("cpu", dtype=dtype, enabled=region != "off")
    entered.__enter__()  # type: ignore[no-untyped-call]
    return entered


def _left(region: torch.autocast) -> None:
    region.__exit__(None, None, None)


def _input(dtype: str, shape: str) -> Tensor:
    sizes = (SIZE, SIZE) if shape == "matrix" else ()
    return torch.full(sizes, 0.5, dtype=getattr(torch, dtype))


def _whole(draw: Draw, low: str, other: str) -> list[Row]:
    """A program that asks for every rule once."""
    letters = iter(draw.shuffled(ascii_letters))
    f, b, d, n = (next(letters) for _ in range(4))
    inputs = [(f, "float32", "matrix"), (b, low, "matrix"), (d, "float64", "matrix")]
    inputs.append((n, "float32", "number"))
    rows = [(name, "input", [dtype, shape]) for name, dtype, shape in inputs]

    def row(op: str, *args: str) -> str:
        rows.append((next(letters), op, list(args)))
        return rows[-1][0]

    def border(op: str, *args: str) -> None:
        rows.append(("", op, list(args)))

    row("add", b, row("exp", n))
    row("mm", f, f)
    border("enter", low)
    p = row("mm", f, b)
    loss = row("mse_loss", p, b)
    row("mul", p, row("add", loss, n))
    for op, args in (("softmax", (p,)), ("trace", (p,)), ("add", (p, f)), ("cat", (p, f))):
        row(op, *args)
    row("cat", p, b)
    for op, args in (("mul", (p, loss)), ("add_", (p, f)), ("mm", (d, d)), ("mse_loss", (p, d))):
        row(op, *args)
    border("enter", "off")
    row("mm", f, f)
    row("prod", b)
    border("leave")
    row("linear", f, b)
    border("enter", other)
    crossed = row("addmm", f, b, f)
    border("leave")
    last = row("mm", f, f)
    border("leave")
    row("mm", f, f)
    row("add", last, crossed)
    return rows


def _drawn(draw: Draw) -> list[Row]:
    """Operators in and around two regions, of what torch can run."""
    letters = iter(draw.shuffled(ascii_letters))
    rows: list[Row] = []
    for dtype in ("float32", draw.choice(RANKS[:2]), draw.choice(RANKS)):
        rows.append((next(letters), "input", [dtype, "matrix"]))
    rows.append((next(letters), "input", [draw.choice(RANKS), "number"]))
    numbers = {rows[-1][0]}
    regions = (draw.choice(RANKS[:2]), draw.choice(("off", *RANKS[:2])))
    borders = [("enter", [regions[0]]), ("enter", [regions[1]]), ("leave", []), ("leave", [])]
    for op, args in borders:
        for _ in range(draw.integer(2, 4)):
            _grow(rows, next(letters), numbers, draw)
        rows.append(("", op, args))
    _grow(rows, next(letters), numbers, draw)
    return rows


def _grow(rows: list[Row], name: str, numbers: set[str], draw: Draw) -> None:
    """One more operator, if torch can run the one that was drawn."""
    op = draw.choice((*LOWER, *WIDER, "cat", *PLAIN, *IN_PLACE))
    names = [row[0] for row in rows if row[0]]
    matrices = [other for other in names if other not in numbers]
    count = {"addmm": 3}.get(
        op, 1 if op in ("prod", "trace", "exp", "tanh", "softmax", "sum") else 2
    )
    any_shape = op in ("prod", "exp", "tanh", "sum", "add", "mul")
    args = [
        draw.choice(names if any_shape or (k and op in IN_PLACE) else matrices)
        for k in range(count)
    ]
    row = (name, op, args)
    try:
        _run([*rows, row])
    except RuntimeError:  # dtypes that this operator does not take together
        return
    rows.append(row)
    if op in REDUCING or set(args) <= numbers:
        numbers.add(name)


def _promoted(dtypes: Sequence[str], numbers: Sequence[bool]) -> str:
    """torch's rule: 0-d tensors have no say beside others; the wider wins, and of the two 16-bit
    dtypes neither is wider."""
    heard = [d for d, number in zip(dtypes, numbers, strict=True) if not number] or dtypes
    if {"bfloat16", "float16"} <= set(heard) <= {"bfloat16", "float16"}:
        return "float32"
    return max(heard, key=RANKS.index)


def _cast(dtypes: Sequence[str], to: str, float64_too: bool = False) -> list[str]:
    return [to if d != "float64" or float64_too else d for d in dtypes]


class _Rules:
    """What autocast does, and the ways to get it wrong."""

    all_low = False
    lower: tuple[str, ...] = LOWER
    wider: tuple[str, ...] = WIDER
    cat_low = False
    float64_too = False
    numbers_count = False
    in_place_promotes = False

    def region(self, regions: Sequence[str]) -> str:
        """What holds inside these regions, the innermost last: a dtype, or "off"."""
        return regions[-1] if regions else "off"

    def left(self, regions: list[str]) -> list[str]:
        return regions[:-1]

    def dtypes(self, program: Sequence[Row]) -> Dtypes:
        made: Dtypes = {}
        numbers: set[str] = set()
        regions: list[str] = []
        for name, op, args in program:
            if op == "enter":
                regions = [*regions, args[0]]
            elif op == "leave":
                regions = self.left(regions)
            elif op == "input":
                made[name] = args[0]
                numbers |= {name} if args[1] == "number" else set()
            else:
                given = [made[arg] for arg in args]
                flat = [arg in numbers for arg in args]
                made[name] = self.of(op, given, flat, self.region(regions))
                numbers |= {name} if op in REDUCING or all(flat) else set()
        return {name: made[name] for name, op, _ in program if op in _OPERATORS}

    def of(self, op: str, given: list[str], numbers: list[bool], region: str) -> str:
        if op in IN_PLACE and not self.in_place_promotes:
            return given[0]
        if region != "off" and self.all_low:
            return region
        if region != "off" and op in self.lower:
            return _cast(given, region, self.float64_too)[0]
        if region != "off" and op == "cat" and self.cat_low:
            return _cast(given, region, self.float64_too)[0]
        if region != "off" and op in self.wider:
            given = _cast(given, "float32", self.float64_too)
        return _promoted(given, [False] * len(given) if self.numbers_count else numbers)


def _wrong(name: str, sentence: str, **how: Any) -> None:
    rules = _Rules()
    for key, value in how.items():
        setattr(rules, key, value)
    autocast_dtypes.wrong(name, sentence, autocast_dtypes=rules.dtypes)


_wrong(
    "no_regions",
    "These are the dtypes without autocast. In a region the operators of the two lists cast their "
    "inputs first.",
    region=lambda regions: "off",
)
_wrong(
    "everything_low",
    "In a region not everything is computed in its dtype: only the operators of the lower list.",
    all_low=True,
)
_wrong(
    "no_wider_list",
    "The operators of the wider list cast what is narrower to float32, so that their results are "
    "float32.",
    wider=(),
)
_wrong(
    "lists_of_cuda",
    "`softmax`, `exp` and `sum` are on CUDA's wider list. On the CPU they are on no list, and keep "
    "the dtype of their input.",
    wider=(*WIDER, "softmax", "exp", "sum"),
)
_wrong(
    "cat_is_low",
    "`cat` is not on the lower list: it takes the widest dtype of its inputs.",
    cat_low=True,
)
_wrong(
    "float64_is_cast",
    "autocast leaves float64 as it is: no list casts it.",
    float64_too=True,
)
_wrong(
    "numbers_count",
    "A 0-d tensor has no say in type promotion beside a matrix of floats: bfloat16 times a 0-d "
    "float32 is bfloat16.",
    numbers_count=True,
)
_wrong(
    "in_place_promotes",
    "In place the result is the first input itself, so it has its dtype. The second is converted.",
    in_place_promotes=True,
)
_wrong(
    "off_is_ignored",
    "A region with `off` inside another one was passed over. In it autocast casts nothing.",
    region=lambda regions: ([r for r in regions if r != "off"] or ["off"])[-1],
)
_wrong(
    "outermost_holds",
    "The dtype of the outer region was used in the inner one. The innermost region holds.",
    region=lambda regions: "off" if "off" in regions or not regions else regions[0],
)
_wrong(
    "leave_ends_all",
    "`leave` ends the innermost region only. The one around it holds again.",
    left=lambda regions: [],
)
_wrong(
    "leave_ends_nothing",
    "After `leave` the region's dtype was still used.",
    left=lambda regions: regions,
)
_wrong(
    "always_bfloat16",
    "Every region was taken for one of bfloat16. It is named in the row `enter`.",
    region=lambda regions: "bfloat16" if regions and regions[-1] != "off" else "off",
)


@autocast_dtypes.cost
def _(student: Student, draw: Draw) -> str:
    program = _whole(draw, "bfloat16", "float16")
    made = student.call("autocast_dtypes", program)
    low = sum(dtype in RANKS[:2] for dtype in made.values())
    return f"{low} of {len(made)} results have 16 bits: two bytes for each number, not four"
