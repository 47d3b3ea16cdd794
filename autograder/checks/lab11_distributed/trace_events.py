"""What the ranks answered, and what each of them did: in order of time, (what, bytes). The first is
compared with a truth, the second was recorded by the clean room's harness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.judge import NoAnswer, Student, Wrong, describe, expect_tuple
from onelayer.distributed.ranks import RanksWait

TraceEvent = tuple[str, int]
Trace = list[TraceEvent]
BELOW = ("below the head", 0)
WAIT = "wait for "
MISMATCH = (
    "The ranks met in different collectives. All ranks make the same ones, of the same sizes, "
    "in the same order."
)


@dataclass(frozen=True)
class Fault:
    """A known fault of a distributed answer, and what the ranks hold then."""

    name: str
    sentence: str
    answers: Callable[..., Sequence[Any]]


def asked_of_ranks(student: Student, function: str, per_rank: Sequence[Any], *, hung: str) -> Any:
    """What the student's function answers for all ranks. hung: the sentence for ranks that wait for
    one that is done."""
    try:
        return student.call(function, per_rank)
    except NoAnswer as none:
        told = none.raised.message
        waits = none.raised.error == RanksWait.__name__
        why = MISMATCH if "collective mismatch" in told else hung if waits else ""
        raise NoAnswer(none.raised, why) from None


def answers_and_deeds(got: Any, world: int) -> tuple[list[Any], list[Trace]]:
    """`got`, if it is a pair for each rank: its answer, and what it did."""
    expect_tuple(got, world, f"an answer and its trace from each of {world} ranks")
    answers, trace = [], []
    for rank, pair in enumerate(got):
        form, where = "what on_ranks returns", f"on rank {rank}"
        answer, did = expect_tuple(pair, 2, form, where=where)
        if not _are_deeds(did):
            raise Wrong(expected=form, got=describe(pair), where=where)
        answers.append(answer)
        trace.append([(str(what), int(nbytes)) for what, nbytes in did])
    return answers, trace


def _are_deeds(got: Any) -> bool:
    return isinstance(got, (list, tuple)) and all(
        isinstance(d, (list, tuple))
        and len(d) == 2
        and isinstance(d[0], str)
        and isinstance(d[1], int)
        for d in got
    )


def sent(trace: Trace) -> Trace:
    """The collectives alone, without waits and marks; nobody minds a barrier."""
    others = (BELOW[0], "barrier")
    return [d for d in trace if d[0] not in others and not d[0].startswith(WAIT)]


def nobody_waited(trace: Trace) -> bool:
    """Whether some collective was started without a Work.wait(). There are other ways to wait: only
    where the values are wrong is that worth a word."""
    names = [what for what, _ in trace]
    return any(names.count(f"{WAIT}{what}") < names.count(what) for what, _ in sent(trace))
