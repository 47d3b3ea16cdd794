"""The detective case: the mean of all words is no mean of the ranks' means."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.judge import Draw, Student, expect_close, is_close, within
from autograder.judge.relations import between_tensors

from . import lab
from .admission import room_for
from .trace_events import Fault, Trace, answers_and_deeds, asked_of_ranks, sent

Given = tuple[Tensor, Tensor, Tensor]  # w (V, D), x (N, D), target (N,)
TOLERANCE = 2e-5


@lab.question(
    "every_word",
    points=3,
    minutes=8,
    difficulty=3,
    hints=(
        "Rank 0 has three words and rank 1 has one. How much does each word weigh in the mean of "
        "the two means?",
        "Let each rank take the sum over its words, and all-reduce two things: that sum's "
        "gradient, and the number of words. A rank with padding alone has a sum of 0, and no mean.",
        'loss = F.cross_entropy(..., ignore_index=-100, reduction="sum"); return dw / words',
    ),
    budget_s=40.0,
    loopback=True,
    host="Its ranks are forks that talk over gloo, on the CPU.",
)
def every_word(student: Student, draw: Draw) -> None:
    """Detective case: the gradient of the mean loss over the words of all ranks, the same however
    the words are spread, where a target of -100 is padding. The code as found weighs ranks, not
    words.

    per_rank[r]: (w (V, D), x (N, D), target (N,)) of rank r -> for each rank dw (V, D), and what it
    did.
    """
    with room_for(student, "every_word") as room:
        some = [draw.integer(0, 4) for _ in range(3)] + [1]
        # In the first case rows differ, and all that a sum may be divided by, each rank's number
        # of words and the number of those other than word 0 too: one is told from the other there.
        for counts, uneven in (([4, 3], 3), ([2, 0, 301], 0), (some, 0), ([5, 2], 3), ([2], 0)):
            ranks = _drawn(draw, counts, uneven)
            ranks[0][1][ranks[0][2] != -100] *= torch.arange(counts[0])[:, None]  # a word of zeros
            got = asked_of_ranks(room, "every_word", ranks, hung=HUNG)
            answers, _ = answers_and_deeds(got, len(ranks))
            _expect_gradient(answers, ranks, f"words per rank {counts},")


def _expect_gradient(answers: Sequence[Any], ranks: Sequence[Given], place: str) -> None:
    want = gradient(ranks)
    for rank, got in enumerate(answers):
        with within(f"on rank {rank}, {place}", why=lambda: _known(answers, ranks)):
            expect_close(got, want, tolerance=TOLERANCE)


def _drawn(draw: Draw, counts: Sequence[int], uneven: int = 0) -> list[Given]:
    """counts[r]: words of rank r, of which the first alone is word 0: an answer that leaves it out
    does not divide by 1 in the first case. uneven: how many rows a rank has more than the one
    before it. With 301 words the number in bfloat16, or in int8, is another one."""
    d, v = draw.integer(3, 5), draw.integer(5, 9)
    w, ranks = draw.tensor(v, d), []
    for rank, count in enumerate(counts):
        n = max(count, 5 + uneven * rank)
        target, places = draw.integers(n, low=1, high=v - 1), draw.shuffled(range(n))
        target[places[:1]] = 0
        target[torch.tensor(places[count:], dtype=torch.int64)] = -100
        ranks.append((w, draw.tensor(n, d), target))
    return ranks


def _summed(ranks: Sequence[Given]) -> list[Tensor]:
    """Each rank's gradient of the sum over its words, float64."""
    found = []
    for weight, x, target in ranks:
        w = weight.double().requires_grad_()
        loss = F.cross_entropy(x.double() @ w.T, target, ignore_index=-100, reduction="sum")
        found.append(torch.autograd.grad(loss, w)[0])
    return found


def _words(ranks: Sequence[Given]) -> list[int]:
    return [int((target != -100).sum()) for _, _, target in ranks]


def gradient(ranks: Sequence[Given]) -> Tensor:
    """Of the mean over all words."""
    total: Tensor = torch.stack(_summed(ranks)).sum(dim=0) / sum(_words(ranks))
    return total.float()


def _means(ranks: Sequence[Given], *, of_none: float = 0.0) -> list[Tensor]:
    """Each rank's gradient of its own mean. of_none: what stands where it has no word; torch's
    gradient of that mean, which is NaN, is 0."""
    each = zip(_summed(ranks), _words(ranks), strict=True)
    return [dw / n if n else torch.full_like(dw, of_none) for dw, n in each]


def _everywhere(dw: Tensor, ranks: Sequence[Given]) -> list[Tensor]:
    return [dw.float()] * len(ranks)


def _mean_of_means(ranks: Sequence[Given]) -> list[Tensor]:
    return _everywhere(torch.stack(_means(ranks)).mean(dim=0), ranks)


def _weighted(ranks: Sequence[Given]) -> list[Tensor]:
    weights = torch.tensor(_words(ranks), dtype=torch.float64)
    means = torch.stack(_means(ranks, of_none=math.nan))
    total = (means * weights[:, None, None]).sum(dim=0)
    return _everywhere(total / weights.sum(), ranks)


def _weighted_by_rows(ranks: Sequence[Given]) -> list[Tensor]:
    rows = torch.tensor([len(target) for _, _, target in ranks], dtype=torch.float64)
    total = (torch.stack(_means(ranks)) * rows[:, None, None]).sum(dim=0)
    return _everywhere(total / rows.sum(), ranks)


def _by_rows(ranks: Sequence[Given]) -> list[Tensor]:
    rows = sum(len(target) for _, _, target in ranks)
    return _everywhere(torch.stack(_summed(ranks)).sum(dim=0) / rows, ranks)


def _by_ranks(ranks: Sequence[Given]) -> list[Tensor]:
    return _everywhere(torch.stack(_summed(ranks)).mean(dim=0), ranks)


def _by_words_per_rank(ranks: Sequence[Given]) -> list[Tensor]:
    whole = sum(_words(ranks)) // len(ranks) * len(ranks)
    return _everywhere(torch.stack(_summed(ranks)).sum(dim=0) / whole, ranks)


def _by_words_above_0(ranks: Sequence[Given]) -> list[Tensor]:
    words = sum(int((target > 0).sum()) for _, _, target in ranks)
    return _everywhere(torch.stack(_summed(ranks)).sum(dim=0) / words, ranks)


def _one_at_least(ranks: Sequence[Given]) -> list[Tensor]:
    words = sum(max(1, n) for n in _words(ranks))
    return _everywhere(torch.stack(_summed(ranks)).sum(dim=0) / words, ranks)


def _twice_averaged(ranks: Sequence[Given]) -> list[Tensor]:
    return _everywhere(gradient(ranks) / len(ranks), ranks)


def _by_own_words(ranks: Sequence[Given]) -> list[Tensor]:
    total = torch.stack(_summed(ranks)).sum(dim=0)
    return [(total / torch.tensor(float(n))).float() for n in _words(ranks)]


def _as_many_everywhere(ranks: Sequence[Given]) -> list[Tensor]:
    return [dw / len(ranks) for dw in _by_own_words(ranks)]


def _alone(ranks: Sequence[Given]) -> list[Tensor]:
    return [dw.float() for dw in _means(ranks)]


def _only_summed(ranks: Sequence[Given]) -> list[Tensor]:
    return _everywhere(torch.stack(_summed(ranks)).sum(dim=0), ranks)


def _gradient_not_reduced(ranks: Sequence[Given]) -> list[Tensor]:
    return [(dw / sum(_words(ranks))).float() for dw in _summed(ranks)]


def _means_added(ranks: Sequence[Given]) -> list[Tensor]:
    return _everywhere(torch.stack(_means(ranks)).sum(dim=0), ranks)


def _means_divided(ranks: Sequence[Given]) -> list[Tensor]:
    return _everywhere(torch.stack(_means(ranks)).sum(dim=0) / sum(_words(ranks)), ranks)


def _stepped(ranks: Sequence[Given]) -> list[Tensor]:
    return [w - gradient(ranks) for w, _, _ in ranks]


HUNG = (
    "Some ranks were done and others were not, as where a rank goes without the collective that "
    "others wait in. One with padding alone takes part as all do: it gives a gradient and a "
    "number of 0."
)
FAULTS = (
    Fault(
        "mean_of_means",
        "This is the mean of the ranks' means: where a rank has one word and another three, the "
        "one weighs as much as the three. Add up over words, and divide once by all of them.",
        _mean_of_means,
    ),
    Fault(
        "means_weighted",
        "A rank with padding alone has no mean: 0 / 0 is NaN, and so is 0 times that. Take sums, "
        "and divide at the end.",
        _weighted,
    ),
    Fault(
        "means_weighted_by_rows",
        "Each rank's mean was weighted by its rows, and some of them are padding. A mean is of "
        "words: add up over words, and divide once by all of them.",
        _weighted_by_rows,
    ),
    Fault(
        "padding_counted",
        "The padding was counted: the sum was divided by all rows, not by the words among them.",
        _by_rows,
    ),
    Fault(
        "words_per_rank_rounded",
        "The sum over all words is divided by a multiple of W that is less than their number, as "
        "where the words per rank are rounded down. Divide by the number of words of all ranks.",
        _by_words_per_rank,
    ),
    Fault(
        "divided_by_ranks",
        "This is the sum over all words divided by as many as there are ranks. Divide it by the "
        "number of words of all ranks.",
        _by_ranks,
    ),
    Fault(
        "word_0_not_counted",
        "The sum over all words is divided by as many as there are words other than word 0. "
        "Padding is -100, and all else is a word: count word 0, too.",
        _by_words_above_0,
    ),
    Fault(
        "padding_alone_is_a_word",
        "The sum is divided by one too many for each rank with padding alone. Such a rank adds 0 "
        "to the number of words of all ranks.",
        _one_at_least,
    ),
    Fault(
        "averaged_twice",
        "The gradient is W times too small, as where it is divided by the number of ranks besides "
        "the number of words of all ranks.",
        _twice_averaged,
    ),
    Fault(
        "own_count",
        "Each rank divided by its own number of words. Divide by what an all-reduce of it leaves.",
        _by_own_words,
    ),
    Fault(
        "as_many_everywhere",
        "On each rank the sum is divided by W times that rank's own number of words. The others "
        "may have more or fewer: the number has to be all-reduced as well.",
        _as_many_everywhere,
    ),
    Fault(
        "missing_all_reduce",
        "Each rank has the gradient of its own mean, and nothing of other ranks' words is in it. "
        "All-reduce the gradient of the sum, and the number of words.",
        _alone,
    ),
    Fault(
        "not_divided",
        "This is the gradient of the sum over all words. Divide by their number.",
        _only_summed,
    ),
    Fault(
        "gradient_not_reduced",
        "Each rank has its own words' share, divided by the words of all ranks: what other ranks' "
        "words add is missing. All-reduce the gradient as well as the number of words.",
        _gradient_not_reduced,
    ),
    Fault(
        "means_added",
        "Each rank divided by its own number of words, and these means were added up. Add up the "
        "sums, and divide once by the words of all ranks.",
        _means_added,
    ),
    Fault(
        "means_divided",
        "Each rank's mean was divided by its own words already, and then by the words of all ranks "
        'as well. Take the sum of each rank: reduction="sum".',
        _means_divided,
    ),
    Fault(
        "stepped",
        "This is w after a step. The gradient is asked for.",
        _stepped,
    ),
)
ON_ONE_RANK = (
    "One rank alone holds the gradient of all words. Each is asked for it: dist.all_reduce leaves "
    "the sum on every rank, dist.reduce on one."
)
PADDING_ALONE = (
    "Right on the ranks that hold words. A rank with padding alone returned zeros: all ranks "
    "return the same dw."
)
SOME_RIGHT = "Right on some ranks, and not on others: all ranks return the same dw."
GRADIENT_ALONE = "Each rank returns one tensor, the gradient (V, D)."
NOT_ALL_WORDS = (
    "This is not the gradient of the mean over all words. Count each word once, wherever it is, a "
    "word of number 0 too, and no padding."
)


def _known(answers: Sequence[Any], ranks: Sequence[Given]) -> str:
    """The sentence of the fault that leads to these very gradients."""
    for fault in FAULTS:
        pairs = zip(answers, fault.answers(ranks), strict=True)
        if all(_same(got, faulty) for got, faulty in pairs):
            return fault.sentence
    is_nan = any(isinstance(got, Tensor) and bool(got.isnan().any()) for got in answers)
    if is_nan and 0 in _words(ranks):
        return FAULTS[1].sentence
    if not all(isinstance(got, Tensor) for got in answers):
        return GRADIENT_ALONE
    want = gradient(ranks)
    if any(got.shape != want.shape or got.dtype != want.dtype for got in answers):
        return ""
    right = [_same(got, want) for got in answers]
    if any(right):
        return _of_some(right, answers, ranks)
    allowed = TOLERANCE * float(want.abs().max())
    related = between_tensors(answers[0], want, allowed)
    return _of_the_divisor(answers, ranks) or ("" if related else NOT_ALL_WORDS)


def _of_the_divisor(answers: Sequence[Tensor], ranks: Sequence[Given]) -> str:
    """By which whole number the sum over all words is divided on all ranks; "" where by none."""
    want, words = gradient(ranks), sum(_words(ranks))
    share = float((answers[0] * want).sum() / (want * want).sum())
    by = words / share if share > 0 else 0.0
    if not 0.5 < by < 1e6 or abs(by - round(by)) > 1e-3 * by:
        return ""
    if not all(_same(got, want * words / round(by)) for got in answers):
        return ""
    return f"This is the sum over all words divided by {round(by)}, and there are {words} of them."


def _of_some(right: Sequence[bool], answers: Sequence[Tensor], ranks: Sequence[Given]) -> str:
    """Why only some of the ranks are right."""
    others = [got for got, is_right in zip(answers, right, strict=True) if not is_right]
    if right == [n > 0 for n in _words(ranks)] and not any(got.any() for got in others):
        return PADDING_ALONE
    return ON_ONE_RANK if sum(right) == 1 else SOME_RIGHT


def _same(got: Any, want: Tensor) -> bool:
    return bool(want.isfinite().all()) and is_close(got, want, tolerance=TOLERANCE)


def _told(fault: Fault) -> Callable[..., list[tuple[Tensor, Trace]]]:
    return lambda per_rank: [(dw, []) for dw in fault.answers(per_rank)]


for _fault in FAULTS:
    every_word.wrong(_fault.name, _fault.sentence, every_word=_told(_fault))


@every_word.cost
def _(student: Student, draw: Draw) -> str:
    ranks = _drawn(draw, [3, 1])
    with room_for(student, "every_word") as room:
        _, trace = answers_and_deeds(room.call("every_word", ranks), 2)
    calls = Counter(what for what, _ in sent(trace[0]))
    told = ", ".join(f"{n} {what}" for what, n in calls.items())
    nbytes = sum(n for _, n in sent(trace[0]))
    return f"{told}: {nbytes:,} bytes in all, where the gradient has {ranks[0][0].nbytes:,}"
