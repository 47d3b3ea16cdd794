"""What a running sum in a short format reaches, and how many terms move it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Draw, Said, Student, expect_tuple

from . import lab
from .exactly import as_number, expect_number
from .formats import BFLOAT16, FLOAT16, FLOAT32, Format

Answer = tuple[float, int, float]
KINDS = {torch.bfloat16: BFLOAT16, torch.float16: FLOAT16, torch.float32: FLOAT32}


@lab.question(
    "stuck_sum",
    points=3,
    minutes=9,
    difficulty=3,
    hints=(
        "torch.sum keeps its sum in a wider dtype than it returns. Who keeps it in 16 bits?",
        "A loop does, with a 0-d tensor of the terms' dtype: each `+` rounds. Compare before and "
        "after. For the wide sum convert the terms first, and convert back once.",
        "after = total + term; moved += (after != total).item(); total = after",
    ),
)
def stuck_sum(student: Student, draw: Draw) -> None:
    """What adding one term after the other reaches in the terms' own dtype, how many of the terms
    changed the sum, and the sum of all in float64, rounded to that dtype once.

    terms (n,), bfloat16, float16 or float32 -> (sum, how many, sum of float64 rounded once).
    """
    asked = [*_fixed(draw), *(_drawn(draw) for _ in draw.cases(2))]
    so_far: list[tuple[Tensor, list[Any]]] = []
    for terms, got in zip(asked, student.each("stuck_sum", [(t,) for t in asked]), strict=True):
        want = _known(_numbers(terms), KINDS[terms.dtype])
        each = expect_tuple(got, 3, "(sum, how many terms changed it, sum rounded once)")
        so_far.append((terms, [as_number(one) for one in each]))
        where = f"of {terms.numel()} terms of {str(terms.dtype).removeprefix('torch.')}"
        names = (
            f"the running sum {where}",
            f"the number of terms that changed the sum {where}",
            f"the sum rounded once, {where}",
        )
        for k, name in enumerate(names):
            expect_number(each[k], want[k], name, why=_why(k, want, so_far))


def _fixed(draw: Draw) -> list[Tensor]:
    """A sum that stands still at 2**8, 2**11 and 2**24 terms; that stands, and moves again; a tie
    up and one down; over the largest number and back; terms that are zero, and sums that come back;
    one term, none."""
    unit = draw.integer(65, 127) / 64
    bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
    again = [1.0, *[2.0**-9] * 3, 0.0, 1.0, 2.0**-9, 2.0**-9 * draw.integer(130, 190)]
    plain = [
        torch.full((draw.integer(520, 640),), unit, dtype=bf16),
        torch.tensor(again, dtype=bf16) * 2.0 ** draw.integer(-8, 8),
        torch.tensor([258.0, 1.0, 1.0, 1.0, -0.5], dtype=bf16),
        torch.tensor([2048.0, *[1.0] * draw.integer(3, 9), 3.0, 1.0], dtype=f16),
        torch.tensor([60000.0, draw.integer(10, 30) * 1000.0, -32000.0, 7.0], dtype=f16),
        torch.tensor([2.0**24, *[1.0] * draw.integer(3, 9)], dtype=f32),
        torch.tensor([0.0, 5.5, 0.0, 0.25, -5.75, 3.0, -3.0, 3.0], dtype=f16),
        torch.tensor([1.0, 2.0**-20, 1.0], dtype=f32),  # changed, by less than allclose sees
        torch.tensor([3.0, -6.0, 6.0, 1.0], dtype=f16),  # the same amount with the other sign
        torch.tensor([2.0**30, 128.0, 1.0, -(2.0**30)], dtype=bf16),  # float32 loses the 1
    ]
    return [*plain, torch.tensor([0.375], dtype=f16), torch.tensor([], dtype=bf16)]


def _drawn(draw: Draw) -> Tensor:
    """Terms of both signs, in any layout. 1/64 of a normal number's digits are enough to round, and
    few enough for an exact sum in float64."""
    dtype, layout = draw.choice((torch.bfloat16, torch.float16)), draw.layout()
    return draw.tensor(draw.integer(40, 97), dtype=dtype, layout=layout)


def _numbers(terms: Tensor) -> list[float]:
    return [float(n) for n in terms.detach().tolist()]


def _sums(terms: Sequence[float], kind: Format) -> Sequence[float]:
    """The running sum, from 0 on, after each term."""
    return _all_sums(tuple(terms), kind)


@lru_cache(maxsize=256)  # every known wrong answer asks for those of the same terms
def _all_sums(terms: tuple[float, ...], kind: Format) -> Sequence[float]:
    return tuple(accumulate(terms, lambda total, term: kind.nearest(total + term), initial=0.0))


def _moved(sums: Sequence[float]) -> int:
    return sum(a != b for a, b in pairwise(sums))


def _known(terms: Sequence[float], kind: Format) -> Answer:
    sums = _sums(terms, kind)
    return sums[-1], _moved(sums), kind.nearest(math.fsum(terms))


def _why(k: int, want: Answer, so_far: Sequence[tuple[Tensor, list[Any]]]) -> Said:
    """What the only known sentence for all that came so far says, as numbers: a sum may come as a
    tensor, or as Python's own. With none, or more than one, what is true of the k-th number."""
    terms, came = so_far[-1]
    mine = came[k]
    is_number = isinstance(mine, (int, float)) and not isinstance(mine, bool)
    if not is_number or mine == want[k] or math.isnan(mine):
        return ""
    known = {
        one.sentence
        for one in stuck_sum.wrong_answers
        if one.name != "terms_written"
        and all(_alike(one.functions["stuck_sum"](t), numbers) for t, numbers in so_far)
    }
    if len(known) == 1:
        return known.pop()
    return _of_this_number(k, mine, want, _numbers(terms), KINDS[terms.dtype])


def _alike(theirs: Sequence[Any], came: Sequence[Any]) -> bool:
    return len(theirs) == len(came) and all(a == b for a, b in zip(theirs, came, strict=True))


def _of_this_number(k: int, mine: float, want: Answer, terms: list[float], kind: Format) -> str:
    if k == 1:
        return _EACH_COUNTS if mine < want[1] else _NOTHING_CHANGES
    if kind.nearest(mine) != mine:
        return _NO_NUMBER
    if k == 0:
        return _WIDE_SUM if mine == want[2] else _STEP_BY_STEP
    return _RUNNING if mine == want[0] else _EXACT_FIRST


_EACH_COUNTS = (
    "More terms change the sum: also a negative one, one that brings an earlier sum back, one that "
    "changes it in its last digits alone, and the first one, if it is not 0."
)
_NOTHING_CHANGES = (
    "Fewer terms change the sum. It begins at 0, and a term after which it is the number that it "
    "was before changes nothing, be it 0, also the first one, or only too small."
)
_NO_NUMBER = "The terms' dtype has no such number. Every sum is rounded to it, at the end too."
_WIDE_SUM = (
    "The sum of all, rounded once, is this number. One term after the other, in the order given, "
    "each `+` rounds, and the sum ends elsewhere."
)
_STEP_BY_STEP = (
    "From 0 on, in the order given, every single `+` rounds to the terms' dtype, and the next one "
    "starts from what was rounded."
)
_RUNNING = (
    "The third number is the same as the running sum. Convert the terms to float64 before they "
    "are added."
)
_EXACT_FIRST = (
    "Here float64 holds the sum of all exactly. Rounded to the terms' dtype, once, it is another "
    "number."
)


def _wrong(name: str, sentence: str, answer: Callable[[Sequence[float], Format], Any]) -> None:
    stuck_sum.wrong(
        name, sentence, stuck_sum=lambda terms: answer(_numbers(terms), KINDS[terms.dtype])
    )


def _rounded_once(terms: Sequence[float], kind: Format) -> Answer:
    _, moved, wide = _known(terms, kind)
    return wide, moved, wide


def _shown(terms: Sequence[float], kind: Format) -> Answer:
    """A wide running sum, of which each state is rounded when it is looked at: torch.cumsum."""
    total, shown = 0.0, [0.0]
    for term in terms:
        total += term
        shown.append(kind.nearest(total))
    return shown[-1], _moved(shown), shown[-1]


def _wide_moves(terms: Sequence[float], kind: Format) -> Answer:
    running, _, wide = _known(terms, kind)
    return running, sum(term != 0 for term in terms), wide


def _last_move(terms: Sequence[float], kind: Format) -> Answer:
    running, _, wide = _known(terms, kind)
    sums = _sums(terms, kind)
    return running, max((k for k in range(1, len(sums)) if sums[k] != sums[k - 1]), default=0), wide


def _first_stop(terms: Sequence[float], kind: Format) -> Answer:
    running, _, wide = _known(terms, kind)
    sums = _sums(terms, kind)
    stops = (k - 1 for k in range(1, len(sums)) if sums[k] == sums[k - 1])
    return running, next(stops, len(terms)), wide


def _still(terms: Sequence[float], kind: Format) -> Answer:
    running, moved, wide = _known(terms, kind)
    return running, len(terms) - moved, wide


def _unrounded(terms: Sequence[float], kind: Format) -> Answer:
    running, moved, _ = _known(terms, kind)
    return running, moved, math.fsum(terms)


def _inside_wide(terms: Sequence[float], kind: Format, end: Callable[[float], float]) -> Answer:
    """A running sum of Python's floats; `end`: what becomes of it."""
    sums = list(accumulate(terms, initial=0.0))
    return end(sums[-1]), _moved(sums), kind.nearest(math.fsum(terms))


def _until_it_stops(terms: Sequence[float], kind: Format) -> Answer:
    sums = _sums(terms, kind)
    count = _first_stop(terms, kind)[1]
    return sums[count], count, _known(terms, kind)[2]


def _from_the_first(terms: Sequence[float], kind: Format) -> Answer:
    running, moved, wide = _known(terms, kind)
    return running, moved - (len(terms) > 0 and terms[0] != 0), wide


def _upward(terms: Sequence[float], kind: Format) -> Answer:
    running, _, wide = _known(terms, kind)
    return running, sum(a < b for a, b in pairwise(_sums(terms, kind))), wide


def _as_float32(terms: Sequence[float], kind: Format) -> Answer:
    sums = _sums(terms, FLOAT32)
    return kind.nearest(sums[-1]), _moved(sums), _known(terms, kind)[2]


def _largest_first(terms: Sequence[float], kind: Format) -> Answer:
    return _known(sorted(terms, key=abs, reverse=True), kind)


def _smallest_first(terms: Sequence[float], kind: Format) -> Answer:
    return _known(sorted(terms, key=abs), kind)


_wrong(
    "rounded_once",
    "The first sum was rounded once, as torch.sum does: it keeps a wider sum inside. Add one term "
    "after the other, and each sum is rounded.",
    _rounded_once,
)
_wrong(
    "shown_in_16_bits",
    "Each state is a wide sum, rounded when it was written down, as torch.cumsum does it. The next "
    "sum has to start from the rounded one.",
    _shown,
)
_wrong(
    "both_running",
    "The third number is the same as the running sum. Convert the terms to float64 before they "
    "are added.",
    lambda terms, kind: (*_known(terms, kind)[:2], _known(terms, kind)[0]),
)
_wrong(
    "in_float32",
    "The running sum was kept in float32. In the terms' own dtype it stands still much earlier.",
    lambda terms, kind: (
        _sums(terms, FLOAT32)[-1],
        _moved(_sums(terms, FLOAT32)),
        _known(terms, kind)[2],
    ),
)
_wrong(
    "every_term_counts",
    "Each term that is not 0 was counted. One that is too small beside the sum changes nothing.",
    _wide_moves,
)
_wrong(
    "place_of_the_last",
    "This is the place of the last term that changed the sum. Some before it did not.",
    _last_move,
)
_wrong(
    "first_stop",
    "Counted up to the first term that changed nothing. A larger one may come after it.",
    _first_stop,
)
_wrong(
    "none_counted",
    "No term was counted, and some changed the sum. Where `total += term` writes into the tensor, "
    "the sum from before, kept under another name, is the new one as well.",
    lambda terms, kind: (_known(terms, kind)[0], 0, _known(terms, kind)[2]),
)
_wrong("those_that_do_not", "These are the terms that changed nothing.", _still)
_wrong(
    "not_rounded",
    "The third sum was not rounded to the terms' dtype at the end.",
    _unrounded,
)
_wrong(
    "largest_first",
    "The terms were sorted, the largest first. The order is given: a running sum depends on it.",
    _largest_first,
)
_wrong(
    "smallest_first",
    "The terms were sorted, the smallest first. That loses less, and the order is given.",
    _smallest_first,
)
_wrong(
    "python_floats",
    "The running sum was kept in float64. In the terms' own dtype each `+` rounds.",
    lambda terms, kind: _inside_wide(terms, kind, lambda total: total),
)
_wrong(
    "rounded_at_the_end",
    "The running sum was kept in a wider dtype, and rounded at the end. Each `+` has to round, in "
    "the terms' own dtype.",
    lambda terms, kind: _inside_wide(terms, kind, kind.nearest),
)
_wrong(
    "float32_rounded_at_the_end",
    "The running sum was kept in a wider dtype, and rounded at the end. Each `+` has to round, in "
    "the terms' own dtype.",
    _as_float32,
)
_wrong(
    "third_in_float32",
    "The third sum was kept in float32, as torch.sum does it. That stands still too, at 2**24: "
    "convert to float64 first.",
    lambda terms, kind: (*_known(terms, kind)[:2], _as_float32(terms, kind)[0]),
)
_wrong(
    "stopped_there",
    "The sum ended at the first term that changed nothing. A larger one may move it again.",
    _until_it_stops,
)
_wrong(
    "first_not_counted",
    "One fewer was counted than changed the sum, as where the first term is left out. The sum "
    "begins at 0, so that one changes it too, if it is not 0.",
    _from_the_first,
)
_wrong(
    "only_upward",
    "Fewer were counted than changed the sum. One that makes it smaller changes it as well, and "
    "so does one that brings an earlier sum back.",
    _upward,
)
_wrong(
    "distinct_sums",
    "Each value of the sum was counted once. A term that brings an earlier sum back changes it as "
    "well.",
    lambda terms, kind: (
        _known(terms, kind)[0],
        len(set(_sums(terms, kind))) - 1,
        _known(terms, kind)[2],
    ),
)
_wrong(
    "within_a_tolerance",
    "Sums that are nearly equal were taken for the same. A term that changes the sum in its last "
    "digits alone changes it as well: compare with `==`.",
    lambda terms, kind: (
        _known(terms, kind)[0],
        sum(not math.isclose(a, b, rel_tol=1e-5) for a, b in pairwise(_sums(terms, kind))),
        _known(terms, kind)[2],
    ),
)
_wrong(
    "added_exactly",
    "Only terms that were added without rounding were counted. A rounded sum has changed too, if "
    "it is another one than before.",
    lambda terms, kind: (
        _known(terms, kind)[0],
        sum(a + t == b for (a, b), t in zip(pairwise(_sums(terms, kind)), terms, strict=True)),
        _known(terms, kind)[2],
    ),
)
_wrong(
    "from_the_end",
    "The terms were added from the last to the first. The order is given: a running sum depends on "
    "it.",
    lambda terms, kind: _known(terms[::-1], kind),
)
_wrong(
    "ascending",
    "The terms were sorted. The order is given: a running sum depends on it.",
    lambda terms, kind: _known(sorted(terms), kind),
)
_wrong(
    "count_last",
    "The three came in another order. Asked are the running sum, how many terms changed it, the "
    "sum rounded once.",
    lambda terms, kind: tuple(_known(terms, kind)[k] for k in (0, 2, 1)),
)
_wrong(
    "two_of_three",
    "Two numbers came. The third is asked too: the sum in float64, rounded once.",
    lambda terms, kind: _known(terms, kind)[:2],
)


@stuck_sum.wrong(
    "terms_written", "The terms were written into. Keep the sum in a tensor of its own."
)
def _(terms: Tensor) -> Answer:
    known = _known(_numbers(terms), KINDS[terms.dtype])
    terms.detach()[:1].zero_()
    return known


@stuck_sum.cost
def _(student: Student, draw: Draw) -> str:
    terms = torch.ones(600, dtype=torch.bfloat16)
    running, moved, wide = student.call("stuck_sum", terms)
    reached = f"{float(running):.0f} after {int(moved)} terms"
    return f"600 ones in bfloat16: {reached}, not {float(wide):.0f}"
