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
LISTS = "For each rank a list was asked for: the numbers of its sentences."
NO_NUMBER = "Something in the shares is no number of a sentence: they go from 0 on."
TWICE = "A sentence is dealt out twice. One list that stands in several places is one list."
LEFT_OVER = "A sentence is left over. Each has a rank, also where ranks do not divide their number."
UNEVEN = "The rank with most tokens is the one that the others wait for, and it can have fewer."
ALIKE = (
    "Each rank has as many sentences as the others, or one more. What takes time is their tokens: "
    "the rank with most of those can have fewer."
)
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
    asked: list[tuple[list[int], int]] = []
    for ranks, at_the_end in ((2, True), (4, True), *((draw.integer(2, 5), False) for _ in "ab")):
        asked.append((_drawn(draw, ranks, at_the_end=at_the_end), ranks))
    asked += [([7] * (2 * draw.integer(3, 6) + 1), 2), (_drawn(draw, 3), 1)]  # all alike; alone
    asked.append((draw.shuffled([4, 9]), 3))  # and a rank that gets nothing
    for lengths, ranks in asked:
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
    each = expect_tuple(shares, ranks, f"{ranks} lists of sentences", where="the shares", why=LISTS)
    dealt = [list(expect_tuple(share, None, "numbers of sentences", why=LISTS)) for share in each]
    flat = [as_number(number) for share in dealt for number in share]
    if any(type(number) is not int for number in flat) or sorted(flat) != [*range(len(lengths))]:
        raise Wrong(
            expected=f"each of the sentences 0 to {len(lengths) - 1} once",
            got=describe(sorted(flat, key=str)),
            where="the shares",
            why=_of_numbers(flat, len(lengths)),
        )
    return [[int(as_number(number)) for number in share] for share in dealt]


def _of_numbers(flat: Sequence[Any], many: int) -> str:
    if any(type(number) is not int or number not in range(many) for number in flat):
        return NO_NUMBER
    return TWICE if len({*flat}) < len(flat) else LEFT_OVER


def _tokens(dealt: Shares, lengths: Sequence[int]) -> list[int]:
    return [sum(lengths[k] for k in share) for share in dealt]


def _expect_even(dealt: Shares, lengths: Sequence[int]) -> None:
    tokens, many = _tokens(dealt, lengths), [len(share) for share in dealt]
    most, least = tokens.index(max(tokens)), tokens.index(min(tokens))
    for k in dealt[most]:
        if tokens[least] + lengths[k] < tokens[most]:
            raise Wrong(
                expected="no sentence whose move would leave the longest rank with less",
                got=f"{tokens} tokens: sentence {k}, of {lengths[k]}, could move from rank {most} "
                f"to rank {least}",
                why=ALIKE if max(many) - min(many) <= 1 else UNEVEN,
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
    "The sentences are shared out evenly by their number. What takes time is their tokens.",
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
    "ranks_with_sentences",
    "The factors count the ranks that have a sentence. The all-reduce takes the mean over all "
    "ranks: one that has none adds 0, and counts.",
    factors=lambda shares, lengths: [
        sum(map(bool, shares)) * f / len(shares) for f in _factors(shares, lengths)
    ],
)
UPSIDE_DOWN = (
    "These factors are upside down: a rank with more tokens counts for more, not for less."
)
_wrong(
    "upside_down",
    UPSIDE_DOWN,
    factors=lambda shares, lengths: [1 / f for f in _factors(shares, lengths)],
)
_wrong(
    "upside_down_but_zero",
    UPSIDE_DOWN,
    factors=lambda shares, lengths: [f and 1 / f for f in _factors(shares, lengths)],
)


IN_TURN = (
    "The sentences are dealt in turn, whatever each rank has already. Give the next one to the "
    "rank with fewest tokens so far."
)


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda k: -lengths[k])


def _there_and_back(lengths: Sequence[int], ranks: int) -> Shares:
    turns = [*range(ranks), *reversed(range(ranks))]
    shares: Shares = [[] for _ in range(ranks)]
    for place, k in enumerate(_longest_first(lengths)):
        shares[turns[place % len(turns)]].append(k)
    return shares


def _shortest_first(lengths: Sequence[int], ranks: int) -> Shares:
    order = sorted(range(len(lengths)), key=lambda k: lengths[k])
    dealt = _greedy([lengths[k] for k in order], ranks, longest_first=False)
    return [[order[place] for place in share] for share in dealt]


_wrong(
    "in_turn",
    IN_TURN,
    lambda lengths, ranks: [[*range(r, len(lengths), ranks)] for r in range(ranks)],
)
_wrong(
    "there_and_back",
    "The sentences are dealt there and back, whatever each rank has already. Give the next one to "
    "the rank with fewest tokens so far.",
    _there_and_back,
)
_wrong(
    "shortest_first",
    "The shortest sentences are dealt first. The longest then come last, and nothing is left to "
    "even them out.",
    _shortest_first,
)
_wrong(
    "all_to_one",
    "One rank has the whole batch. The others have nothing to do, and wait.",
    lambda lengths, ranks: [[*range(len(lengths))], *([] for _ in range(ranks - 1))],
)
_wrong(
    "number_of_tokens",
    "The factors are numbers of tokens. A factor is the tokens of the rank, times the ranks, by "
    "the tokens of the batch.",
    factors=lambda shares, lengths: [float(mine) for mine in _tokens(shares, lengths)],
)
_wrong(
    "one_by_ranks",
    "Each factor is 1 by the number of ranks. The all-reduce divides by it already, and shares are "
    "not equal.",
    factors=lambda shares, lengths: [1 / len(shares)] * len(shares),
)
_wrong(
    "by_the_longest",
    "The tokens were divided by those of the longest rank. Divide them by the mean of all ranks.",
    factors=lambda shares, lengths: [
        mine / max(_tokens(shares, lengths)) for mine in _tokens(shares, lengths)
    ],
)


def _changed(name: str, sentence: str, answer: Callable[..., Any]) -> None:
    """answer: (shares, factors, lengths) of a right deal -> another one."""

    def changed(lengths: Sequence[int], ranks: int) -> Any:
        shares = _greedy(lengths, ranks)
        return answer(shares, _factors(shares, lengths), lengths)

    dealt_out.wrong(name, sentence, dealt_out=changed)


_changed(
    "empty_left_out",
    "A rank without a sentence is left out. It has a list too, an empty one, and the factor 0.",
    lambda shares, factors, lengths: ([s for s in shares if s], [f for f in factors if f]),
)
_changed(
    "lengths_dealt",
    "The shares hold lengths. Asked for are the numbers of the sentences, their places in "
    "`lengths`.",
    lambda shares, factors, lengths: ([[lengths[k] for k in s] for s in shares], factors),
)
_changed(
    "from_one",
    "The sentences are counted from 1. Their numbers begin at 0.",
    lambda shares, factors, lengths: ([[k + 1 for k in s] for s in shares], factors),
)
_changed(
    "by_their_length",
    "A sentence is missing, and another is there twice: `index` finds the first of all that have "
    "this length. Deal numbers out, not lengths.",
    lambda shares, factors, lengths: (
        [[lengths.index(lengths[k]) for k in s] for s in shares],
        factors,
    ),
)
_changed(
    "factors_first",
    "The factors came before the shares: (shares, factors).",
    lambda shares, factors, lengths: (factors, shares),
)
_changed(
    "shares_alone",
    "These are the shares alone. A factor for each rank was asked for, too.",
    lambda shares, factors, lengths: shares,
)
_changed(
    "as_a_dict",
    "The shares are a dict. A list was asked for, in the order of the ranks.",
    lambda shares, factors, lengths: (dict(enumerate(shares)), factors),
)


@dealt_out.wrong(
    "places_when_sorted",
    "These are places in the sorted list. Asked for are the numbers of the sentences, their places "
    "in `lengths`.",
)
def _(lengths: Sequence[int], ranks: int) -> Deal:
    lengths = sorted(lengths, reverse=True)
    shares = _greedy(lengths, ranks)
    return shares, _factors(shares, lengths)


@dealt_out.wrong(
    "batch_sorted",
    "`lengths` is another list now, as after `sort` or `pop`. Its places are the numbers of the "
    "sentences, and whoever passed it in still needs them: work on a list of numbers instead.",
)
def _(lengths: list[int], ranks: int) -> Deal:
    lengths.sort(reverse=True)
    shares = _greedy(lengths, ranks)
    return shares, _factors(shares, lengths)


@dealt_out.cost
def _(student: Student, draw: Draw) -> str:
    lengths = _drawn(draw, 4, at_the_end=True)
    shares, _ = student.call("dealt_out", lengths, 4)
    dealt = [[int(as_number(k)) for k in share] for share in shares]
    tokens = _tokens(dealt, lengths)
    pieces = [lengths[r * len(lengths) // 4 : (r + 1) * len(lengths) // 4] for r in range(4)]
    before = max(map(sum, pieces))
    return f"the longest rank has {before} tokens in pieces of the batch, {max(tokens)} dealt out"
