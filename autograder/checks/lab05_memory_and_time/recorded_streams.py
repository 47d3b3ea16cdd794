"""Which streams the allocator has to be told of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab
from .stream_model import StreamModel

Program = list[tuple[Any, ...]]
Pair = tuple[str, int]
OWN_STREAM = (
    "The tensor's own stream was recorded. Whoever gets the block comes later in that very stream: "
    "nothing has to be told."
)
PAIRS = "a list of (tensor, stream), each once"


@lab.question(
    "recorded_streams",
    points=4,
    minutes=12,
    difficulty=4,
    hints=(
        "A freed block goes to whoever asks next on the tensor's own stream. Which uses does that "
        "stream know to be over?",
        "Follow for each stream the set of uses that are over before whatever it is given next: a "
        "use joins the set of its own stream, an event takes a copy of the set, a wait adds that "
        "copy, a sync adds every use to every stream. At a free look at the tensor's own stream.",
        "pairs |= {(name, s) for s, use in uses[name] if use not in over[home[name]]}",
    ),
)
def recorded_streams(student: Student, draw: Draw) -> None:
    """The calls of `record_stream` that a program needs, and no other.

    Streams are 0, 1 and 2. program: list of ("alloc", tensor, stream), ("use", tensor, stream),
    ("record", event, stream), ("wait", event, stream), ("sync",) and ("free", tensor), in the order
    of the host -> a list of (tensor, stream), in any order: x.record_stream(s) before x is freed.
    """
    for program in _fixed() + [_drawn_program(draw) for _ in draw.cases(6)]:
        _expect_pairs(student.call("recorded_streams", program), _needed(program), program)


def _fixed() -> list[Program]:
    a, use, free = ("alloc", "a", 0), ("use", "a", 1), ("free", "a")
    after, home_waits = ("record", "e", 1), ("wait", "e", 0)
    passed_on = [after, ("wait", "e", 2), ("record", "f", 2), ("wait", "f", 0)]
    behind_home = [("record", "e", 0), ("wait", "e", 1)]
    return [
        [a, ("use", "a", 0), free],  # only its own stream: nothing is needed
        [("alloc", "a", 2), ("use", "a", 0), free],  # stream 0 is another one here
        [a, use, free],
        [a, use],  # never freed: nobody gets its block
        [a, use, after, home_waits, ("use", "a", 2), ("sync",), free],
        [("alloc", "a", 2), use, ("sync",), free],
        [a, use, after, home_waits, free],
        [a, use, free, after, home_waits],  # too late
        [a, use, after, free],  # an event that nobody waits for
        [a, use, after, ("wait", "e", 2), free],  # another stream waits for it
        [a, after, use, home_waits, free],  # the event does not know of the use
        [a, ("use", "a", 0), *behind_home, use, free],  # the order the other way round
        [a, use, *passed_on, free],
        [a, ("alloc", "b", 0), ("use", "b", 1), use, *passed_on, ("free", "b"), free],
        [a, use, after, use, home_waits, free],
        [a, ("alloc", "b", 1), use, ("use", "b", 0), after, home_waits, free, ("free", "b")],
        [a, use, ("sync",), use, ("use", "a", 2), free],
        [a, use, after, use, after, home_waits, free],  # recorded again: it knows of both uses
        [a, use, after, ("record", "e", 2), home_waits, free],  # of another stream, the second time
        [a, use, after, home_waits, ("record", "e", 2), free],  # and what was known stays known
        [a, use, ("use", "a", 2), after, home_waits, free],  # one of two streams is waited for
        [a, use, use, after, ("wait", "e", 2), ("use", "a", 2), free],  # 2 waits, 0 does not
        [a, use, after, home_waits, ("record", "f", 2), ("wait", "f", 0), free],  # and still known
        [a, use, after, ("record", "f", 2), ("wait", "e", 2), ("wait", "f", 0), free],  # f is older
        [a, ("alloc", "b", 0), use, ("use", "b", 1), free],  # b is not freed
        [a, ("alloc", "b", 0), ("use", "b", 1), use, free, ("free", "b")],  # one record each
        [a, use, after, ("sync",), home_waits, free],  # an event of before the sync
        [a, use, after, ("sync",), use, home_waits, free],  # which knows nothing of what came later
        [("alloc", "a", 2), use, ("use", "a", 0), after, ("wait", "e", 2), home_waits, free],
    ]


def _drawn_program(draw: Draw) -> Program:
    names = draw.shuffled(["w", "x", "y", "z"])
    program: Program = [("alloc", name, draw.integer(0, 2)) for name in names]
    events = 0
    for _ in range(22):
        kind = draw.integer(0, 9)
        if kind < 5:
            program.append(("use", draw.choice(names), draw.integer(0, 2)))
        elif kind < 7:
            program.append(("record", f"e{events}", draw.integer(0, 2)))
            events += 1
        elif kind < 9 and events:
            program.append(("wait", f"e{draw.integer(0, events - 1)}", draw.integer(0, 2)))
        elif len(names) > 1:
            program.append(("free", names.pop()))
    return program + [("free", name) for name in names]


def _needed(
    program: Program, *, waits: str = "follow", sync: bool = True, covers: bool = False
) -> set[Pair]:
    """waits: "follow" events as torch does, "ignore" them, "any" wait of the own stream for one of
    the other, or "late": an event knows of all work that was given before the wait. covers: what
    another late reader has waited for needs no record."""
    model, home, uses = StreamModel(), dict[str, int](), dict[str, list[tuple[int, str]]]()
    pairs: set[Pair] = set()
    for n, (verb, *rest) in enumerate(program):
        if verb == "alloc":
            home[rest[0]], uses[rest[0]] = rest[1], []
        elif verb == "use":
            uses[rest[0]].append((rest[1], f"use{n}"))
            model.launch(f"use{n}", 1.0, rest[1], engine=str(rest[1]))
        elif verb == "free":
            over = model.past(home[rest[0]])
            late = [(s, use) for s, use in uses[rest[0]] if use not in over]
            known = {r: model.past(r) for r, _ in late if covers}
            pairs |= {
                (rest[0], s)
                for s, use in late
                if not any(use in past for r, past in known.items() if r != s)
            }
        elif verb == "sync":
            model.run([("sync",)] if sync else [])
        elif verb == "wait" and waits == "late":
            records = (r for kind, *r in reversed(program[:n]) if kind == "record")
            where = next(stream for event, stream in records if event == rest[0])
            model.run([("record", f"late{n}", where), ("wait", f"late{n}", rest[1])])
        elif waits != "ignore":
            model.run([(verb, *rest)])
    return pairs


def _expect_pairs(got: Any, want: set[Pair], program: Program) -> None:
    pairs = [tuple(expect_tuple(pair, 2, PAIRS)) for pair in expect_tuple(got, None, PAIRS)]
    if not all(isinstance(name, str) and type(stream) is int for name, stream in pairs):
        raise Wrong(expected=PAIRS, got=describe(got))
    if len(set(pairs)) != len(pairs) or set(pairs) != want:
        missing, more = sorted(want - set(pairs)), sorted(set(pairs) - want)
        raise Wrong(
            expected=describe(sorted(want)),
            got=describe(sorted(pairs)),
            where=f"missing {missing}, too many {more}",
            why=_about(missing, more, program),
        )


def _about(missing: Sequence[Pair], more: Sequence[Pair], program: Program) -> str:
    """What the program says of the first pair that is missing, or too many."""
    if not missing and not more:
        return "A pair is listed more than once. One record for each tensor and stream is enough."
    name, stream = (missing or more)[0]
    home = {rest[0]: rest[1] for verb, *rest in program if verb == "alloc"}
    if missing:
        return (
            f"When {name} is freed its own stream, {home[name]}, does not know that the last use "
            f"on stream {stream} is over."
        )
    if ("free", name) not in program:
        return f"{name} is not freed in this program, so nobody gets its block."
    if (name, stream) not in _used(program):
        return f"No step uses {name} on stream {stream}."
    if home[name] == stream:
        return OWN_STREAM
    if ("sync",) in _behind_the_last_use(name, stream, program):
        return (
            f"A sync comes behind the use of {name} on stream {stream}. All work is over then, and "
            "every stream knows it: no record is needed."
        )
    return (
        f"When {name} is freed its own stream, {home[name]}, knows that the use on stream {stream} "
        "is over: no record is needed."
    )


def _behind_the_last_use(name: str, stream: int, program: Program) -> Program:
    """The steps from the last use of `name` on `stream` to where it is freed."""
    last = max(n for n, step in enumerate(program) if step == ("use", name, stream))
    return program[last : program.index(("free", name))]


def _others(program: Program) -> list[Pair]:
    """Every use on a stream that is not the tensor's own, of the tensors that are freed."""
    home = {rest[0]: rest[1] for verb, *rest in program if verb == "alloc"}
    return sorted((name, stream) for name, stream in _used(program) if home[name] != stream)


def _used(program: Program) -> set[Pair]:
    freed = {step[1] for step in program if step[0] == "free"}
    return {(step[1], step[2]) for step in program if step[0] == "use" and step[1] in freed}


recorded_streams.wrong(
    "none",
    "The allocator knows one stream of each tensor, the one that it was made on. A use on another "
    "stream is unknown to it.",
    recorded_streams=lambda program: [],
)
recorded_streams.wrong(
    "every_other_stream",
    "Every use on another stream was recorded. Where the tensor's own stream has waited for that "
    "use the order is kept already; a record that is not needed keeps the block for longer.",
    recorded_streams=lambda program: _others(program),
)
recorded_streams.wrong(
    "waits_ignored",
    "A wait changed nothing here: when the tensor's own stream waits for an event, all that the "
    "other stream was given before the event is over for whoever comes next.",
    recorded_streams=lambda program: sorted(_needed(program, waits="ignore")),
)
recorded_streams.wrong(
    "sync_ignored",
    "A sync comes between the use and the free, and a record is asked for all the same. After a "
    "sync all work is over, on every stream.",
    recorded_streams=lambda program: sorted(_needed(program, sync=False)),
)
recorded_streams.wrong(
    "sync_for_ever",
    "Uses behind a sync were taken for over, as those before it are. A sync ends the work that was "
    "given before it: a use that comes later is not over.",
    recorded_streams=lambda program: sorted(
        _needed(program[: [*program, ("sync",)].index(("sync",))])
    ),
)
recorded_streams.wrong(
    "event_knows_later_work",
    "An event stands for the work that its stream was given *before* it was recorded. What came "
    "between the record and the wait is not covered.",
    recorded_streams=lambda program: sorted(_needed(program, waits="late")),
)


@recorded_streams.wrong(
    "own_stream_too",
    OWN_STREAM,
)
def _(program: Program) -> Sequence[Pair]:
    own = {(rest[0], rest[1]) for verb, *rest in program if verb == "alloc"}
    return sorted(_needed(program) | (own & _used(program)))


@recorded_streams.wrong(
    "any_order_will_do",
    "An event orders one way: the stream that waits comes later. That the other stream waited for "
    "this one says nothing about when the other one is done.",
)
def _(program: Program) -> Sequence[Pair]:
    both: Program = []
    where: dict[str, int] = {}
    for verb, *rest in program:
        both.append((verb, *rest))
        if verb == "record":
            where[rest[0]] = rest[1]
    last = len(both)
    for n in reversed(range(last)):
        verb, *rest = both[n]
        if verb == "free":
            for event, stream in where.items():
                waiting = [r[1] for v, *r in both[:n] if v == "wait" and r[0] == event]
                for other in waiting:
                    both[n:n] = [("record", f"{event}{n}{other}", other),
                                 ("wait", f"{event}{n}{other}", stream)]  # fmt: skip
    return sorted(_needed(both))


@recorded_streams.wrong(
    "after_the_free",
    "The order came after the free. The block was given back before, and the next request may "
    "have got it.",
)
def _(program: Program) -> Sequence[Pair]:
    frees = [step for step in program if step[0] == "free"]
    return sorted(_needed([step for step in program if step[0] != "free"] + frees))


@recorded_streams.wrong(
    "home_is_stream_0",
    "Stream 0 was taken for the tensor's own. The own stream is the one that it was allocated on.",
)
def _(program: Program) -> Sequence[Pair]:
    moved = [("alloc", s[1], 0) if s[0] == "alloc" else s for s in program]
    return sorted(_needed(moved))


@recorded_streams.wrong(
    "nothing_is_ever_over",
    "Every use was recorded, also those on the tensor's own stream. That stream knows what it was "
    "given, and what it has waited for.",
)
def _(program: Program) -> Sequence[Pair]:
    return sorted(_used(program))


recorded_streams.wrong(
    "names_alone",
    "The streams are missing: a pair of the tensor and the stream that has to be recorded.",
    recorded_streams=lambda program: sorted({name for name, _ in _needed(program)}),
)


@recorded_streams.wrong(
    "never_freed_too",
    "A tensor that is never freed was recorded. Nobody gets its block, so nobody has to be told.",
)
def _(program: Program) -> Sequence[Pair]:
    freed = {step[1] for step in program if step[0] == "free"}
    kept = [("free", step[1]) for step in program if step[0] == "alloc" and step[1] not in freed]
    return sorted(_needed([*program, *kept]))


recorded_streams.wrong(
    "stream_first",
    "The pairs are the other way round: (tensor, stream) was asked for.",
    recorded_streams=lambda program: sorted((s, name) for name, s in _needed(program)),
)


recorded_streams.wrong(
    "one_for_each_tensor",
    "A tensor has one pair at most here. It needs one for each stream whose use is not over.",
    recorded_streams=lambda program: list(
        {pair[0]: pair for pair in sorted(_needed(program))}.values()
    ),
)


recorded_streams.wrong(
    "last_reader_alone",
    "Of two streams that may still read, only one is recorded, that which has waited for the "
    "other. torch's event on it would come after both; asked for is one record for each of them.",
    recorded_streams=lambda program: sorted(_needed(program, covers=True)),
)


recorded_streams.wrong(
    "a_dict",
    "This is a dict, with one stream for each tensor. A tensor may need several: return a list of "
    "pairs.",
    recorded_streams=lambda program: dict(sorted(_needed(program))),
)


def _followed(name: str, sentence: str, is_over: Callable[..., bool]) -> None:
    """Every use is followed from step to step. is_over: at a "record" or a "wait" `by` a stream, of
    an event (stream, when), whether a use on `stream`, `at` a step, of a tensor whose own stream is
    `own`, is over."""

    def answer(program: Program) -> Sequence[Pair]:
        home, uses, pairs = dict[str, int](), dict[str, dict[int, int]](), list[Pair]()
        events: dict[str, tuple[int, int]] = {}
        for n, (verb, *rest) in enumerate(program):
            if verb == "alloc":
                home[rest[0]], uses[rest[0]] = rest[1], {}
            elif verb == "use":
                uses[rest[0]][rest[1]] = n
            elif verb == "free":
                pairs += [(rest[0], s) for s in sorted(uses[rest[0]]) if s != home[rest[0]]]
            elif verb == "sync":
                uses = {name: {} for name in uses}
            else:
                by, event = rest[1], (rest[1], n) if verb == "record" else events[rest[0]]
                events[rest[0]] = event
                uses = {
                    name: {
                        stream: at
                        for stream, at in used.items()
                        if not is_over(verb, by, event, home[name], stream, at)
                    }
                    for name, used in uses.items()
                }
        return pairs

    recorded_streams.wrong(name, sentence, recorded_streams=answer)


_followed(
    "not_passed_on",
    "Waits pass on what they know: if stream 2 has waited for stream 1, then whoever waits for "
    "stream 2 knows of that work too. Only direct waits were followed.",
    lambda verb, by, event, own, stream, at: (
        verb == "wait" and (by, event[0]) == (own, stream) and at < event[1]
    ),
)
_followed(
    "whoever_waits",
    "A wait of any stream was taken for one of the tensor's own. Whoever gets the block comes on "
    "the own stream: that one has to wait.",
    lambda verb, by, event, own, stream, at: (
        verb == "wait" and event[0] == stream and at < event[1]
    ),
)
_followed(
    "recorded_is_over",
    "A use was taken for over when an event was recorded behind it. An event alone orders "
    "nothing: the tensor's own stream has to wait for it.",
    lambda verb, by, event, own, stream, at: verb == "record" and by == stream,
)
_followed(
    "any_wait_ends_all",
    "A wait was taken for the end of all work. It orders the one stream that waits behind the one "
    "event.",
    lambda verb, by, event, own, stream, at: verb == "wait",
)
_followed(
    "event_covers_its_stream",
    "A wait was taken to cover all uses on the event's stream, also those that came after the "
    "record. An event stands for what came before it.",
    lambda verb, by, event, own, stream, at: verb == "wait" and (by, event[0]) == (own, stream),
)


@recorded_streams.cost
def _(student: Student, draw: Draw) -> str:
    program = _drawn_program(draw)
    pairs = student.call("recorded_streams", program)
    return f"{len(pairs)} of {len(_others(program))} uses on other streams have to be recorded"
