"""The dtype of each result of a program with autocast regions, predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    host="It asks what autocast does on the CPU, and an answer may run it there.",
)
def autocast_dtypes(student: Student, draw: Draw) -> None:
    """The dtype of what each operator of a program makes.

    program: rows (name, op, args) -> {name: "float32", ...} for each operator's name.
    """
    programs = [_whole(draw, *pair) for pair in (("float16", "bfloat16"), ("bfloat16", "float16"))]
    programs += [_every(low) for low in RANKS[:2]]
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
            why = _rule(name, program)
            raise Wrong(expected=repr(want), got=describe(said[name]), where=where, why=why)
    operators = {name for name, op, _ in program if op in _OPERATORS}
    for name in said:
        if name not in operators:
            raise Wrong(expected="operators' rows alone", got=f"{name!r} too", why=_NO_OPERATOR)


_NO_OPERATOR = (
    "The dtypes are right, and the dict has a name that is no operator's. Only the rows of "
    "operators are asked, not those of inputs or regions."
)

_OFF = (
    "The innermost region around this row is off: nothing is cast, and type promotion decides. "
    "bfloat16 and float16 make float32, otherwise the wider dtype wins."
)


def _rule(name: str, program: Sequence[Row]) -> str:
    """The rule for the operator of this name, where it stands."""
    regions: list[str] = []
    numbers: set[str] = set()
    op, args = "", [""]
    for at, op, args in program:
        if at == name:
            break
        if op == "enter":
            regions.append(args[0])
        elif op == "leave":
            regions.pop()
        elif args[1:] == ["number"] or op in REDUCING or set(args) <= numbers:
            numbers.add(at)
    if op in IN_PLACE:
        return f"`{op}` keeps the dtype of its first input, in a region or not."
    silent = [arg for arg in args if arg in numbers]
    if op in PLAIN and 0 < len(silent) < len(args):
        return (
            f"`{op}` is on no list, and {silent[0]} is a 0-d tensor: it has no say beside a "
            "matrix, whose dtype the result has."
        )
    if not regions:
        return (
            "No region is around this row: nothing is cast, and type promotion decides. bfloat16 "
            "and float16 make float32, otherwise the wider dtype wins."
        )
    if regions[-1] == "off":
        return _OFF
    if op in LOWER:
        return (
            f"`{op}` is on the lower list, and the innermost region around this row is "
            f"{regions[-1]}: it casts all inputs but float64."
        )
    if op in WIDER:
        return f"`{op}` is on the wider list: in a region all inputs but float64 become float32."
    if op == "cat":
        return "`cat` takes the widest dtype of its inputs, whatever the region is."
    return (
        f"`{op}` is on no list: its inputs stay as they are, and type promotion decides. bfloat16 "
        "and float16 make float32. A 0-d tensor has no say beside a matrix."
    )


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

    row("mul", b, n)
    row("add", b, row("exp", n))
    row("mm", f, f)
    for op in ("sum", "trace", "prod"):
        row("mul", b, row(op, f))
    border("enter", low)
    p = row("mm", f, b)
    inside = next(letters)
    rows.append((inside, "input", ["float32", "matrix"]))
    row("exp", inside)
    loss = row("mse_loss", p, b)
    row("trace", f)
    row("mul", p, row("add", loss, n))
    for op, args in (("softmax", (p,)), ("trace", (p,)), ("add", (p, f)), ("cat", (p, f))):
        row(op, *args)
    row("cat", p, b)
    row("cat", f, p)
    row("mul_", f, p)
    for op, args in (("mul", (p, loss)), ("add_", (p, f)), ("mm", (d, d)), ("mse_loss", (p, d))):
        row(op, *args)
    border("enter", "off")
    row("mm", f, f)
    row("prod", b)
    border("leave")
    row("linear", f, b)
    border("enter", other)
    row("mm", b, b)
    crossed = row("addmm", f, b, f)
    border("leave")
    last = row("mm", f, f)
    border("leave")
    row("mm", f, f)
    row("add", last, crossed)
    row("add", crossed, last)
    return rows


def _every(low: str) -> list[Row]:
    """Each operator in a region, with inputs of each dtype; what comes of it beside a matrix tells
    whether it is a number."""
    kinds = {"b": "bfloat16", "h": "float16", "f": "float32", "d": "float64"}
    rows: list[Row] = [(name, "input", [dtype, "matrix"]) for name, dtype in kinds.items()]
    rows += [("n", "input", ["float64", "number"]), ("m", "input", ["float32", "number"])]
    rows += [(f"c{k}", "cat", [*two]) for k, two in enumerate(("bh", "hb", "bf", "hd", "hh"))]
    rows += _beside("o", "p", _outside(kinds))
    rows.append(("", "enter", [low]))
    named = {dtype: name for name, dtype in kinds.items()}
    asked = [(op, [*pair]) for op in ("mm", "linear") for pair in ("bb", "hh", "bh", "fb", "dd")]
    asked += [("addmm", [*three]) for three in ("bbb", "hhh", "fbh", "ddd")]
    asked += [(op, [*two]) for op in WIDER[:2] for two in ("bb", "hh", "bf", "hd")]
    alone = ("prod", "trace", "exp", "tanh", "softmax", "sum")
    asked += [(op, [one]) for op in alone for one in kinds]
    asked += [(op, ["n"]) for op in ("prod", "exp", "tanh", "sum")]
    pairs = ("bh", "hf", "fd", "bb", "hn", "mn", "nm")
    asked += [(op, [*two]) for op in ("add", "mul", *IN_PLACE) for two in pairs]
    asked += [(op, ["m", "f"]) for op in ("add", "mul")]  # a number before a matrix
    asked += [("cat", [named[low], other]) for other in ("f", named[low], "d")]
    asked += [("cat", [*two]) for two in ("df", "fd", "dd")]
    rows += _beside("r", "s", asked)
    for k, region in enumerate(("off", low, "off")):  # four deep
        rows += [("", "enter", [region]), (f"t{k}", "mm", ["f", "f"]), (f"u{k}", "prod", ["b"])]
    for k in range(3):
        rows += [("", "leave", []), (f"v{k}", "mm", ["f", "f"]), (f"w{k}", "prod", ["b"])]
    return [*rows, ("", "leave", []), ("x", "mm", ["f", "f"])]


def _outside(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Each operator where no region is, with each dtype that it takes."""
    asked = [(op, [one, one]) for op in ("mm", "linear") for one in names]
    asked += [("addmm", [one] * 3) for one in names]
    asked += [(op, [*two]) for op in WIDER[:2] for two in ("bb", "hh", "bf", "hd")]
    asked += [(op, [one]) for op in (*WIDER[2:], *PLAIN[2:]) for one in names]
    pairs = ("bh", "hf", "fd", "hn", "mn", "nm")
    return asked + [(op, [*two]) for op in ("add", "mul", *IN_PLACE) for two in pairs]


def _beside(made: str, tells: str, asked: Sequence[tuple[str, list[str]]]) -> list[Row]:
    """These operators; of each result, multiplied by a matrix, its dtype tells what it is."""
    rows: list[Row] = []
    for k, (op, args) in enumerate(asked):
        rows += [(f"{made}{k}", op, args), (f"{tells}{k}", "mul", ["b", f"{made}{k}"])]
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


def _promoted(dtypes: Sequence[str], numbers: Sequence[bool], mixed: str) -> str:
    """torch's rule: 0-d tensors have no say beside others; the wider wins, and the two 16-bit
    dtypes, of which neither is wider, make `mixed`: float32."""
    heard = [d for d, number in zip(dtypes, numbers, strict=True) if not number] or dtypes
    if {"bfloat16", "float16"} <= set(heard) <= {"bfloat16", "float16"}:
        return mixed
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
    float64_too_in_wider = False
    numbers_count = False
    in_place_promotes = False
    outside = "off"
    wider_outside = False
    wider_to_region = False
    mixed = "float32"
    reducing: tuple[str, ...] = REDUCING
    keeps_numbers = True
    first: tuple[str, ...] = ()
    narrows_16_bits = True
    in_place_low = False
    inputs_too = False

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
                region = self.region(regions)
                low = self.inputs_too and region != "off"
                made[name] = _cast([args[0]], region)[0] if low else args[0]
                numbers |= {name} if args[1] == "number" else set()
            else:
                given = [made[arg] for arg in args]
                flat = [arg in numbers for arg in args]
                made[name] = self.of(op, given, flat, self.region(regions))
                flat_too = self.keeps_numbers and all(flat)
                numbers |= {name} if op in self.reducing or flat_too else set()
        return {name: made[name] for name, op, _ in program if op in _OPERATORS}

    def of(self, op: str, given: list[str], numbers: list[bool], region: str) -> str:
        if op in IN_PLACE and region != "off" and self.in_place_low:
            return region
        if (op in IN_PLACE and not self.in_place_promotes) or op in self.first:
            return given[0]
        if region != "off" and self.all_low:
            return region
        if region != "off" and op in self.lower:
            if not self.narrows_16_bits:
                given = [region if d == "float32" else d for d in given]
                return _promoted(given, numbers, self.mixed)
            return _cast(given, region, self.float64_too)[0]
        if op in self.lower and self.outside != "off":
            return _cast(given, self.outside)[0]
        if region != "off" and op == "cat" and self.cat_low:
            return _cast(given, region, self.float64_too)[0]
        if op in self.wider and (region != "off" or self.wider_outside):
            to = region if self.wider_to_region and region != "off" else "float32"
            given = _cast(given, to, self.float64_too or self.float64_too_in_wider)
        return _promoted(given, [False] * len(given) if self.numbers_count else numbers, self.mixed)


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
    "In place the dtypes were promoted as elsewhere. The result is the first input itself, so it "
    "has its dtype: the second is converted.",
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
    "After `leave` autocast was taken to be off. `leave` ends the innermost region only: the one "
    "around it holds again.",
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


_wrong(
    "cast_outside",
    "A product outside of every region, or in one with `off`, was cast to bfloat16. Nothing is "
    "cast there.",
    outside="bfloat16",
)
_wrong(
    "wider_list_outside",
    "The wider list cast to float32 where autocast is off. It casts in a region alone.",
    wider_outside=True,
)
_wrong(
    "wider_list_low",
    "The wider list cast to the region's dtype. It casts to float32, whatever the region is.",
    wider_to_region=True,
)
_wrong(
    "unlisted_low",
    "Operators that are on no list were cast to the region's dtype. They go by type promotion, as "
    "without autocast.",
    lower=(*LOWER, *PLAIN, "cat"),
)
_wrong(
    "cat_is_float32",
    "`cat` is not on the wider list: it takes the widest dtype of its inputs.",
    wider=(*WIDER, "cat"),
)
_wrong(
    "cat_by_the_first",
    "`cat` took the dtype of its first input. It takes the widest of them.",
    first=("cat",),
)
_wrong(
    "first_input_decides",
    "Each operator that casts nothing took the dtype of its first input. The wider dtype wins.",
    first=(*PLAIN, "cat"),
)
_wrong(
    "only_mm_is_low",
    "`linear` and `addmm` are on the lower list too, as `mm` is.",
    lower=("mm",),
)
_wrong("addmm_forgotten", "`addmm` is on the lower list too.", lower=("mm", "linear"))
_wrong("linear_forgotten", "`linear` is on the lower list too.", lower=("mm", "addmm"))
_wrong(
    "only_float32_is_cast",
    "The lower list casts the other 16-bit dtype to the region's as well, not float32 alone.",
    narrows_16_bits=False,
)
_wrong(
    "float64_in_the_wider_list",
    "autocast leaves float64 as it is: the wider list does not narrow it.",
    float64_too_in_wider=True,
)
_wrong(
    "float16_wins",
    "bfloat16 and float16 together make float32: neither holds the other's numbers.",
    mixed="float16",
)
_wrong(
    "bfloat16_wins",
    "bfloat16 and float16 together make float32: neither holds the other's numbers.",
    mixed="bfloat16",
)
_wrong(
    "results_are_matrices",
    "Each result was taken for a matrix. A loss, `prod`, `trace` and `sum` make a 0-d tensor, and "
    "so does an operator of nothing but 0-d tensors.",
    reducing=(),
    keeps_numbers=False,
)
_wrong(
    "reductions_are_matrices",
    "The losses, `prod`, `trace` and `sum` make 0-d tensors, which have no say beside a matrix.",
    reducing=(),
)
_wrong(
    "losses_are_matrices",
    "The losses, `prod` and `trace` make 0-d tensors, as `sum` does.",
    reducing=("sum",),
)
_wrong("sum_is_a_matrix", "`sum` makes a 0-d tensor, as the losses do.", reducing=WIDER)
_wrong(
    "numbers_make_matrices",
    "An operator whose inputs are all 0-d makes a 0-d tensor, which has no say beside a matrix.",
    keeps_numbers=False,
)
_wrong(
    "inputs_are_cast",
    "An input was cast because it stands in a region. Only operators cast, and only what they "
    "read.",
    inputs_too=True,
)
_wrong(
    "in_place_is_low",
    "In place the result is the first input itself. A region does not change its dtype.",
    in_place_low=True,
)


@autocast_dtypes.wrong(
    "dtypes_not_names",
    "These are dtypes of torch. Their names are asked, as texts: `float32`, not `torch.float32`.",
)
def _(program: Sequence[Row]) -> dict[str, torch.dtype]:
    return {name: getattr(torch, dtype) for name, dtype in _Rules().dtypes(program).items()}


@autocast_dtypes.wrong(
    "names_with_torch",
    "The names begin with `torch.`. They are asked without it: `float32`.",
)
def _(program: Sequence[Row]) -> Dtypes:
    return {name: f"torch.{dtype}" for name, dtype in _Rules().dtypes(program).items()}


@autocast_dtypes.wrong(
    "dtypes_in_a_list",
    "A list came. A dict is asked, which has the name of each operator's row and its dtype.",
)
def _(program: Sequence[Row]) -> list[str]:
    return list(_Rules().dtypes(program).values())


@autocast_dtypes.cost
def _(student: Student, draw: Draw) -> str:
    program = _whole(draw, "bfloat16", "float16")
    made = student.call("autocast_dtypes", program)
    low = sum(dtype in RANKS[:2] for dtype in made.values())
    return f"{low} of {len(made)} results have 16 bits: two bytes for each number, not four"
