"""Copies and kernels on streams: no race, and the shortest time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab
from .stream_model import StreamModel

Batches = Sequence[Sequence[int]]  # (us in, us of the kernel, us out)
Plan = list[tuple[Any, ...]]
Needed = dict[str, set[str]]  # work -> all that has to be over before it
ENGINES = ("in", "kernel", "out")
STEPS = 'a list of (kind, batch, stream), ("record", event, stream) and ("wait", event, stream)'


@lab.question(
    "overlap_plan",
    points=4,
    minutes=12,
    difficulty=4,
    hints=(
        "How many streams does a pipeline of three kinds of work need? And who has to wait for "
        "whom, of those that are on different streams?",
        "A stream for each kind. Kernel i waits for copy in i, copy out i for kernel i. And a copy "
        "in overwrites the buffer that an earlier kernel reads: it waits for that one, no later "
        "one.",
        'plan += [("in", i, 0), ("record", f"in{i}", 0), ("wait", f"in{i}", 1), ("kernel", i, 1)]',
    ),
    variant={"buffers": (2, 3, 4)},
    by_effect=True,
)
def overlap_plan(student: Student, draw: Draw, *, buffers: int = 2) -> None:
    """A plan of streams and events for batches that are copied in, computed and copied out.

    batches: list of (us of the copy in, us of the kernel, us of the copy out). Each kind of work
    has an engine of its own. Batches lie in two buffers in turn: the copy in of batch i + 2 may
    begin when the kernel of batch i is over -> a list of steps in the order in which the host gives
    them: ("in" | "kernel" | "out", batch, stream), ("record", event, stream), ("wait", event,
    stream). No race, and the shortest time that there is. buffers: where there are more than two.
    """
    fixed: list[Batches] = [
        [(31, 47, 13)],
        [(10, 40, 23), (12, 35, 17), (11, 50, 29), (13, 44, 19)],  # the kernels decide
        [(60, 21, 9), (53, 17, 11), (57, 19, 8), (49, 23, 10)],  # the copies in decide
        [(20, 90, 7), (25, 11, 80), (30, 85, 6), (71, 14, 33), (15, 66, 41)],
        # while the first result goes out, all the rest can be computed
        [(5, 6, 400), (20, 30, 8), (25, 35, 9), (30, 60, 6), (40, 50, 7), (35, 70, 8)],
        [(9, 8, 7)] * 30,  # more than there are letters
        [(12, 0, 9), (0, 14, 8)],  # what takes no time is done all the same
    ]
    if buffers > 2:
        fixed.append(_first_is_long(buffers))
    for batches in fixed + [_drawn_batches(draw) for _ in draw.cases(3)]:
        plan = student.call("overlap_plan", batches)
        plan = _checked(plan, batches)
        model = _played(plan, batches)
        _expect_no_race(plan, model, batches, buffers)
        _expect_shortest(model, batches, buffers)


def _first_is_long(buffers: int) -> Batches:
    """While the first kernel runs, all other buffers can be filled: who uses fewer is slower."""
    return [(20, 97 * buffers, 6), *((30 + i, 5 + i, 4) for i in range(buffers + 2))]


def _drawn_batches(draw: Draw) -> Batches:
    sizes = draw.shuffled(range(5, 95))
    return [tuple(sizes[3 * n : 3 * n + 3]) for n in range(draw.integer(3, 8))]


def _checked(got: Any, batches: Batches) -> Plan:
    """`got`, if it is a plan in which every piece of work stands once."""
    plan = [expect_tuple(step, 3, STEPS) for step in expect_tuple(got, None, STEPS)]
    work = [(kind, batch) for kind, batch, _ in plan if kind in ENGINES]
    wanted = {(kind, batch) for batch in range(len(batches)) for kind in ENGINES}
    if len(work) != len(wanted) or set(map(_hashable, work)) != wanted:
        raise Wrong(expected='"in", "kernel" and "out" of each batch once', got=describe(work))
    recorded = set()
    for kind, event, stream in plan:
        if type(stream) not in (int, str) or kind not in (*ENGINES, "record", "wait"):
            raise Wrong(expected=STEPS, got=describe((kind, event, stream)))
        if kind == "record":
            recorded.add(str(event))
        elif kind == "wait" and str(event) not in recorded:
            why = "An event that is not recorded yet holds nobody: torch's wait returns at once."
            raise Wrong(expected="a record before its wait", got=describe(event), why=why)
    return [(kind, batch, stream) for kind, batch, stream in plan]


def _hashable(pair: tuple[Any, Any]) -> tuple[Any, Any]:
    kind, batch = pair
    return kind, batch if type(batch) is int else repr(batch)


def _played(plan: Plan, batches: Batches) -> StreamModel:
    model = StreamModel()
    for kind, what, stream in plan:
        if kind in ENGINES:
            us = batches[what][ENGINES.index(kind)]
            model.launch(f"{kind}{what}", us, stream, engine=kind)
        else:
            model.run([(kind, str(what), stream)])
    return model


def _needs(batches: Batches, buffers: int) -> list[tuple[str, str]]:
    """(earlier, later), for all work that has to wait for other work."""
    found = []
    for i in range(len(batches)):
        found += [(f"in{i}", f"kernel{i}"), (f"kernel{i}", f"out{i}")]
        found += [(f"kernel{i - buffers}", f"in{i}")] if i >= buffers else []
    return found


def _waited(plan: Plan, work: str) -> str:
    """What the stream of a piece of work waits for before it."""
    place = next(n for n, (kind, what, _) in enumerate(plan) if f"{kind}{what}" == work)
    waits, its = [stream for kind, _, stream in plan[:place] if kind == "wait"], plan[place][2]
    if all(kind != "wait" for kind, *_ in plan):
        return "no event is waited for"
    recorded: dict[str, Any] = {}
    for kind, event, stream in plan[:place]:
        if kind == "record":
            recorded[str(event)] = stream
        elif kind == "wait" and recorded.get(str(event)) == stream != its:
            return f"{work} is on stream {its}, and stream {stream} waits for its own event"
    if its not in waits:
        return "its stream waits for no event before it"
    return "its stream waits for events, and not for that work"


def _expect_no_race(plan: Plan, model: StreamModel, batches: Batches, buffers: int) -> None:
    """Nothing may lean on durations: an order holds only by a stream or an event."""
    past = {piece.name: piece.after for piece in model.pieces}
    for earlier, later in _needs(batches, buffers):
        if earlier not in past[later]:
            raise Wrong(
                expected=f"{later} after {earlier}",
                got="no stream and no event that says so",
                where=_waited(plan, later),
                why=f"A race: nothing makes {later} wait for {earlier}. Where it comes later by "
                "the clock, that is luck.",
            )


def _expect_shortest(model: StreamModel, batches: Batches, buffers: int) -> None:
    best = _shortest_us(batches, buffers)
    if model.done_us > best:
        raise Wrong(
            expected=f"{best} us",
            got=f"{model.done_us:.0f} us",
            where=f"{len({piece.stream for piece in model.pieces})} streams",
            why=_needless_wait(model, batches, buffers)
            or "The order is safe, and some work waits for what it does not need.",
        )


def _needless_wait(model: StreamModel, batches: Batches, buffers: int) -> str:
    """Which work a stream or an event holds back without need, and for what it waits."""
    needed: Needed = {}
    for name, before in _before(batches, buffers).items():
        needed[name] = set(before).union(*(needed[earlier] for earlier in before))
    if found := _needless_at_the_end(model, needed) or _first_needless(model, needed):
        later, earlier = found
        return f"The order is safe, but {later} waits for {earlier}, and needs nothing of it."
    return ""


def _first_needless(model: StreamModel, needed: Needed) -> tuple[str, str] | None:
    for piece in model.pieces:
        held_by = [p.name for p in model.pieces if p.name in piece.after - needed[piece.name]]
        if held_by:
            return piece.name, held_by[-1]
    return None


def _needless_at_the_end(model: StreamModel, needed: Needed) -> tuple[str, str] | None:
    """Back from what is over last, each time to what ended when that began: the first step that is
    not needed has made the plan longer. None where an engine took the batches in another order."""
    piece = max(model.pieces, key=lambda p: p.finish_us)
    while True:
        earlier = model.pieces[: model.pieces.index(piece)]
        held_by = [p for p in earlier if p.finish_us == piece.begin_us]
        wanted = [p for p in held_by if p.name in needed[piece.name]]
        if not wanted:
            needless = [p.name for p in held_by if p.name in piece.after]
            return (piece.name, needless[-1]) if needless else None
        piece = wanted[-1]


def _before(batches: Batches, buffers: int) -> dict[str, list[str]]:
    """Of each piece of work what comes before it: each engine takes the batches in order."""
    needs = _needs(batches, buffers)
    return {
        f"{kind}{i}": [
            *([f"{kind}{i - 1}"] if i else []),
            *(earlier for earlier, later in needs if later == f"{kind}{i}"),
        ]
        for i in range(len(batches))
        for kind in ENGINES
    }


def _shortest_us(batches: Batches, buffers: int = 2) -> int:
    """Each engine takes the batches in order: the longest chain of what has to wait."""
    done: dict[str, int] = {}
    takes = (us for batch in batches for us in batch)
    for (name, before), us in zip(_before(batches, buffers).items(), takes, strict=True):
        done[name] = max((done[earlier] for earlier in before), default=0) + us
    return max(done.values())


def _plan(
    batches: Batches,
    *,
    buffers: int = 2,
    streams: tuple[int, int, int] = (0, 1, 2),
    events: bool = True,
    early: bool | str = False,
    unwaited: str = "",
    buffer_event: str = "kernel",
) -> Plan:
    """buffers: copies in wait for the kernel so many batches before, or for another buffer_event of
    that batch; early: each event is recorded before its work, or those of one kind; unwaited: the
    kind of work that waits for nothing."""
    plan: Plan = []
    for i in range(len(batches)):
        waits = [[f"{buffer_event}{i - buffers}"] if buffers and i >= buffers else [], [f"in{i}"]]
        for kind, stream, needed in zip(ENGINES, streams, [*waits, [f"kernel{i}"]], strict=True):
            plan += [("wait", event, stream) for event in needed if events and kind != unwaited]
            work, record = (kind, i, stream), ("record", f"{kind}{i}", stream)
            plan += [record, work] if early in (True, kind) else [work, record]
    return plan


overlap_plan.wrong(
    "one_stream",
    "One stream does one thing after the other: safe, and nothing overlaps.",
    overlap_plan=lambda batches: _plan(batches, streams=(0, 0, 0), events=False),
)
overlap_plan.wrong(
    "no_events",
    "No event is waited for: nothing makes a kernel on another stream than its copy in wait for "
    "its data.",
    overlap_plan=lambda batches: _plan(batches, events=False),
)
overlap_plan.wrong(
    "buffer_overwritten",
    "A copy in overwrites the buffer that an earlier kernel may still be reading: it has to wait "
    "for that kernel.",
    overlap_plan=lambda batches: _plan(batches, buffers=0),
)
overlap_plan.wrong(
    "one_buffer",
    "The copy in waits for the kernel of the batch before, which reads another buffer: it may run "
    "beside that kernel. Wait for the kernel that reads the same buffer.",
    overlap_plan=lambda batches: _plan(batches, buffers=1),
)
overlap_plan.wrong(
    "event_too_early",
    "The event does not cover the work that it stands for: it was recorded before it, or on "
    "another stream. An event is over when all that its stream was given *before it* is over.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, early=True),
)
overlap_plan.wrong(
    "copies_share_a_stream",
    "Both directions share a stream, so the next copy in waits behind a copy out that waits for "
    "its kernel. Each direction has an engine of its own: give it a stream too.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, streams=(0, 1, 0)),
)
overlap_plan.wrong(
    "kernel_with_copy_in",
    "Copy in and kernel share a stream, so the next batch is not copied while this one is "
    "computed.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, streams=(0, 0, 1)),
)


@overlap_plan.wrong(
    "stream_per_batch",
    "One stream for all of a batch keeps the order inside the batch. Nothing says that a batch "
    "waits for the kernel that reads its buffer.",
)
def _(batches: Batches) -> Plan:
    return [(kind, i, i) for i in range(len(batches)) for kind in ENGINES]


@overlap_plan.wrong(
    "two_streams",
    "A stream for each buffer is safe: it keeps the whole batch in order. But a copy in then waits "
    "for the copy out of the batch that had the buffer before, not only for its kernel.",
)
def _(batches: Batches, *, buffers: int = 2) -> Plan:
    return [(kind, i, i % buffers) for i in range(len(batches)) for kind in ENGINES]


overlap_plan.wrong(
    "kernel_waits_for_nothing",
    "Nothing makes the kernel wait for its copy in: put a record behind the copy, and let the "
    "kernel's stream wait for that event.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, unwaited="kernel"),
)
overlap_plan.wrong(
    "copy_out_waits_for_nothing",
    "Nothing makes the copy out wait for its kernel: put a record behind the kernel, and let the "
    "stream of the copy out wait for that event.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, unwaited="out"),
)
overlap_plan.wrong(
    "kernels_event_too_early",
    "The copy out waits for an event that does not cover its kernel: it was recorded before it, or "
    "on another stream.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, early="kernel"),
)
overlap_plan.wrong(
    "waits_for_the_copy_in",
    "A copy in waits for an event that does not cover the kernel which reads its buffer. Wait for "
    "that kernel's, and wait before the copy.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, buffer_event="in"),
)
overlap_plan.wrong(
    "waits_for_the_copy_out",
    "The copy in waits for the copy out of the batch that had the buffer before. That one reads "
    "the result; the buffer is free when the kernel is over.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, buffer_event="out"),
)
overlap_plan.wrong(
    "kernel_with_copy_out",
    "Kernel and copy out share a stream, so the next kernel waits for a copy out that it does not "
    "need.",
    overlap_plan=lambda batches, *, buffers=2: _plan(batches, buffers=buffers, streams=(0, 1, 1)),
)


@overlap_plan.cost
def _(student: Student, draw: Draw) -> str:
    batches = [(40, 60, 20)] * 8
    best = _played(student.call("overlap_plan", batches), batches).done_us
    alone = sum(map(sum, batches))
    return f"8 batches: {best:.0f} us on your streams, {alone} us on one"
