"""The merge rule of the online log-sum-exp."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from autograder.checks.explaining import saying
from autograder.checks.same_call import known_by_this_call
from autograder.judge import Draw, Student, Wrong, describe, expect_close, within

from . import lab

State = tuple[Tensor, Tensor]
TOLERANCE = 1e-5
_FORM = "(top, total), a tensor (N,) each"
_ABOVE = (
    "A top is above every logit of its row. It is the largest of them, which is the larger of the "
    "two tops that came."
)
_BELOW = (
    "A top is below one of the two that came for its row. It is the larger of them, row by row, "
    "whatever the other rows have."
)
_FINITE = "The top of two tiles without a logit is -inf, and a finite number is returned."
_SCALES = (
    "The total of the tile with the larger top counts in full, and that of the other tile exp(its "
    "top - the larger) times, row by row."
)
_ROWS = "For each row a number comes back, in a tensor (N,), also where N is 1."
_PAIR = "Two tensors come back: (top, total). Without both of them the next tile cannot be merged."


@lab.question(
    "running_lse",
    points=3,
    minutes=8,
    difficulty=3,
    by_effect=True,
    hints=(
        "Each total counts in units of exp(its own top). In which unit do you add the two?",
        "top = maximum of both. Each total is scaled by exp(its top - top): at most 1, so nothing "
        "overflows. And where both tops are -inf, what is -inf - (-inf)?",
        "total = total_a * exp(top_a - top) + total_b * exp(top_b - top), with 0 for the "
        "difference where top is -inf",
    ),
)
def running_lse(student: Student, draw: Draw) -> None:
    """The log-sum-exp of two tiles from those of each: (top, total) of both together.

    a, b: (top (N,), total (N,)) float32, where top is the largest logit of a row of the tile and
    total the sum of exp(logit - top); (-inf, 0) where the tile has no logit above -inf.
    -> (top, total) of the logits of both tiles.
    """
    for low, high in ((-5, 5), (200, 210), (-210, -200), (-30_000, -29_990)):
        _expect_merged(student, *_tiles(draw, 5, low, high, 2))
    _expect_merged(student, *_tiles(draw, 5, -5, 5, 3)[::2])  # so near that both totals count
    for empty in ("first", "second", "both", "one row"):
        a, b = _tiles(draw, 4, -3, 3, 2)
        _expect_merged(student, *_emptied(a, b, empty))
    a, _ = _tiles(draw, 4, -3, 3, 2)
    _expect_merged(student, a, a.clone())  # with the same top
    a -= a.amax(1, keepdim=True)
    _expect_merged(student, a, a - 1)  # a top of 0 is a top
    _expect_merged(student, *_tiles(draw, 64, 4000, 4005, 2))  # digits that a logarithm would lose
    for n in draw.sizes(1, 0, 7):
        low = draw.integer(-300, 300)
        tiles = _tiles(draw, n, low, low + draw.integer(1, 60), draw.integer(3, 6))
        _expect_merged(student, *tiles[:2])
        _expect_folded(student, tiles)


def _tiles(draw: Draw, n: int, low: float, high: float, many: int) -> list[Tensor]:
    """Tiles of logits (n, width) in float32 between low and high, each of another width. The last
    is 30 higher than the first, then lower: the larger top is on either side."""
    tiles = []
    for k in range(many):
        spread = draw.integers(n, 3 + k, low=0, high=1000) / 1000
        tiles.append((low + (high - low) * spread + (30 if k % 2 else 0)).float())
    return tiles


def _emptied(a: Tensor, b: Tensor, which: str) -> tuple[Tensor, Tensor]:
    a, b = a.clone(), b.clone()
    if which in ("first", "both"):
        a[:] = -math.inf
    if which in ("second", "both"):
        b[:] = -math.inf
    if which == "one row":
        a[0], b[0], a[1], b[2] = (-math.inf,) * 4
    return a, b


def state(tile: Tensor) -> State:
    """(top, total) of a tile (N, width), by its definition in float64."""
    z = tile.double()
    top = z.amax(1) if z.shape[1] else torch.full((len(z),), -math.inf)
    total = torch.where(z == -math.inf, 0.0, (z - top.unsqueeze(1)).exp()).sum(1)
    return top.float(), total.float()


def _expect_merged(student: Student, a: Tensor, b: Tensor) -> None:
    for left, right in ((a, b), (b, a)):
        given = state(left), state(right)
        got = student.call("running_lse", *given)
        with known_by_this_call(running_lse, student, got, *given):
            _expect_state(got, torch.cat([left, right], 1))


def _expect_folded(student: Student, tiles: list[Tensor]) -> None:
    """From the left, and from the right: the rule is associative."""

    def merged(a: Any, b: Any) -> Any:
        return student.call("running_lse", tuple(a), tuple(b))

    states = list(map(state, tiles))
    _expect_state(reduce(merged, states), torch.cat(tiles, 1))
    _expect_state(reduce(lambda b, a: merged(a, b), states[::-1]), torch.cat(tiles, 1))


def _expect_state(got: Any, z: Tensor) -> None:
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        raise Wrong(expected=_FORM, got=describe(got), why=_PAIR)
    top, total = got
    want_top, want_total = state(z)
    for name, mine, want in (("top", top, want_top), ("total", total, want_total)):
        if not isinstance(mine, Tensor) or mine.shape != want.shape:
            raise Wrong(expected=_FORM, got=describe(mine), where=f"in {name}", why=_ROWS)
    if not torch.equal(top, want_top):
        why = _BELOW if bool((top < want_top).any()) else ""
        why = _ABOVE if bool((top > want_top).any()) else why
        if bool((top.isfinite() & (want_top == -math.inf)).any()):
            why = _FINITE
        raise Wrong(expected=f"top {_shown(want_top)}", got=f"top {_shown(top)}", why=why)
    with within("total"), saying(_SCALES if total.dtype == want_total.dtype else ""):
        expect_close(total, want_total, tolerance=TOLERANCE)


def _shown(top: Tensor) -> list[float]:
    """Its numbers, with the digits of a float32."""
    return [float(f"{value:.8g}") for value in top.tolist()]


def _merge(a: State, b: State, scale: Callable[[Tensor, Tensor], Tensor], by: Any) -> State:
    top = by(a[0], b[0])
    return top, a[1] * scale(a[0], top) + b[1] * scale(b[0], top)


def _scale(top: Tensor, of: Tensor) -> Tensor:
    return (top - torch.where(of == -math.inf, 0.0, of)).exp()


running_lse.wrong(
    "not_rescaled",
    "Each total counts in units of exp(its own top). Where the tops differ, the totals are in two "
    "units and cannot be added.",
    running_lse=lambda a, b: (torch.maximum(a[0], b[0]), a[1] + b[1]),
)
running_lse.wrong(
    "only_the_first_rescaled",
    "Only the first total is scaled. If the second tile has the smaller top, its total counts too "
    "much.",
    running_lse=lambda a, b: (
        torch.maximum(a[0], b[0]),
        a[1] * _scale(a[0], torch.maximum(a[0], b[0])) + b[1],
    ),
)
running_lse.wrong(
    "nan_for_empty_tiles",
    "Two tiles without a logit give NaN: -inf - (-inf) is no number. Their merge is (-inf, 0), and "
    "the difference of two tops that are -inf has to be replaced.",
    running_lse=lambda a, b: _merge(a, b, lambda top, of: (top - of).exp(), torch.maximum),
)
running_lse.wrong(
    "scaled_up",
    "The difference has the wrong sign: exp(top - its top) is above 1 and makes the smaller total "
    "larger. A total in units of a smaller top shrinks.",
    running_lse=lambda a, b: _merge(a, b, lambda top, of: (of - top).exp(), torch.maximum),
)
running_lse.wrong(
    "smaller_top",
    "This keeps the smaller of the two tops: the other total is scaled up, and exp can overflow.",
    running_lse=lambda a, b: _merge(a, b, _scale, torch.minimum),
)


def _but(change: Callable[[Tensor, Tensor], Any]) -> Callable[[State, State], Any]:
    """What `change` makes of the right top and total."""
    return lambda a, b: change(*_merge(a, b, _scale, torch.maximum))


def _scale_of_all(top: Tensor, of: Tensor) -> Tensor:
    return (top - (torch.zeros_like(of) if bool((of == -math.inf).all()) else of)).exp()


def _none_empty(a: State, b: State) -> bool:
    return not bool(torch.minimum(a[0], b[0]).isinf().any())


def _unscaled(a: State, b: State) -> State:
    """Where either is empty, in units of 1."""
    top = torch.maximum(a[0], b[0])
    safe = torch.where(torch.minimum(a[0], b[0]).isinf(), 0.0, top)
    return top, a[1] * (a[0] - safe).exp() + b[1] * (b[0] - safe).exp()


_MORE: dict[str, tuple[str, Callable[[State, State], Any]]] = {
    "tops_added": (
        "The tops are added. The largest logit of both tiles is the larger of the two.",
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
    ),
    "last_top": (
        "The second top is taken for that of both. Where it is the smaller one, the first total "
        "is scaled up and can overflow.",
        lambda a, b: _merge(a, b, _scale, lambda _, top: top),
    ),
    "top_of_all_rows": (
        "One top is taken for all rows. Each row has its own.",
        lambda a, b: _merge(
            a, b, _scale, lambda x, y: torch.maximum(x, y).max().expand_as(x) if len(x) else x
        ),
    ),
    "only_the_second_rescaled": (
        "Only the second total is scaled. If the first tile has the smaller top, its total counts "
        "too much.",
        lambda a, b: (
            torch.maximum(a[0], b[0]),
            a[1] + b[1] * _scale(b[0], torch.maximum(a[0], b[0])),
        ),
    ),
    "scales_exchanged": (
        "Each total is scaled by the other one's distance to the top. It counts in units of exp("
        "its own top).",
        lambda a, b: _merge((a[0], b[1]), (b[0], a[1]), _scale, torch.maximum),
    ),
    "larger_top_alone": (
        "Only the total with the larger top is left. The other tile counts too, by exp(its top - "
        "the larger).",
        lambda a, b: (torch.maximum(a[0], b[0]), torch.where(a[0] >= b[0], a[1], b[1])),
    ),
    "equal_tops_once": (
        "Where the two tops are equal, one total is left out. Both count, in the same unit.",
        lambda a, b: _but(lambda top, total: (top, torch.where(a[0] == b[0], a[1], total)))(a, b),
    ),
    "powers_of_two": (
        "The totals are scaled by powers of 2, and they were added up as powers of e.",
        lambda a, b: _merge(a, b, lambda top, of: _scale(top, of) ** math.log(2), torch.maximum),
    ),
    "logarithm": (
        "This is the log-sum-exp, and not the total: the sum of exp(logit - top), without a "
        "logarithm.",
        _but(lambda top, total: (top, top + total.log())),
    ),
    "logarithm_of_the_total": (
        "This is the logarithm of the total. The total is the sum itself.",
        _but(lambda top, total: (top, total.log())),
    ),
    "unscaled_sum": (
        "This is the sum of exp(logit). The total counts in units of exp(top): without them it "
        "can overflow.",
        lambda a, b: (
            torch.maximum(a[0], b[0]),
            torch.logaddexp(a[0] + a[1].log(), b[0] + b[1].log()).exp(),
        ),
    ),
    "total_first": (
        "The total stands first. Asked for are (top, total).",
        _but(lambda top, total: (total, top)),
    ),
    "zero_for_empty_tiles": (
        "The top of two tiles without a logit is -inf, and 0 is returned: what replaces it in the "
        "differences is not the top.",
        _but(lambda top, total: (torch.where(top == -math.inf, 0.0, top), total)),
    ),
    "finite_for_empty_tiles": (
        _FINITE,
        _but(lambda top, total: (top.clamp(min=-1e30), total)),
    ),
    "differences_as_scales": (
        "The totals are scaled by the difference of the tops itself. Its exp is the scale.",
        lambda a, b: _merge(
            a, b, lambda top, of: top - torch.where(of == -math.inf, 0.0, of), torch.maximum
        ),
    ),
    "scales_alone": (
        "The totals are not in it. exp(its top - top) is what each of them is multiplied by.",
        lambda a, b: _merge(
            (a[0], torch.ones_like(a[1])), (b[0], torch.ones_like(b[1])), _scale, torch.maximum
        ),
    ),
    "mean_of_the_tops": (
        "The tops were averaged. The largest logit of both tiles is the larger of the two.",
        lambda a, b: _merge(a, b, _scale, lambda x, y: (x + y) / 2),
    ),
    "logarithm_for_the_top": (
        "The log-sum-exp stands where the top belongs. The top stays the largest logit.",
        _but(lambda top, total: (top + total.log(), total)),
    ),
    "first_top": (
        "The first top is taken for that of both. Where it is the smaller one, the second total "
        "is scaled up and can overflow.",
        lambda a, b: _merge(a, b, _scale, lambda top, _: top),
    ),
    "zero_at_least": (
        "The top is 0 where all logits are below 0. It is the largest of them, and below 0 too.",
        lambda a, b: _merge(a, b, _scale, lambda x, y: torch.maximum(x, y).clamp(min=0.0)),
    ),
    "one_for_empty_tiles": (
        "Two tiles without a logit have no term: their total is 0, and here it is 1.",
        _but(lambda top, total: (top, torch.where(top == -math.inf, 1.0, total))),
    ),
    "only_if_all_are_empty": (
        "-inf is taken care of only where all rows have it. One row may be empty beside others "
        "that are not, and gives NaN.",
        lambda a, b: _merge(a, b, _scale_of_all, torch.maximum),
    ),
    "replaced_if_either_is_empty": (
        "Where one tile has no logit, the total counts in units of 1, as where the top is "
        "replaced in both differences. The other tile has its top, and counts in units of it.",
        lambda a, b: _merge(a, b, _scale, torch.maximum) if _none_empty(a, b) else _unscaled(a, b),
    ),
    "lost_beside_an_empty_tile": (
        "Where one tile has no logit, the total is 0. Only that of two such tiles is: the other "
        "tile's total stays as it is.",
        lambda a, b: _but(
            lambda top, total: (
                top,
                torch.where(torch.minimum(a[0], b[0]) == -math.inf, 0.0, total),
            )
        )(a, b),
    ),
    "through_the_logarithm": (
        "The log-sum-exp was taken, and the top subtracted again. Beside a large top float32 "
        "keeps few digits behind the point, two beside 30,000: a scale of each total loses none.",
        lambda a, b: _but(
            lambda top, total: (
                top,
                (top + total.log() - torch.where(top == -math.inf, 0.0, top)).exp(),
            )
        )(a, b),
    ),
}
for _key, (_sentence, _function) in _MORE.items():
    running_lse.wrong(_key, _sentence, running_lse=_function)


@running_lse.wrong(
    "by_unscaled_exp",
    "This leaves the units altogether: exp(top) of a logit above 88.72 is inf in float32. Only "
    "differences of tops may go into exp.",
)
def _(a: State, b: State) -> State:
    top = torch.maximum(a[0], b[0])
    return top, (a[1] * a[0].exp() + b[1] * b[0].exp()) / torch.where(top.isinf(), 1.0, top.exp())


@running_lse.wrong(
    "by_sums_of_logs",
    "The totals are multiplied, as where two log-sum-exps are added. The sum is inside the "
    "logarithm: log(A + B), not log A + log B.",
)
def _(a: State, b: State) -> State:
    return torch.maximum(a[0], b[0]), a[1] * b[1]


@running_lse.cost
def _(student: Student, draw: Draw) -> str:
    return "2 numbers a row instead of V: a row of 600 logits never has to be in one place"
