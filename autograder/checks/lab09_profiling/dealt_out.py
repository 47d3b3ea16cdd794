"""The repair of the loop with a late rank: who gets which sentences, and what each mean counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab
from .times import as_number

Shares = list[list[int]]
Deal = tuple[Shares, list[float]]
_FORM = "(list of sentences for each rank, list of factors)"
UNEVEN = "The rank with most tokens is the one that the others wait for, and it can have fewer."
TOKENS = (
    "Each rank takes the mean over its own tokens, and the all-reduce the mean over ranks. Where "
    "ranks have unequal numbers of tokens, a token of a small share counts for more. The factor "
    "takes that back."
)


@lab.question(
    "dealt_out",
    points=4,
    minutes=10,
    difficulty=3,
    hints=(
        "What does a rank's time follow: the number of its sentences, or of its tokens? And what "
        "is a mean of means, when the groups are not of one size?",
        "Take the sentences from the longest to the shortest, and give each to the rank that has "
        "fewest tokens so far. The factor of a rank makes its mean count as its tokens do.",
        "rank = min(range(ranks), key=lambda r: tokens[r]); "
        "factor = ranks * tokens[r] / sum(tokens)",
    ),
)
def dealt_out(student: Student, draw: Draw) -> None:
    """The sentences of a batch dealt out, so that no move of one sentence would leave the longest
    rank with less, and a factor for each rank's mean loss, with which the mean over ranks is the
    mean over all tokens.

    lengths (tokens of each sentence), ranks -> (numbers of the sentences of each rank, factors).
    """
    for ranks, at_the_end in ((2, True), (4, True), *((draw.integer(2, 5), False) for _ in "ab")):
        lengths = _drawn(draw, ranks, at_the_end=at_the_end)
        shares, factors = expect_tuple(student.call("dealt_out", lengths, ranks), 2, _FORM)
        dealt = _expect_each_once(shares, lengths, ranks)
        _expect_even(dealt, lengths)
        _expect_factors(factors, dealt, lengths)


def _drawn(draw: Draw, ranks: int, *, at_the_end: bool = False) -> list[int]:
    """Lengths of a batch: many short sentences, a long one for each rank, and one that is longer
    than all. Their sum is no multiple of `ranks`, so that shares are never all equal.

    at_the_end: the long ones come last, where dealing in order goes wrong for certain.
    """
    short = draw.shuffled([2, 2, *(draw.integer(3, 9) for _ in range(ranks * 5))])
    long = [*(draw.integer(20, 40) for _ in range(ranks)), draw.integer(81, 99)]
    lengths = [*short, *long] if at_the_end else draw.shuffled([*short, *long])
    if sum(lengths) % ranks == 0:
        lengths[lengths.index(2)] = 3
    return lengths


def _expect_each_once(shares: Any, lengths: Sequence[int], ranks: int) -> Shares:
    each = expect_tuple(shares, ranks, f"{ranks} lists of sentences", where="the shares")
    dealt = [list(expect_tuple(share, None, "numbers of sentences")) for share in each]
    flat = [as_number(number) for share in dealt for number in share]
    if any(type(number) is not int for number in flat) or sorted(flat) != [*range(len(lengths))]:
        raise Wrong(
            expected=f"each of the sentences 0 to {len(lengths) - 1} once",
            got=describe(sorted(flat, key=str)),
            where="the shares",
        )
    return [[int(as_number(number)) for number in share] for share in dealt]


def _tokens(dealt: Shares, lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[k] for k in share) for share in dealt]


def _expect_even(dealt: Shares, lengths: Sequence[int]) -> None:
    tokens = _tokens(dealt, lengths)
    most, least = tokens.index(max(tokens)), tokens.index(min(tokens))
    for k in dealt[most]:
        if tokens[least] + lengths[k] < tokens[most]:
            raise Wrong(
                expected="no sentence whose move would leave the longest rank with less",
                got=f"{tokens} tokens: sentence {k}, of {lengths[k]}, could move from rank {most} "
                f"to rank {least}",
                why=UNEVEN,
            )


def _expect_factors(factors: Any, dealt: Shares, lengths: Sequence[int]) -> None:
    each = expect_tuple(factors, len(dealt), f"{len(dealt)} factors", where="the factors")
    tokens = _tokens(dealt, lengths)
    for rank, (factor, mine) in enumerate(zip(each, tokens, strict=True)):
        want, got = len(dealt) * mine / sum(tokens), as_number(factor)
        if not isinstance(got, (int, float)) or not abs(got - want) <= 1e-6 * want:
            raise Wrong(
                expected=f"{want:.6g}", got=describe(factor), where=f"the factor of rank {rank}",
                why=TOKENS,
            )  # fmt: skip


def _greedy(
    lengths: Sequence[int],
    ranks: int,
    *,
    longest_first: bool = True,
    count: Callable[[int], int] = lambda length: length,
) -> Shares:
    order = sorted(range(len(lengths)), key=lambda k: -lengths[k])
    shares: Shares = [[] for _ in range(ranks)]
    has = [0] * ranks
    for k in order if longest_first else range(len(lengths)):
        rank = has.index(min(has))
        shares[rank].append(k)
        has[rank] += count(lengths[k])
    return shares


def _factors(shares: Shares, lengths: Sequence[int]) -> list[float]:
    tokens = _tokens(shares, lengths)
    return [len(shares) * mine / sum(tokens) for mine in tokens]


def _wrong(
    name: str,
    sentence: str,
    deal: Callable[[Sequence[int], int], Shares] = _greedy,
    factors: Callable[[Shares, Sequence[int]], list[float]] = _factors,
) -> None:
    def answer(lengths: Sequence[int], ranks: int) -> Deal:
        shares = deal(lengths, ranks)
        return shares, factors(shares, lengths)

    dealt_out.wrong(name, sentence, dealt_out=answer)


_wrong(
    "as_many_sentences",
    "Each rank has as many sentences as the others. What takes time is their tokens.",
    lambda lengths, ranks: _greedy(lengths, ranks, count=lambda length: 1),
)
_wrong(
    "in_order",
    "The sentences are dealt in the order of the batch, each to the rank with fewest tokens. A "
    "long one that comes last has nothing to be evened out with: the longest first.",
    lambda lengths, ranks: _greedy([*lengths], ranks, longest_first=False),
)
_wrong(
    "in_one_piece",
    "Each rank has one piece of the batch. How long its sentences are is left to chance.",
    lambda lengths, ranks: [
        [*range(r * len(lengths) // ranks, (r + 1) * len(lengths) // ranks)] for r in range(ranks)
    ],
)
_wrong("no_factors", TOKENS, factors=lambda shares, lengths: [1.0] * len(shares))
_wrong(
    "share_of_tokens",
    "These factors add up to 1. The all-reduce takes a mean, so it divides by the number of ranks "
    "once more.",
    factors=lambda shares, lengths: [f / len(shares) for f in _factors(shares, lengths)],
)
_wrong(
    "share_of_sentences",
    "The factors follow the number of sentences. A rank's mean is over its tokens.",
    factors=lambda shares, lengths: [len(shares) * len(share) / len(lengths) for share in shares],
)
_wrong(
    "upside_down",
    "These factors are upside down: a rank with more tokens counts for more, not for less.",
    factors=lambda shares, lengths: [1 / f for f in _factors(shares, lengths)],
)


@dealt_out.cost
def _(student: Student, draw: Draw) -> str:
    lengths = _drawn(draw, 4, at_the_end=True)
    shares, _ = student.call("dealt_out", lengths, 4)
    dealt = [[int(as_number(k)) for k in share] for share in shares]
    tokens = _tokens(dealt, lengths)
    pieces = [lengths[r * len(lengths) // 4 : (r + 1) * len(lengths) // 4] for r in range(4)]
    before = max(map(sum, pieces))
    return f"the longest rank has {before} tokens in pieces of the batch, {max(tokens)} dealt out"
