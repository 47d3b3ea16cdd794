"""Cross-entropy of logits that are spread over ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import explaining
from autograder.judge import (
    Draw,
    Student,
    Wrong,
    describe,
    expect_close,
    expect_kind,
    expect_tuple,
    within,
)
from autograder.judge.relations import FACTORS, between_tensors

from . import lab
from .numbers import as_scalar

Answer = tuple[Tensor, Tensor]
NO_TOP = (
    "The exponentials were added up without taking the maximum away: over 88.72 they are inf in "
    "float32."
)
ONE_TOP = (
    "The exponentials of a row are all 0 in float32, and the log of their sum is -inf, as where "
    "what is taken away lies far above that row's own maximum. That maximum is what to send and to "
    "take away."
)

NOT_FINITE_SUMS = (
    "What the ranks added up is not finite. exp of a number over 88.72 is inf in float32: take the "
    "row's maximum away first. And who does not hold a target adds 0, not -inf."
)
NOT_PICKED = (
    "Over all ranks the sums of exp(z - top) are right, and what was added up beside them is not "
    "the logit of each row's target: the rank with first <= target < first + Vr adds it, the "
    "others add 0."
)
NOT_ADDED = (
    "Over all ranks the logits of the targets are right, and the numbers beside them are not the "
    "sums of exp(z - top), with the top that every rank received."
)
EXPONENTIAL_PICKED = (
    "Beside the sums of exp(z - top) the exponentials of the targets were added up. One is 0 in "
    "float32 where the target's logit lies over 104 below the top, and its log is -inf: add up the "
    "logit itself."
)
NOT_OF_THE_SUMS = (
    "What the ranks added up is finite, and this is not. Look for the logarithm of a number that "
    "is not above 0, a division by 0, or exp of a large number."
)
A_ROW_EACH = (
    "All ranks have the same rows, however many words or targets each of them holds: what they "
    "send has the same shape and dtype on each, a number or two for each row."
)
ONE_TENSOR = "One tensor is sent. Stack the numbers in it."
OWN_COLUMNS = (
    "dz has as many numbers as the z that came with it, (N, Vr). Ranks may hold different numbers "
    "of words."
)
NOT_AVERAGED = "dz is N times too large: the loss is the mean over the rows."
OWN_COUNT = (
    "dz is N / H times too large, where H is the number of targets that this rank holds. Divide by "
    "all N rows."
)
OWN_WORDS = (
    "Only the words of this rank are in this loss. Each rank returns the mean over all N words: "
    "`sums` holds what that takes of all ranks."
)
ZERO_ROWS = (
    "dz is 0 in the rows whose target is the word of another rank. Each word takes part in the "
    "softmax of each row: there all columns are softmax / N."
)
SUMMED = "The loss is N times too large: it is the mean over the rows."
BOTH = "Two are asked for: the loss, and then this rank's columns of dz."
BELOW_FIRST = (
    "target - first is negative where the target is the word of a lower rank. A word is this "
    "rank's from first on, not below."
)
_RAISED = {
    "RuntimeError: index -": BELOW_FIRST,
    "IndexError: index -": BELOW_FIRST,
    "RuntimeError: index": "The target of a row may be the word of another rank: target - first is "
    "no column of this one then.",
    "IndexError: index": "The target of a row may be the word of another rank: target - first is "
    "no column of this one then.",
    "RuntimeError: The size of tensor": "Of z (N, Vr), a number for each row meets the rows only "
    "as (N, 1): top[:, None].",
    "RuntimeError: stack expects": "The sums are two for each row. Add up over the columns: dim=1.",
    "ValueError: too many values": "Two numbers for each row are added up over ranks: the sum of "
    "exponentials, and the logit of the target.",
}


@lab.question(
    "vocab_loss",
    points=5,
    minutes=14,
    difficulty=4,
    hints=(
        "log-sum-exp over all columns is top + log(sum of exp(z - top)), for any top. What does a "
        "rank need from the others, and who knows the logit of the target?",
        "vocab_top: each row's maximum. vocab_sums: each row's sum of exp(z - top), and z at the "
        "target where first <= target < first + Vr, else 0. vocab_loss: lse = top + log(sum), the "
        "mean of lse - picked, and dz = (exp(z - lse) - one-hot) / N.",
        "mine = (target >= first) & (target < first + z.shape[1]); dz[mine, target[mine] - first] "
        "-= 1",
    ),
)
def vocab_loss(student: Student, draw: Draw) -> None:
    """The mean cross-entropy of logits that are spread over ranks by columns, and its gradient.

    vocab_top(z) -> at most N numbers, of which the ranks take the maximum; vocab_sums(z, target,
    first, top) -> at most 2 N numbers, which they add up; vocab_loss(z, target, first, top, sums)
    -> (the loss, this rank's columns of dz). z (N, Vr), target (N,), first: the number of z's first
    column.
    """
    cases = [(3, 1.0, 0.0), (2, 150.0, 0.0), (1, 1.0, 0.0), (4, 1.0, -300.0)]
    cases += [(draw.integer(2, 5), 3.0, 0.0) for _ in draw.cases(1)]
    for world, scale, shift in cases:
        n, v = draw.integer(world + 1, 7), draw.integer(10, 23)
        v = draw.choice((10, 13)) if world == 4 else v  # the last rank has one column
        z, target = draw.tensor(n, v) * scale + shift, _targets(draw, n, v, world)
        z[0] -= 4 * scale if scale > 100 else 0.0  # no maximum is good for all rows
        with explaining(_RAISED):
            _expect_loss(student, z, target, world, tolerance=1e-5 * max(1.0, (scale - shift) / 10))
    wide = draw.tensor(24, 2 * draw.integer(5, 9)).T  # parts whose rows lie far apart, as z.chunk's
    edges = torch.arange(24).chunk(3)
    target = torch.tensor([[int(one[0]), int(one[-1])] for one in edges]).flatten()
    more = [(wide[: len(target)], target, 3), (torch.zeros(1, 2), torch.tensor([1]), 2)]
    for z, target, world in more:
        with explaining(_RAISED):
            _expect_loss(student, z, target, world, tolerance=1e-5)


def _targets(draw: Draw, n: int, v: int, world: int) -> Tensor:
    """Words of all ranks, at least one of each and two of rank 0: N is not N over its number."""
    target = draw.integers(n, low=0, high=v - 1)
    for row, words in enumerate(torch.arange(v).chunk(world)):
        target[row] = words[draw.integer(0, len(words) - 1)]
    target[world] = draw.integer(0, -(-v // world) - 1)
    return target


def _expect_loss(
    student: Student, z: Tensor, target: Tensor, world: int, *, tolerance: float
) -> None:
    parts = [p.contiguous() if z.is_contiguous() else p for p in z.chunk(world, 1)]
    firsts = [world_first(parts, rank) for rank in range(len(parts))]
    tops = [_few(student.call("vocab_top", part), len(z), "vocab_top") for part in parts]
    top = torch.stack(_alike(tops, "vocab_top")).amax(dim=0)
    sums = [
        _few(student.call("vocab_sums", part, target, first, top), 2 * len(z), "vocab_sums")
        for part, first in zip(parts, firsts, strict=True)
    ]
    total = torch.stack(_alike(sums, "vocab_sums")).sum(dim=0)
    loss, dz = torchs_loss(z, target)
    for part, first, want in zip(parts, firsts, dz.chunk(world, 1), strict=True):
        got = student.call("vocab_loss", part, target, first, top, total)
        why = BOTH if got is not None else ""
        mine, columns = expect_tuple(got, 2, "(the loss, dz)", where="from vocab_loss", why=why)
        held = is_mine(part, target, first)
        of_loss = partial(_of_the_loss, sums=total, z=z, target=target, top=top, held=held)
        _expect("the loss", as_scalar(mine), loss, _at_least(1.0, loss, tolerance), of_loss)
        share = _at_least(1.0 / len(z), want, tolerance)
        allowed = share * float(want.abs().max())
        of_dz = partial(_of_dz, sums=total, target=target - first, allowed=allowed)
        _expect(f"dz from column {first} on", columns, want.contiguous(), share, of_dz)


def _at_least(size: float, want: Tensor, tolerance: float) -> float:
    """`tolerance` of `size`, where the largest wanted value is smaller, as a share of that value:
    what is left of two numbers near `size` is their rounding."""
    largest = max(float(want.abs().max()), torch.finfo(want.dtype).tiny)
    return tolerance * max(1.0, size / largest)


def world_first(parts: Sequence[Tensor], rank: int) -> int:
    """The number of the first column of `rank`."""
    return sum(part.shape[1] for part in parts[:rank])


def torchs_loss(z: Tensor, target: Tensor) -> Answer:
    """The loss and its gradient on one rank, in float64."""
    wide = z.double().requires_grad_()
    loss = F.cross_entropy(wide, target)
    (dz,) = torch.autograd.grad(loss, wide)
    return loss.detach().float(), dz.float()


def _few(got: Any, most: int, function: str) -> Tensor:
    """`got`, if it is a tensor of at most so many numbers."""
    if isinstance(got, (list, tuple)):
        expected, where = "a tensor", f"from {function}"
        raise Wrong(expected=expected, got=describe(got), where=where, why=ONE_TENSOR)
    sent: Tensor = expect_kind(got, Tensor, "a tensor", where=f"from {function}")
    if sent.is_complex():
        raise Wrong(expected="real numbers", got=describe(got), where=f"from {function}")
    if sent.numel() > most:
        raise Wrong(
            expected=f"at most {most} numbers to send",
            got=f"{sent.numel()} numbers, {describe(got)}",
            where=f"from {function}",
            why="This sends as much as the logits themselves, or more than is needed: one number a "
            "row for the maximum, two for the sums.",
        )
    return sent.detach()


def _alike(tensors: list[Tensor], function: str) -> list[Tensor]:
    if len({(t.shape, t.dtype) for t in tensors}) > 1:
        raise Wrong(
            expected="the same shape and dtype from every rank",
            got="; ".join(describe(t) for t in tensors),
            where=f"from {function}",
            why=A_ROW_EACH,
        )
    return tensors


def _expect(
    name: str, got: Any, want: Tensor, tolerance: float, why: Callable[[Any, Tensor], str]
) -> None:
    with within(f"in {name}", why=lambda: why(got, want)):
        expect_close(got, want, tolerance=tolerance)


def _of_the_loss(
    got: Any, want: Tensor, *, sums: Tensor, z: Tensor, target: Tensor, top: Tensor, held: Tensor
) -> str:
    """What is wrong in the loss; "" where the verdict has a better word. sums, z, top: over all
    ranks. held: the rows whose target this rank has."""
    if not isinstance(got, Tensor) or not got.is_floating_point():
        return ""
    if not bool(got.isfinite().all()):
        shares = _is_exponential_picked(sums, z, target, top)
        return EXPONENTIAL_PICKED if shares else _of_infinity(got, sums)
    if got.dim():
        return "The loss is one number, the mean of all words, and the first of the two."
    factor = float(got / want) if float(want) else 0.0
    if len(z) > 1 and math.isclose(factor, len(z), rel_tol=1e-4):
        return SUMMED
    if _is_of_own_words(got, z, target, held):
        return OWN_WORDS
    if any(math.isclose(factor, known, rel_tol=1e-4) for known in FACTORS):
        return ""
    return _of_the_sums(sums, z, target, top) or (
        "The loss of a word is top + log(sum of exp(z - top)) minus the logit of its target, both "
        "sums over all ranks. It is the mean of that."
    )


def _is_of_own_words(got: Tensor, z: Tensor, target: Tensor, held: Tensor) -> bool:
    """Whether it is the sum over the rank's own words, by their number or by N."""
    own = int(held.sum())
    if not 0 < own < len(z):
        return False
    total = float(F.cross_entropy(z[held].double(), target[held], reduction="sum"))
    return any(math.isclose(float(got), total / n, rel_tol=1e-4) for n in (own, len(z)))


def _of_the_sums(sums: Tensor, z: Tensor, target: Tensor, top: Tensor) -> str:
    """Which of the two sums of each row is wrong, where the other is right; "" where none is."""
    if sums.numel() != 2 * len(z) or top.numel() != len(z):
        return ""
    top = top.flatten()
    exponentials = (z - top[:, None]).exp().sum(dim=1)
    picked = z.gather(1, target[:, None])[:, 0]
    for one, other in _both_ways(sums.to(z.dtype)):
        added = torch.allclose(one, exponentials, rtol=1e-3)
        found = any(torch.allclose(other, p, rtol=1e-3, atol=1e-3) for p in (picked, picked - top))
        if added != found:
            return NOT_PICKED if added else NOT_ADDED
    return ""


def _is_exponential_picked(sums: Tensor, z: Tensor, target: Tensor, top: Tensor) -> bool:
    """Whether the exponential of each target was added up, beside the right sums."""
    if sums.numel() != 2 * len(z) or top.numel() != len(z):
        return False
    each = (z - top.flatten()[:, None]).exp()
    total, picked = each.sum(dim=1), each.gather(1, target[:, None])[:, 0]
    return any(
        torch.allclose(one, total, rtol=1e-3) and torch.allclose(other, picked, rtol=1e-3)
        for one, other in _both_ways(sums.to(z.dtype))
    )


def _both_ways(sums: Tensor) -> list[Tensor]:
    """(2, N) each: two numbers for each row, in whatever order they are sent."""
    return [t for two in (sums.reshape(2, -1), sums.reshape(-1, 2).T) for t in (two, two.flip(0))]


def _of_dz(got: Any, want: Tensor, *, sums: Tensor, target: Tensor, allowed: float) -> str:
    """Whether dz is wrong at the targets or beside them; "" where the verdict has a better word.
    sums: over all ranks. target: as columns of this rank, where it has them."""
    if isinstance(got, Tensor) and not bool(got.isfinite().all()):
        return _of_infinity(got, sums)
    if isinstance(got, Tensor) and got.numel() != want.numel():
        return OWN_COLUMNS
    if not isinstance(got, Tensor) or (got.shape, got.dtype) != (want.shape, want.dtype):
        return ""
    n = len(target)
    if n > 1 and torch.allclose(got, n * want, rtol=0.0, atol=n * allowed):
        return NOT_AVERAGED
    held = int(((target >= 0) & (target < want.shape[1])).sum())
    if 0 < held < n and torch.allclose(got, n / held * want, rtol=0.0, atol=n * allowed):
        return OWN_COUNT
    here = torch.arange(want.shape[1]) == target[:, None]
    mine = here.any(dim=1)
    if held < n and torch.allclose(got, want * mine[:, None], rtol=0.0, atol=allowed):
        return ZERO_ROWS
    if between_tensors(got, want, allowed):
        return ""
    wrong = ~((got - want).abs() <= allowed)
    if not bool((wrong & ~here).any()):
        return "dz is wrong at the targets alone: there it is (softmax - 1) / N."
    taken_away = torch.allclose((got - want)[wrong], torch.tensor(-1 / n), atol=allowed)
    if not bool((wrong & here).any()) and taken_away:
        return (
            "1 was taken away where no target is. Where the target is the word of another rank, "
            "all columns of the row are softmax / N."
        )
    return (
        "dz is softmax / N, and at the target (softmax - 1) / N: the softmax over the words of all "
        "ranks, the mean over N rows."
    )


def _of_infinity(got: Tensor, sums: Tensor) -> str:
    """A sentence for numbers beyond float32: of a sum that is inf, or of one that is 0, or of what
    was made of sums that are neither."""
    if not bool(sums.isfinite().all()):
        return NOT_FINITE_SUMS
    return ONE_TOP if bool((got == -math.inf).all() and (sums == 0).any()) else NOT_OF_THE_SUMS


def right_top(z: Tensor) -> Tensor:
    """(N, Vr) -> (N,)."""
    return z.amax(dim=1)


def is_mine(z: Tensor, target: Tensor, first: int) -> Tensor:
    """(N,): whether the target is one of this rank's columns."""
    return (target >= first) & (target < first + z.shape[1])


def right_sums(z: Tensor, target: Tensor, first: int, top: Tensor) -> Tensor:
    """-> (2, N): the sum of exponentials, and the logit of the target where it is here."""
    mine = is_mine(z, target, first)
    at = torch.where(mine, target - first, 0)
    picked = torch.where(mine, z[torch.arange(len(z)), at], 0.0)
    return torch.stack([(z - top[:, None]).exp().sum(dim=1), picked])


def right_loss(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    """-> the loss, and the columns of dz."""
    lse = top + sums[0].log()
    dz = (z - lse[:, None]).exp()
    mine = is_mine(z, target, first)
    dz[mine, target[mine] - first] -= 1.0
    return (lse - sums[1]).mean(), dz / len(z)


vocab_loss.otherwise(vocab_top=right_top, vocab_sums=right_sums, vocab_loss=right_loss)
vocab_loss.wrong(
    "logits_sent",
    "All logits were sent. Each row needs one number from each rank for the maximum, then two for "
    "the sums.",
    vocab_top=lambda z: z,
)
vocab_loss.wrong("one_top", ONE_TOP, vocab_top=lambda z: z.max().expand(len(z)).contiguous())
vocab_loss.wrong(
    "own_top",
    "Each rank subtracted its own maximum, not the common one: exponentials relative to different "
    "tops do not add up.",
    vocab_sums=lambda z, target, first, top: right_sums(z, target, first, z.amax(dim=1)),
)
vocab_loss.wrong(
    "no_top",
    NO_TOP,
    vocab_sums=lambda z, target, first, top: right_sums(z, target, first, torch.zeros_like(top)),
    vocab_loss=lambda z, target, first, top, sums: right_loss(
        z, target, first, torch.zeros_like(top), sums
    ),
)


def _picked_everywhere(z: Tensor, target: Tensor, first: int, top: Tensor) -> Tensor:
    at = (target - first).clamp(0, z.shape[1] - 1)
    picked = z[torch.arange(len(z)), at]
    return torch.stack([(z - top[:, None]).exp().sum(dim=1), picked])


def _not_shifted(z: Tensor, target: Tensor, first: int, top: Tensor) -> Tensor:
    return right_sums(z, target, 0, top)


def _hit_not_shifted(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    return right_loss(z, target, 0, top, sums)


vocab_loss.wrong(
    "picked_everywhere",
    "Every rank added a logit for every row, also where the target is another rank's word. Who "
    "does not hold the target adds 0.",
    vocab_sums=_picked_everywhere,
)


def _from_the_end(z: Tensor, target: Tensor, first: int, top: Tensor) -> Tensor:
    """Negative columns count from the end, as far as there are any."""
    at = target - first
    mine = (at < z.shape[1]) & (at >= -z.shape[1])
    picked = torch.where(mine, z[torch.arange(len(z)), torch.where(mine, at, 0)], 0.0)
    return torch.stack([(z - top[:, None]).exp().sum(dim=1), picked])


def _clamped(z: Tensor, target: Tensor, first: int, top: Tensor) -> Tensor:
    at = (target - first).clamp(min=-z.shape[1])
    mine = at < z.shape[1]
    picked = torch.where(mine, z[torch.arange(len(z)), torch.where(mine, at, 0)], 0.0)
    return torch.stack([(z - top[:, None]).exp().sum(dim=1), picked])


NEGATIVE = (
    "For the word of a lower rank a logit was added as well: target - first is negative there, "
    "and a negative index counts from the end. A word is this rank's from first on, not below."
)
vocab_loss.wrong("negative_column", NEGATIVE, vocab_sums=_from_the_end)
vocab_loss.wrong("negative_column_clamped", NEGATIVE, vocab_sums=_clamped)
vocab_loss.wrong(
    "first_ignored",
    "The target was used as a column of this rank. It is a number of all V words: column target - "
    "first here, if that is one of the Vr.",
    vocab_sums=_not_shifted,
    vocab_loss=_hit_not_shifted,
)
vocab_loss.wrong(
    "first_ignored_in_backward",
    "The loss is right; in dz the 1 stands at column target, not at target - first.",
    vocab_loss=_hit_not_shifted,
)


def _own_softmax(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    loss, _ = right_loss(z, target, first, top, sums)
    dz = z.softmax(dim=1)
    mine = is_mine(z, target, first)
    dz[mine, target[mine] - first] -= 1.0
    return loss, dz / len(z)


def _target_forgotten(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    loss, _ = right_loss(z, target, first, top, sums)
    return loss, (z - top[:, None]).exp() / sums[0][:, None] / len(z)


def _not_averaged(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    loss, dz = right_loss(z, target, first, top, sums)
    return loss, dz * len(z)


def _own_count(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    loss, dz = right_loss(z, target, first, top, sums)
    return loss, dz * len(z) / is_mine(z, target, first).sum()


def _summed(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    loss, dz = right_loss(z, target, first, top, sums)
    return loss * len(z), dz


def _top_forgotten(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    loss, dz = right_loss(z, target, first, top, sums)
    return loss - top.mean(), dz


def _not_exchanged(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    return right_loss(z, target, first, top, right_sums(z, target, first, top))


vocab_loss.wrong(
    "own_softmax",
    "dz uses the softmax of this rank's columns alone, which sum to 1 on every rank. Divide by "
    "the sum over all ranks.",
    vocab_loss=_own_softmax,
)
vocab_loss.wrong(
    "target_forgotten",
    "The 1 at the target is missing in dz: softmax minus one-hot, on the rank that holds the word.",
    vocab_loss=_target_forgotten,
)


def _all_rows_hit(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    loss, _ = right_loss(z, target, first, top, sums)
    dz = (z - top[:, None]).exp() / sums[0][:, None]
    dz[:, target[is_mine(z, target, first)] - first] -= 1.0
    return loss, dz / len(z)


vocab_loss.wrong(
    "all_rows_hit",
    "In every row a 1 is taken away at the targets of all rows, as by dz[:, columns], which is "
    "all rows. Row n has one target: dz[rows, columns], with as many rows as columns.",
    vocab_loss=_all_rows_hit,
)
vocab_loss.wrong(
    "not_averaged",
    NOT_AVERAGED,
    vocab_loss=_not_averaged,
)
vocab_loss.wrong("own_count", OWN_COUNT, vocab_loss=_own_count)
vocab_loss.wrong("summed", SUMMED, vocab_loss=_summed)
vocab_loss.wrong(
    "top_forgotten",
    "The log-sum-exp lacks the maximum that was taken away: lse = top + log(sum).",
    vocab_loss=_top_forgotten,
)


def _shifted_everywhere(z: Tensor, target: Tensor, first: int, top: Tensor) -> Tensor:
    total, picked = right_sums(z, target, first, top)
    return torch.stack([total, picked - top])


vocab_loss.wrong(
    "top_taken_away_everywhere",
    "The top was taken away once for each rank: who does not hold the target adds 0, not 0 - top.",
    vocab_sums=_shifted_everywhere,
    vocab_loss=_top_forgotten,
)
vocab_loss.wrong(
    "sums_not_used",
    "The loss and dz are made of this rank's columns alone. `sums` holds what all ranks added up: "
    "use it.",
    vocab_loss=_not_exchanged,
)


def _picked(z: Tensor, target: Tensor, first: int, top: Tensor, *, low: int, high: int) -> Tensor:
    """The target's logit where it lies between these columns; at the nearest one, else 0."""
    at = target - first
    mine = (at >= low) & (at < high)
    picked = torch.where(mine, z[torch.arange(len(z)), at.clamp(0, z.shape[1] - 1)], 0.0)
    return torch.stack([(z - top[:, None]).exp().sum(dim=1), picked])


vocab_loss.wrong(
    "words_below_picked",
    "A logit was added where the target lies below `first`: that word is a lower rank's.",
    vocab_sums=lambda z, target, first, top: _picked(
        z, target, first, top, low=-(10**6), high=z.shape[1]
    ),
)
vocab_loss.wrong(
    "words_above_picked",
    "A logit was added where the target lies above this rank's last column: that word is a higher "
    "rank's.",
    vocab_sums=lambda z, target, first, top: _picked(z, target, first, top, low=0, high=10**6),
)
vocab_loss.wrong(
    "one_column_too_many",
    "Column first + Vr belongs to the next rank. This rank's words are first <= target < first + "
    "Vr.",
    vocab_sums=lambda z, target, first, top: _picked(
        z, target, first, top, low=0, high=z.shape[1] + 1
    ),
)


def _far_below(z: Tensor, target: Tensor, first: int, top: Tensor) -> Tensor:
    total, picked = right_sums(z, target, first, top)
    return torch.stack([total, torch.where(is_mine(z, target, first), picked, -1e9)])


vocab_loss.wrong(
    "absent_far_below",
    "Who does not hold the target added a very low number. These are summed, not maximised: who "
    "does not hold it adds 0.",
    vocab_sums=_far_below,
)


def _exponential_picked(z: Tensor, target: Tensor, first: int, top: Tensor) -> Tensor:
    total, picked = right_sums(z, target, first, top)
    return torch.stack([total, torch.where(is_mine(z, target, first), (picked - top).exp(), 0.0)])


def _log_of_a_share(z: Tensor, target: Tensor, first: int, top: Tensor, sums: Tensor) -> Answer:
    _, dz = right_loss(z, target, first, top, sums)
    return -(sums[1] / sums[0]).log().mean(), dz


vocab_loss.wrong(
    "exponential_picked",
    EXPONENTIAL_PICKED,
    vocab_sums=_exponential_picked,
    vocab_loss=_log_of_a_share,
)
vocab_loss.wrong(
    "averaged_over_columns_too",
    "dz is Vr times too small, as where it is divided by the columns as well. The loss is the "
    "mean over rows: divide by N.",
    vocab_loss=lambda z, target, first, top, sums: (
        (answer := right_loss(z, target, first, top, sums))[0],
        answer[1] / z.shape[1],
    ),
)
vocab_loss.wrong(
    "one_number_for_the_top",
    "vocab_top returned one number. A row far below it has exponentials that are all 0: send the "
    "maximum of each row.",
    vocab_top=lambda z: z.max(),
)


@vocab_loss.cost
def _(student: Student, draw: Draw) -> str:
    z, target = draw.tensor(32, 150), draw.integers(32, low=0, high=599)
    top = student.call("vocab_top", z)
    sums = student.call("vocab_sums", z, target, 0, top)
    ring = 2 * 3 * (top.nbytes + sums.nbytes) // 4
    return (
        f"600 words on 4 ranks, 32 rows: {ring:,} bytes per rank and step, where joining the "
        f"logits would take {3 * z.nbytes:,}"
    )
