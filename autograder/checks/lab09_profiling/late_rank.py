"""Which rank the others wait for, read from how long their collectives last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_tuple, within

from . import lab
from .draw_step import us
from .machine import Event
from .times import CLOSE_US, MILLISECONDS, as_number, expect_us, related

NAME = "gloo:all_reduce"
OTHERS = ("gloo:broadcast", "gloo:all_gather", "gloo:sparse_all_reduce")
LATE_ONCE_US = (4000, 6000)
"""How late one rank is in one step."""
Late = tuple[int, list[float]]
_FORM = "(rank, [us that each rank waited])"
NO_PAIR = "Two parts were asked for: (rank, [us that each rank waits])."
NO_RANK = "This is no rank. Ranks are whole numbers from 0 on, in the order of the traces."
NO_WAITS = "One time for each rank was asked for, in a list. The late one has a time as well."
LESS_FOR_IT = (
    "For this rank the others wait less in all. In each turn they wait for the one whose "
    "collective is the shortest: add up all their waits for it."
)
TOO_LONG = (
    "This rank does not wait so long. Waiting is what its collective lasts longer than the "
    "shortest of its turn."
)
TOO_SHORT = "This rank waits longer: it waits in every turn in which another rank is the last."
BELOW_ZERO = (
    "No rank waits less than 0: a wait is what its collective lasts longer than the shortest of "
    "its turn."
)
_RAISED = {
    "KeyError": "The collectives are `user_annotation`s: they have a `ts` and a `dur`, and no "
    "`correlation`.",
}


@lab.question(
    "late_rank",
    points=4,
    minutes=8,
    difficulty=3,
    hints=(
        "A collective ends on all ranks together. What is different on the rank that came last?",
        "Its collective is the shortest. Pair the k-th of each rank, in the order of time; what "
        "lasts longer than the shortest of the pair is waiting, for the rank of the shortest.",
        "wait = dur - min(durs); for_rank[durs.index(min(durs))] += sum of the waits",
    ),
)
def late_rank(student: Student, draw: Draw) -> None:
    """The rank for which the others wait longest in all, and how long each rank waits.

    traces (of each rank its events, on a clock of its own) -> (rank, [us for each rank]).
    """
    drawn = [(draw.integer(2, 4), LATE_ONCE_US, False) for _ in draw.cases(1)]
    sizes = [(3, LATE_ONCE_US), (3, (850, 900)), (2, LATE_ONCE_US), (4, LATE_ONCE_US)]
    always = [*((ranks, once, False) for ranks, once in sizes), (4, (4000, 4300), True)]
    for ranks, once, together in always + drawn:
        traces, want = _drawn(draw, ranks, once, together=together)
        with explaining(_RAISED):
            got = student.call("late_rank", traces)
        rank, waited = expect_tuple(got, 2, _FORM, why=NO_PAIR)
        if type(as_number(rank)) is not int or as_number(rank) != want[0]:
            number = as_number(rank)
            is_rank = type(number) is int and 0 <= number < ranks
            why = LESS_FOR_IT if is_rank else NO_RANK
            raise Wrong(expected=f"rank {want[0]}", got=describe(rank), where="the rank", why=why)
        each = expect_tuple(waited, ranks, f"{ranks} times in us", where="the waits", why=NO_WAITS)
        for k, (came, wanted) in enumerate(zip(each, want[1], strict=True)):
            less = BELOW_ZERO if _is_below_zero(came) else TOO_SHORT
            with within("", why=related(came, wanted, less=less, more=TOO_LONG)):
                expect_us(came, wanted, f"the wait of rank {k}")


def _is_below_zero(got: Any) -> bool:
    number = as_number(got)
    return isinstance(number, (int, float)) and number < -CLOSE_US


_CALL = "torch/distributed/distributed_c10d.py(2806): all_reduce"


@dataclass
class _Rank:
    """A rank as it goes: what it wrote down, and its time since the job began."""

    pid: int
    clock_us: float
    events: list[Event]
    now: float = 0.0
    step_began: float = 0.0

    def wrote(self, thread: int, cat: str, name: str, begin: float) -> None:
        times = {"ts": round(self.clock_us + begin, 3), "dur": round(self.now - begin, 3)}
        place = {"ph": "X", "cat": cat, "name": name, "pid": self.pid, "tid": self.pid + thread}
        args = {"External id": len(self.events) + 1, "Input type": ["float"]}
        self.events.append({**place, **times, "args": args})


def _drawn(
    draw: Draw,
    ranks: int,
    once: tuple[int, int] = LATE_ONCE_US,
    *,
    together: bool = False,
) -> tuple[list[list[Event]], Late]:
    """Steps of data-parallel training. One rank is a little late in most of them, another much in
    one, `once`: so much that the others wait longest for it in all, or less. together: only one of
    four waits for it, because two come just before it."""
    often, much, *others = draw.shuffled(range(ranks))
    near = others[0] if ranks > 3 else None  # comes just before the last one: it waits least
    each = [_begun(draw) for _ in range(ranks)]
    if ranks == 3:  # the latest clock is neither the late rank's nor the one's that waits longest
        latest = max(each, key=lambda rank: rank.clock_us)
        neither = each[often if once == LATE_ONCE_US else much]
        latest.clock_us, neither.clock_us = neither.clock_us, latest.clock_us
    waited, kept = [0.0] * ranks, [0.0] * ranks
    steps, usual = 4, (900, 940) if together else (450, 700) if ranks > 3 else (300, 700)
    dear = draw.integer(1, steps - 1)
    for step in range(steps):
        late = (much, us(draw, *once)) if step == dear else (often, us(draw, *usual))
        beside = [(near, late[1] - 180)] if ranks > 3 and not together else []
        if together and step == dear:
            beside = [(near, late[1] - 200), (often, late[1] - 400)]
        _compute(draw, each, step, [late, *beside])
        for rank in each:  # other collectives, beside the loop: their waiting is not asked for
            began = rank.now - us(draw, 200, 900)
            for other in OTHERS:
                rank.wrote(6, "user_annotation", other, began)
        for _ in range(2):
            _reduce(draw, each, often, waited, kept)
        for rank in each:
            rank.wrote(0, "user_annotation", f"ProfilerStep#{step + 3}", rank.step_began)
    traces = [draw.shuffled(rank.events) for rank in each]
    return traces, (kept.index(max(kept)), waited)


def _begun(draw: Draw) -> _Rank:
    return _Rank(draw.integer(2000, 60000), draw.integer(10**9, 4 * 10**9) * 1.0, [])


def _compute(
    draw: Draw, each: Sequence[_Rank], step: int, late: Sequence[tuple[int | None, float]]
) -> None:
    """Forward and backward of every rank, up to its gradients. On the late one something takes
    longer."""
    where = draw.choice(("data", "forward", "backward"))
    for number, rank in enumerate(each):
        rank.step_began = rank.now
        for name, usual in (("data", 150.0), ("forward", 700.0), ("backward", 1400.0)):
            begin = rank.now
            rank.now += usual + us(draw, 0, 40)
            rank.now += sum(by for which, by in late if which == number and name == where)
            rank.wrote(0, "user_annotation", name, begin)


def _reduce(
    draw: Draw, each: Sequence[_Rank], often: int, waited: list[float], kept: list[float]
) -> None:
    """A collective: it ends on all ranks when the last one has come, and the bytes have moved. One
    rank is often a little later than the others."""
    arrived = []
    for number, rank in enumerate(each):
        begin = rank.now
        rank.now += us(draw, 15, 40) + 60 * (number == often)
        rank.wrote(0, "cpu_op", "c10d::allreduce_", begin)
        rank.wrote(0, "python_function", _CALL, begin)
        rank.now += us(draw, 5, 15)
        arrived.append(rank.now)
    last = arrived.index(max(arrived))
    end, worker = arrived[last] + us(draw, 1300, 1900), draw.integer(3, 5)
    for number, (rank, begin) in enumerate(zip(each, arrived, strict=True)):
        rank.now = end
        rank.wrote(worker, "user_annotation", NAME, begin)
        waited[number] += arrived[last] - begin
        kept[last] += arrived[last] - begin


def _spans(events: Sequence[Event], *, in_order: bool = True, prefix: str = NAME) -> list[Event]:
    found = [e for e in events if e["name"].startswith(prefix)]
    return sorted(found, key=lambda e: e["ts"]) if in_order else found


def _read(
    traces: Sequence[Sequence[Event]],
    *,
    in_order: bool = True,
    by_times: bool = False,
    prefix: str = NAME,
    base: Callable[[Sequence[float]], float] = min,
    largest: bool = False,
    longest: bool = False,
    based: bool = False,
) -> Late:
    """Read from the traces, and the ways to get it wrong. based: what the others wait for a rank is
    counted from `base` as well."""
    waited, kept = [0.0] * len(traces), [0.0] * len(traces)
    spans = [_spans(events, in_order=in_order, prefix=prefix) for events in traces]
    for together in zip(*spans, strict=True):
        durs = [e["dur"] for e in together]
        shortest = durs.index(min(durs))
        for rank, dur in enumerate(durs):
            waited[rank] += abs(dur - base(durs))
            wait = dur - (base(durs) if based else durs[shortest])
            if longest and dur < max(durs):
                continue
            kept[shortest] = (
                max(kept[shortest], wait) if largest else kept[shortest] + (by_times or wait)
            )
    return kept.index(max(kept)), waited


late_rank.wrong(
    "longest_collective",
    "This is the rank whose collectives last longest. It came early and waits: the late one has "
    "the shortest.",
    late_rank=lambda traces: (
        max(range(len(traces)), key=lambda r: sum(e["dur"] for e in _spans(traces[r]))),
        _read(traces)[1],
    ),
)
late_rank.wrong(
    "most_often",
    "This rank is last most often, and by little. The others wait longer for another one: add up "
    "the time.",
    late_rank=lambda traces: (_read(traces, by_times=True)[0], _read(traces)[1]),
)
late_rank.wrong(
    "every_collective",
    "Broadcasts were read as well. The all-reduces were asked for: events called "
    "`gloo:all_reduce`, all of the name.",
    late_rank=lambda traces: _read(traces, prefix="gloo:"),
)
late_rank.wrong(
    "waits_least",
    "This rank waits least itself. Who comes just before the last one waits little too: add up the "
    "waits that each rank causes, where its collective is the shortest.",
    late_rank=lambda traces: (
        min(range(len(traces)), key=_read(traces)[1].__getitem__),
        _read(traces)[1],
    ),
)
late_rank.wrong(
    "whole_collectives",
    "This is how long the collectives take on each rank. Part of it is the exchange itself, which "
    "the late rank has too.",
    late_rank=lambda traces: (
        _read(traces)[0],
        [sum(e["dur"] for e in _spans(events)) for events in traces],
    ),
)
late_rank.wrong(
    "not_in_order",
    "Collectives were paired by their place in the list. Worker threads write them down out of "
    "order: sort by `ts` on each rank.",
    late_rank=lambda traces: _read(traces, in_order=False),
)


@late_rank.wrong(
    "one_clock",
    "Beginnings of several ranks were compared. Each trace has a clock of its own; what lasts can "
    "be compared, moments cannot.",
)
def _(traces: Sequence[Sequence[Event]]) -> Late:
    first = [[e["ts"] for e in _spans(events)] for events in traces]
    waited = [0.0] * len(traces)
    kept = [0.0] * len(traces)
    for together in zip(*first, strict=True):
        last = together.index(max(together))
        for rank, begin in enumerate(together):
            waited[rank] += together[last] - begin
            kept[last] += together[last] - begin
    return kept.index(max(kept)), waited


BY_CLOCKS = (
    "In each turn the rank that begins last by its clock was taken for the late one. Each trace "
    "has a clock of its own: the late one has the shortest collective of its turn."
)


@late_rank.wrong("last_by_the_clocks", BY_CLOCKS)
def _(traces: Sequence[Sequence[Event]]) -> Late:
    waited, kept = [0.0] * len(traces), [0.0] * len(traces)
    for together in zip(*(_spans(events) for events in traces), strict=True):
        begins = [e["ts"] for e in together]
        last = begins.index(max(begins))
        for rank, e in enumerate(together):
            waited[rank] += e["dur"] - together[last]["dur"]
            kept[last] += e["dur"] - together[last]["dur"]
    return kept.index(max(kept)), waited


@late_rank.wrong("last_by_the_clocks_with_its_waits", BY_CLOCKS)
def _(traces: Sequence[Sequence[Event]]) -> Late:
    kept = [0.0] * len(traces)
    for together in zip(*(_spans(events) for events in traces), strict=True):
        begins, durs = [e["ts"] for e in together], [e["dur"] for e in together]
        kept[begins.index(max(begins))] += sum(durs) - len(durs) * min(durs)
    return kept.index(max(kept)), _read(traces)[1]


def _changed(name: str, sentence: str, answer: Callable[[int, list[float]], Any]) -> None:
    late_rank.wrong(name, sentence, late_rank=lambda traces: answer(*_read(traces)))


_changed("from_one", "The rank is counted from 1. Ranks begin at 0.", lambda k, us: (k + 1, us))
_changed(
    "waits_first",
    "The waits came before the rank: (rank, [us that each rank waits]).",
    lambda k, us: (us, k),
)
_changed(
    "rank_alone",
    "This is the rank alone. How long each rank waits was asked for, too.",
    lambda k, us: k,
)
_changed("milliseconds", MILLISECONDS, lambda k, us: (k, [one / 1000 for one in us]))
_changed(
    "as_a_dict",
    "The waits are a dict. A list was asked for, in the order of the ranks.",
    lambda k, us: (k, dict(enumerate(us))),
)
late_rank.wrong(
    "mean_wait",
    "These are waits on average. Asked for is how long each rank waits in all.",
    late_rank=lambda traces: (
        _read(traces)[0],
        [us / len(_spans(traces[0])) for us in _read(traces)[1]],
    ),
)
late_rank.wrong(
    "from_the_longest",
    "The differences to the longest collective were added up. The rank of the longest waits most: "
    "waiting is what lasts longer than the shortest.",
    late_rank=lambda traces: (_read(traces)[0], _read(traces, base=max)[1]),
)
late_rank.wrong(
    "largest_wait_alone",
    "One long wait decides here. Add up all that the others wait for a rank.",
    late_rank=lambda traces: (_read(traces, largest=True)[0], _read(traces)[1]),
)


late_rank.wrong(
    "longest_of_each_turn",
    "In each turn the longest wait alone counts here. All others wait for the late rank: add up "
    "the waits of each of them.",
    late_rank=lambda traces: (_read(traces, longest=True)[0], _read(traces)[1]),
)


def _turns(traces: Sequence[Sequence[Event]]) -> list[list[float]]:
    """How long the collectives of each turn last, rank by rank."""
    spans = (_spans(events) for events in traces)
    return [[e["dur"] for e in together] for together in zip(*spans, strict=True)]


def _waits(
    name: str, sentence: str, answer: Callable[[int, list[list[float]]], list[float]]
) -> None:
    """The right rank, with other waits. answer: (rank, turns) -> waits."""

    def changed(traces: Sequence[Sequence[Event]]) -> Late:
        rank, _ = _read(traces)
        return rank, answer(rank, _turns(traces))

    late_rank.wrong(name, sentence, late_rank=changed)


_waits(
    "its_own_shortest",
    "Each rank's collectives were compared with its own shortest. Compare with the shortest of the "
    "same turn, on whatever rank it is.",
    lambda rank, turns: [sum(durs) - len(durs) * min(durs) for durs in zip(*turns, strict=True)],
)
_waits(
    "longest_wait_of_each",
    "These are the longest waits of the ranks. Asked for is how long each waits in all.",
    lambda rank, turns: [
        max(dur - min(durs) for dur, durs in zip(mine, turns, strict=True))
        for mine in zip(*turns, strict=True)
    ],
)
_waits(
    "waits_for_that_rank",
    "These are the waits for that one rank. Each rank waits in other turns too, for whichever rank "
    "is the last there.",
    lambda rank, turns: [
        sum(
            dur - min(durs)
            for dur, durs in zip(mine, turns, strict=True)
            if durs.index(min(durs)) == rank
        )
        for mine in zip(*turns, strict=True)
    ],
)
_waits(
    "late_rank_never_waits",
    "The wait of the late rank is 0 here. In turns in which another rank is the last it waits "
    "as well.",
    lambda rank, turns: [
        0.0 if k == rank else sum(dur - min(durs) for dur, durs in zip(mine, turns, strict=True))
        for k, mine in enumerate(zip(*turns, strict=True))
    ],
)


@late_rank.wrong(
    "sorted_by_duration",
    "The collectives of each rank were sorted by how long they last. The k-th in time belong "
    "together: sort by `ts`.",
)
def _(traces: Sequence[Sequence[Event]]) -> Late:
    spans = [sorted(e["dur"] for e in _spans(events)) for events in traces]
    waited, kept = [0.0] * len(traces), [0.0] * len(traces)
    for durs in zip(*spans, strict=True):
        for rank, dur in enumerate(durs):
            waited[rank] += dur - min(durs)
            kept[durs.index(min(durs))] += dur - min(durs)
    return kept.index(max(kept)), waited


@late_rank.wrong(
    "waits_caused",
    "These are the waits that each rank causes. Asked for is how long each one waits itself.",
)
def _(traces: Sequence[Sequence[Event]]) -> Late:
    caused = [0.0] * len(traces)
    for together in zip(*(_spans(events) for events in traces), strict=True):
        durs = [e["dur"] for e in together]
        caused[durs.index(min(durs))] += sum(dur - min(durs) for dur in durs)
    return caused.index(max(caused)), caused


def _least(traces: Sequence[Sequence[Event]]) -> float:
    return float(min(e["dur"] for events in traces for e in _spans(events)))


OF_ALL = (
    "Every collective was compared with the shortest of all. Compare it with the shortest of its "
    "own turn: they need not take equally long."
)
late_rank.wrong(
    "shortest_of_all_for_the_rank_too",
    OF_ALL,
    late_rank=lambda traces: _read(traces, base=lambda durs: _least(traces), based=True),
)
late_rank.wrong(
    "shortest_of_all",
    OF_ALL,
    late_rank=lambda traces: (
        _read(traces)[0],
        _read(traces, base=lambda durs: _least(traces))[1],
    ),
)


@late_rank.wrong(
    "sums_compared",
    "The sums of the ranks were compared. Which rank is last changes from one collective to the "
    "next: compare one after the other, then add up.",
)
def _(traces: Sequence[Sequence[Event]]) -> Late:
    sums = [sum(e["dur"] for e in _spans(events)) for events in traces]
    return sums.index(min(sums)), [one - min(sums) for one in sums]


late_rank.wrong(
    "with_the_first_rank",
    "The collectives were compared with those of rank 0. It may wait itself: compare with the "
    "shortest.",
    late_rank=lambda traces: (
        _read(traces)[0],
        [
            sum(
                max(0.0, a["dur"] - b["dur"])
                for a, b in zip(_spans(events), _spans(traces[0]), strict=True)
            )
            for events in traces
        ],
    ),
)


@late_rank.cost
def _(student: Student, draw: Draw) -> str:
    traces, _ = _drawn(draw, 4)
    rank, waited = student.call("late_rank", traces)
    return (
        f"the others wait longest for rank {rank}: in four steps they wait "
        f"{sum(waited) - waited[rank]:,.0f} us, for whichever rank is last"
    )
