"""The detective case: five kernels that look right, each with one line that is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab
from .admitted import Refused
from .kernels import HOST, Case, judged, launcher, output
from .memory import Fault
from .suspects import SUSPECTS

_FORM = "(number of the line, the line as it should be), or None"
MAX_LINE = 120
Repair = tuple[int, str] | None


@lab.question(
    "broken_kernel",
    points=5,
    minutes=10,
    difficulty=4,
    hints=(
        "Run each on a small input on which you know the answer: all numbers below 0, a D that is "
        "no multiple of the tile, more words than one tile, two programs.",
        "Ada's masked lanes take part in the maximum. Bo's last tile hangs over D. Cy's programs "
        "leave words out. Di forgets what the tiles before had as their maximum. Ed's programs "
        "meet in one element.",
        '"Ada": what a masked lane holds must lose against every number: other=float("-inf")',
    ),
    host=HOST,
)
def broken_kernel(student: Student, draw: Draw) -> None:
    """Detective case: in each of five kernels one line is wrong. Which, and how should it read?

    "Ada", "Bo", "Cy", "Di" or "Ed" -> (number of the line, from 1, the line as it should be).
    """
    given = {suspect: student.call("broken_kernel", suspect) for suspect in SUSPECTS}
    repairs = {suspect: _repair(suspect, got) for suspect, got in given.items()}
    for suspect, repair in repairs.items():
        if repair is not None:
            _expect_repaired(suspect, repair, list(_CASES[suspect](draw)))
    for suspect, repair in repairs.items():
        if repair is None:
            why = f"There is no repair of {suspect}'s kernel yet."
            raise Wrong(expected=_FORM, got="None", where=f"for {suspect}", why=why)


def _repair(suspect: str, got: Any) -> Repair:
    if got is None:
        return None
    number, line = expect_tuple(got, 2, _FORM, where=f"for {suspect}")
    lines = SUSPECTS[suspect].splitlines()
    if type(number) is not int or not 1 <= number <= len(lines):
        raise Wrong(expected=f"a line, 1 to {len(lines)}", got=describe(number), where=suspect)
    if not isinstance(line, str) or len(line) > MAX_LINE or "\n" in line:
        raise Wrong(expected=f"one line, at most {MAX_LINE} characters", got=describe(line))
    return number, line


def _expect_repaired(suspect: str, repair: tuple[int, str], cases: list[Case]) -> None:
    try:
        judged(launcher(_repaired(suspect, repair)), cases)
    except Wrong as wrong:
        raise Wrong(
            expected=wrong.expected,
            got=wrong.got,
            where=f"in {suspect}'s kernel with your line {repair[0]}, {wrong.where}",
            why=_why(suspect, repair, cases) or wrong.why,
        ) from None


def _why(suspect: str, repair: tuple[int, str], cases: list[Case]) -> str:
    """The sentence of a known repair of the same line that fails alike in every case."""
    mine = _outcomes(suspect, repair, cases)
    for known, theirs, sentence in _WRONG.values():
        same = known == suspect and theirs[0] == repair[0]
        if same and _outcomes(suspect, theirs, cases) == mine:
            return sentence
    return ""


def _repaired(suspect: str, repair: tuple[int, str]) -> str:
    """The kernel with that line, indented as the one before."""
    number, line = repair
    lines = SUSPECTS[suspect].splitlines()
    before = lines[number - 1]
    lines[number - 1] = before[: len(before) - len(before.lstrip())] + line.strip()
    return "\n".join(lines)


def _outcomes(suspect: str, repair: tuple[int, str], cases: list[Case]) -> list[Any]:
    source = _repaired(suspect, repair)
    return [_outcome(source, case) for case in cases]


def _outcome(source: str, case: Case) -> Any:
    try:
        stored = launcher(source)(case)
    except (Wrong, Refused):
        return "refused"
    except Fault as fault:
        return fault.kind
    return [stored[name].nan_to_num(nan=1e30).tolist() for name in case.want]


def _ada(draw: Draw) -> list[Case]:
    """The largest of a row: numbers below 0, and V no power of two."""
    return [_row_case(draw, n, v, shift) for n, v, shift in ((3, 21, -9.0), (2, 33, 5.0))]


def _row_case(draw: Draw, n: int, v: int, shift: float) -> Case:
    x = draw.tensor(n, v) + shift
    given = {"x_ptr": x, "top_ptr": output(draw, n), "V": v, "x_n": v, "BLOCK": 64}
    return Case((n,), given, {"top_ptr": x.amax(1)})


def _bo(draw: Draw) -> list[Case]:
    return [_product_case(draw, n, d) for n, d in ((5, 21), (19, 40), (3, 16))]


def _product_case(draw: Draw, n: int, d: int) -> Case:
    x, u = draw.tensor(n, d), draw.tensor(d)
    given = {"x_ptr": x, "u_ptr": u, "y_ptr": output(draw, n), "N": n, "D": d,
             "ROWS": 16, "FEATURES": 16}  # fmt: skip
    return Case((-(-n // 16),), given, {"y_ptr": (x.double() @ u.double()).float()})


def _cy(draw: Draw) -> list[Case]:
    return [_bias_case(draw, n, v) for n, v in ((9, 70), (20, 33), (4, 16))]


def _bias_case(draw: Draw, n: int, v: int) -> Case:
    z, b = draw.tensor(n, v), draw.tensor(v)
    given = {"z_ptr": z, "b_ptr": b, "y_ptr": output(draw, n, v), "N": n, "V": v,
             "ROWS": 8, "WORDS": 32}  # fmt: skip
    return Case((-(-n // 8), -(-v // 32)), given, {"y_ptr": z + b})


def _di(draw: Draw) -> list[Case]:
    return [_lse_case(draw, n, v) for n, v in ((4, 75), (3, 100), (2, 11))]


def _lse_case(draw: Draw, n: int, v: int) -> Case:
    z = draw.tensor(n, v)
    z[:, :16] += 130
    given = {"z_ptr": z, "lse_ptr": output(draw, n), "V": v, "WORDS": 16}
    return Case((n,), given, {"lse_ptr": z.double().logsumexp(1).float()})


def _ed(draw: Draw) -> list[Case]:
    return [_sum_case(draw, n, v) for n, v in ((5, 21), (18, 30), (1, 7))]


def _sum_case(draw: Draw, n: int, v: int) -> Case:
    z = draw.tensor(n, v)
    given = {"z_ptr": z, "sum_ptr": torch.zeros(v), "N": n, "V": v, "ROWS": 4, "BLOCK": 32}
    return Case((-(-n // 4),), given, {"sum_ptr": z.double().sum(0).float()})


_CASES: Mapping[str, Callable[[Draw], list[Case]]] = {
    "Ada": _ada, "Bo": _bo, "Cy": _cy, "Di": _di, "Ed": _ed
}  # fmt: skip
_WRONG: Mapping[str, tuple[str, tuple[int, str], str]] = {
    "other_is_small": (
        "Ada",
        (4, "x = tl.load(x_ptr + row * x_n + j, mask=j < V, other=-1.0)"),
        "The masked lanes still win where all numbers of a row are below what they hold. Only one "
        "number loses against every other.",
    ),
    "no_mask": (
        "Ada",
        (4, "x = tl.load(x_ptr + row * x_n + j)"),
        "Without a mask the lanes beyond V read the next row, and behind the last row what is "
        "nobody's.",
    ),
    "rows_alone": (
        "Bo",
        (7, "inside = (i < N)[:, None]"),
        "This is Bo's line as it stands: the rows are masked, and the last tile of features hangs "
        "over D.",
    ),
    "features_alone": (
        "Bo",
        (7, "inside = (k < D)[None, :]"),
        "Now the features are masked and the rows are not: a tile has two edges.",
    ),
    "words_for_rows": (
        "Cy",
        (2, "i = tl.program_id(0) * WORDS + tl.arange(0, ROWS)"),
        "Cy's rows were right. Programs beside each other along axis 1 begin ROWS words apart, and "
        "have WORDS words.",
    ),
    "axes_exchanged": (
        "Cy",
        (3, "j = tl.program_id(0) * WORDS + tl.arange(0, WORDS)"),
        "Now rows and words have the same number: only tiles on the diagonal are computed.",
    ),
    "old_maximum": (
        "Di",
        (8, "higher = top"),
        "The maximum never grows: it stays at -inf, and every difference to it is no number.",
    ),
    "scale_turned": (
        "Di",
        (9, "total = total * tl.exp(higher - top) + tl.sum(tl.exp(z - higher), 0)"),
        "The line of the sum was right: the old sum shrinks by exp(old - new). What `higher` is, "
        "the line before says.",
    ),
    "added_by_hand": (
        "Ed",
        (7, "tl.store(sum_ptr + j, tl.load(sum_ptr + j, mask=j < V) + part, mask=j < V)"),
        "Read, add and store are three steps: another program may do its own between them. The "
        "three have to be one.",
    ),
}


def _answer(suspect: str, repair: tuple[int, str]) -> Callable[[str], Repair]:
    return lambda name: repair if name == suspect else None


for _key, (_suspect, _edit, _sentence) in _WRONG.items():
    broken_kernel.wrong(_key, _sentence, broken_kernel=_answer(_suspect, _edit))


@broken_kernel.cost
def _(student: Student, draw: Draw) -> str:
    lines = sum(len(source.splitlines()) for source in SUSPECTS.values())
    return f"5 of {lines} lines changed"
