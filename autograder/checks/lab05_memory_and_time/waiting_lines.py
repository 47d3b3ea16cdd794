"""The lines that make the host wait, found in a log of CUDA's calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final

from autograder.judge import Draw, Student, expect_equal, expect_tuple
from onelayer.recordings import read_recording
from onelayer.recordings.mocked import FOLDER, MockedRun

from . import lab

Row = tuple[int, str, int, int, int | None]  # line, api, called, returned, work over
Log = list[Row]
LINE: Final = 0
API: Final = 1
CALLED: Final = 2
RETURNED: Final = 3
OVER: Final = 4
ASYNC_COPY = "cudaMemcpyAsync"
COMPUTED_BY_THE_CPU = ("x[mask]", "nonzero")  # the mocked device adds copies of its own to these


@lab.question(
    "waiting_lines",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "A long call need not be a wait, and a wait need not be long. Which two signs are there?",
        "The calls with Synchronize in their name wait. A cudaMemcpyAsync has waited when it "
        "returned only after its own work was over. Add up returned - called for each line, where "
        "work was still to be waited for when the call began.",
        "over = max(row[4] or 0 for row in log[: k + 1])",
    ),
)
def waiting_lines(student: Student, draw: Draw) -> None:
    """The lines of a program that make the host wait for the device, the longest wait first.

    log: the calls of CUDA in order, each (line, name of the call, called us, returned us, us at
    which the work that it gave to the device is over, or None). All work is on one stream. A call
    waits if it returns only when the work is over that was still running, or its own, and it does
    so by its nature -> list of (line, us in such calls), without lines that did not wait.
    """
    fixed = [TO_THE_MICROSECOND, A_LOOP, NO_WORK_BETWEEN, COPIES, NO_WAIT, ALIKE, []]
    for log in [*(_made(draw, n) for n in (5, 9)), *fixed, *_drawn_logs(draw)]:
        got = expect_tuple(student.call("waiting_lines", log), None, "a list of (line, us)")
        expect_equal(got, _in_their_order(got, _waits(log)), why=_about_a_line(got, log))


def _in_their_order(got: Sequence[Any], waits: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """`waits`, the longest first; lines that wait equally long come as in `got`."""
    lines = [pair[0] for pair in got if isinstance(pair, (list, tuple)) and pair]
    places = {line: place for place, line in enumerate(lines) if type(line) is int}
    return sorted(waits, key=lambda wait: (-wait[1], places.get(wait[0], len(lines))))


def _about_a_line(got: Sequence[Any], log: Log) -> str:
    """What is true of the first line of which `got` says something else."""
    pairs = [pair for pair in got if isinstance(pair, (list, tuple)) and len(pair) == 2]
    said = {line: us for line, us in pairs if type(line) is type(us) is int}
    lines = [line for line, _ in pairs if type(line) is int]
    if len(set(lines)) < len(lines):
        return "A line is listed more than once. It has one pair, and in it the sum of its waits."
    if len(said) < len(got):
        return ""
    rows = list(_waiting(log, _is_wait))
    for line, us in _waits(log):
        there = [(row, over) for row, over in rows if row[LINE] == line]
        if line not in said:
            row, over = there[0]
            return (
                f"Line {line} is missing. It calls {row[API]} at {row[CALLED]} us and comes back "
                f"at {row[RETURNED]} us: work is going on until {over} us."
            )
        if said[line] != us:
            times = [row[RETURNED] - row[CALLED] for row, _ in there]
            return f"The calls in which line {line} waits take {times} us."
    more = [line for line in said if line not in {row[LINE] for row, _ in rows}]
    return _about_another(more[0], said[more[0]], log) if more else ""


def _about_another(line: int, us: int, log: Log) -> str:
    """Of a line that does not wait, what its call shows that `us` was counted for."""
    over = 0
    for row in log:
        own, counted = row[OVER], row[LINE] == line and row[RETURNED] - row[CALLED] == us
        if counted and _synchronize(row) and 0 < over <= row[CALLED]:
            return (
                f"Line {line} is listed. It calls {row[API]} at {row[CALLED]} us, and all work is "
                f"over at {over} us: there is nothing to wait for."
            )
        if counted and row[API] == ASYNC_COPY and own is not None and own > row[RETURNED]:
            return (
                f"Line {line} is listed. Its copy comes back at {row[RETURNED]} us, and its work "
                f"goes on until {own} us: the host did not wait for it."
            )
        over = max(over, own or 0)
    return f"Line {line} is listed, and no call of it waits for the device."


@cache
def _fragments() -> tuple[tuple[str, tuple[str, ...], bool], ...]:
    """Of each recorded line of Python its text, its calls of CUDA in order, and whether its copies
    come from ordinary memory."""
    found: dict[str, list[str]] = {}
    ordinary = set()
    for name in ("05_twelve_lines", "05_copy_ordinary", "05_copy_pinned"):
        run = read_recording(name, folder=FOLDER).content
        if not isinstance(run, MockedRun):
            raise ValueError(f"there is no recording {name}")
        lines: dict[str, list[str]] = {}
        for call in run.calls:
            lines.setdefault(call.line, []).append(call.api)
        for text, apis in lines.items():
            if text.startswith(("y = ", "there.copy_")) and not any(
                word in text for word in COMPUTED_BY_THE_CPU
            ):
                found[f"{name} {text}"] = apis
        ordinary |= {f"{name} {text}" for text in lines if name == "05_copy_ordinary"}
    return tuple((text, tuple(apis), text in ordinary) for text, apis in found.items())


EXTRA = (
    ("a new segment", ("cudaMalloc", "cudaLaunchKernel"), False),
    ("pinned memory", ("cudaHostAlloc",), False),
    ("a new segment on an idle device", ("cudaDeviceSynchronize", "cudaMalloc"), False),
    ("an event between two streams", ("cudaEventRecord", "cudaStreamWaitEvent"), False),
    ("a question to an event", ("cudaEventQuery",), False),
    ("an explicit wait", ("cudaDeviceSynchronize",), False),
    ("a wait for an event", ("cudaEventSynchronize",), False),
)


TO_THE_MICROSECOND: Log = [  # over when the wait begins; returned when the copy is over
    (7, "cudaLaunchKernel", 0, 5, 90),
    (8, "cudaDeviceSynchronize", 90, 92, None),
    (9, ASYNC_COPY, 93, 131, 131),
]
A_LOOP: Log = [  # one line waits three times, another in between
    (7, "cudaLaunchKernel", 0, 5, 50),
    (8, "cudaStreamSynchronize", 6, 51, None),
    (7, "cudaLaunchKernel", 52, 57, 120),
    (8, "cudaStreamSynchronize", 58, 121, None),
    (9, "cudaLaunchKernel", 122, 127, 210),
    (10, "cudaEventSynchronize", 128, 211, None),
    (7, "cudaLaunchKernel", 212, 217, 230),
    (8, "cudaDeviceSynchronize", 218, 231, None),
]


NO_WORK_BETWEEN: Log = [  # a call that gives no work, and the wait behind it
    (7, "cudaLaunchKernel", 0, 5, 90),
    (8, "cudaEventRecord", 6, 8, None),
    (8, "cudaEventSynchronize", 9, 91, None),
    (9, "cudaLaunchKernel", 92, 97, 180),
    (10, "cudaMalloc", 98, 150, None),
    (11, "cudaStreamSynchronize", 151, 181, None),
    (12, "cudaLaunchKernel", 182, 230, 210),  # slow, and its kernel is over before it returns
]
COPIES: Log = [  # slow to be called, and no wait; quick, and one
    (7, ASYNC_COPY, 0, 60, 140),
    (8, "cudaLaunchKernel", 61, 66, 180),
    (9, ASYNC_COPY, 200, 205, 204),
    (10, "cudaStreamSynchronize", 206, 207, None),
]
NO_WAIT: Log = [  # at first nothing was given to the device yet
    (6, "cudaDeviceSynchronize", 0, 2, None),
    (7, "cudaLaunchKernel", 3, 8, 60),
    (8, "cudaEventQuery", 9, 11, None),
    (9, "cudaEventRecord", 12, 80, None),  # slow, and by then the kernel is over
]


ALIKE: Log = [  # two lines wait equally long
    (7, "cudaLaunchKernel", 0, 5, 90),
    (8, "cudaDeviceSynchronize", 6, 91, None),
    (9, "cudaLaunchKernel", 92, 97, 182),
    (10, "cudaStreamSynchronize", 98, 183, None),
]


def _drawn_logs(draw: Draw) -> list[Log]:
    return [_made(draw, draw.integer(8, 14)) for _ in draw.cases(4)]


def _made(draw: Draw, lines: int) -> Log:
    """A log in which no two lines wait equally long: which of them came first would be chance."""
    while True:
        log = _laid_out(draw, lines)
        waits = [us for _, us in _waits(log)]
        if len(set(waits)) == len(waits):
            return log


def _laid_out(draw: Draw, lines: int) -> Log:
    """Drawn lines, with a copy from ordinary memory, a wait for nothing and a long launch among
    them, on a clock of their own."""
    kinds = [*_fragments(), *EXTRA]
    copies = [k for k in kinds if "there.copy_" in k[0]]  # from ordinary memory, from pinned
    must = [*copies, *(k for k in EXTRA if "Query" not in k[1][0])]
    chosen = draw.shuffled([*must, *(draw.choice(kinds) for _ in range(lines))])
    idle = ("a wait for nothing", ("cudaDeviceSynchronize", "cudaDeviceSynchronize"), False)
    chosen.insert(draw.integer(1, len(chosen)), idle)
    numbers = sorted(draw.shuffled(range(10, 90))[: len(chosen)])
    log: Log = []
    now = over = 0
    for number, (_, apis, ordinary) in zip(numbers, chosen, strict=True):
        began, now = now, now + 5
        over = max(over, now) + draw.integer(31, 400)
        log.append((number, "cudaLaunchKernel", began, now, over))
        for api in apis:
            called, cost = now + draw.integer(1, 6), draw.integer(2, 9)
            now, done = called + cost, None
            if api in ("cudaMalloc", "cudaHostAlloc"):
                now = called + draw.integer(150, 700)
            elif api == "cudaLaunchKernel":
                done = over = max(over, now) + draw.integer(10, 300)
            elif api == ASYNC_COPY:
                done = over = max(over, now) + draw.integer(10, 300)
                now = over + 1 if ordinary else now
            elif "Synchronize" in api:
                now = max(now, over + 1)
            log.append((number, api, called, now, done))
    return log


def _waits(log: Sequence[Row], *, is_wait: Callable[[Row], bool] | None = None) -> list[Any]:
    """By line; a call that had nothing to wait for does not count."""
    waited: dict[int, int] = {}
    for row, _ in _waiting(log, is_wait or _is_wait):
        waited[row[LINE]] = waited.get(row[LINE], 0) + row[RETURNED] - row[CALLED]
    return sorted(waited.items(), key=lambda pair: (-pair[1], pair[0]))


def _waiting(log: Sequence[Row], is_wait: Callable[[Row], bool]) -> Iterator[tuple[Row, int]]:
    """The calls that waited, each with the time at which the work that it waited for was over."""
    over = 0
    for row in log:
        over = max(over, row[OVER] or 0)
        if is_wait(row) and row[CALLED] < over <= row[RETURNED]:
            yield row, over


def _is_wait(row: Row) -> bool:
    own = row[OVER]
    copied = row[API] == ASYNC_COPY and own is not None and own <= row[RETURNED]
    return "Synchronize" in row[API] or copied


def _synchronize(row: Row) -> bool:
    return "Synchronize" in row[API]


waiting_lines.wrong(
    "synchronize_only",
    "A copy from ordinary memory waits as well, although its call is named Async: it returned only "
    "after its own work was over.",
    waiting_lines=lambda log: _waits(log, is_wait=_synchronize),
)
waiting_lines.wrong(
    "every_copy",
    "A copy was counted that did not wait: it returned before its work was over, as a copy from "
    "pinned memory does.",
    waiting_lines=lambda log: _every(log, lambda r: _synchronize(r) or r[API] == ASYNC_COPY),
)
waiting_lines.wrong(
    "long_calls",
    "A long call was taken for a wait. cudaMalloc and cudaHostAlloc take long because the driver "
    "works, not because the device does.",
    waiting_lines=lambda log: _every(log, lambda r: r[RETURNED] - r[CALLED] > 20),
)
waiting_lines.wrong(
    "during_which_work_ended",
    "Work ended by chance while another call ran, such as cudaMalloc. The call did not wait for "
    "it.",
    waiting_lines=lambda log: _waits(log, is_wait=lambda row: True),
)
waiting_lines.wrong(
    "slow_launches",
    "A launch was counted that came back after its kernel was over. It was slow for another "
    "reason: only a copy or a synchronisation waits.",
    waiting_lines=lambda log: _waits(
        log, is_wait=lambda r: _synchronize(r) or (r[OVER] or r[RETURNED] + 1) <= r[RETURNED]
    ),
)
waiting_lines.wrong(
    "waits_for_nothing",
    "A synchronisation was counted that found the device idle: it returned at once.",
    waiting_lines=lambda log: _every(log, _is_wait),
)
waiting_lines.wrong(
    "stream_waits_too",
    "cudaStreamWaitEvent lets a stream wait, on the device. The host goes on.",
    waiting_lines=lambda log: _every(
        log, lambda r: "Wait" in r[API] or (_is_wait(r) and _pending(log, r))
    ),
)
waiting_lines.wrong(
    "in_order_of_lines",
    "The lines are in the order of the program. The longest wait comes first.",
    waiting_lines=lambda log: sorted(_waits(log)),
)
waiting_lines.wrong(
    "lines_alone",
    "The microseconds are missing: pairs of a line and its wait.",
    waiting_lines=lambda log: [line for line, _ in _waits(log)],
)


def _every(log: Sequence[Row], counts: Callable[[Row], bool]) -> list[Any]:
    waited: dict[int, int] = {}
    for row in log:
        if counts(row):
            waited[row[LINE]] = waited.get(row[LINE], 0) + row[RETURNED] - row[CALLED]
    return sorted(waited.items(), key=lambda pair: (-pair[1], pair[0]))


def _pending(log: Sequence[Row], row: Row) -> bool:
    """Whether work was left when the call began."""
    before = log[: list(log).index(row) + 1]
    return row[CALLED] < max(r[OVER] or 0 for r in before)


def _of_a_line(log: Sequence[Row], pick: Callable[[list[int]], int]) -> list[Any]:
    waits: dict[int, list[int]] = {}
    for row in log:
        if _is_wait(row) and _pending(log, row):
            waits.setdefault(row[LINE], []).append(row[RETURNED] - row[CALLED])
    picked = {line: pick(times) for line, times in waits.items()}
    return sorted(picked.items(), key=lambda pair: (-pair[1], pair[0]))


waiting_lines.wrong(
    "last_wait_of_a_line",
    "A line that waits more than once has its last wait here. Add its waits up.",
    waiting_lines=lambda log: _of_a_line(log, lambda times: times[-1]),
)
waiting_lines.wrong(
    "longest_wait_of_a_line",
    "A line that waits more than once has its longest wait here. Add its waits up.",
    waiting_lines=lambda log: _of_a_line(log, max),
)
waiting_lines.wrong(
    "longest_line_alone",
    "Only the line with the longest wait is here. All lines that wait are asked for.",
    waiting_lines=lambda log: _waits(log)[:1],
)
waiting_lines.wrong(
    "device_synchronize_only",
    "cudaStreamSynchronize and cudaEventSynchronize wait as well: they were left out.",
    waiting_lines=lambda log: _every(
        log,
        lambda r: (
            (r[API] == "cudaDeviceSynchronize" or (_is_wait(r) and r[API] == ASYNC_COPY))
            and _pending(log, r)
        ),
    ),
)
waiting_lines.wrong(
    "every_copy_that_found_work",
    "A copy was counted that did not wait: it returned before its work was over, as a copy from "
    "pinned memory does.",
    waiting_lines=lambda log: _every(
        log, lambda r: (_synchronize(r) or r[API] == ASYNC_COPY) and _pending(log, r)
    ),
)
waiting_lines.wrong(
    "long_calls_that_found_work",
    "A long call was taken for a wait. cudaMalloc and cudaHostAlloc take long because the driver "
    "works, not because the device does.",
    waiting_lines=lambda log: _every(
        log, lambda r: r[RETURNED] - r[CALLED] > 20 and _pending(log, r)
    ),
)


waiting_lines.wrong(
    "stream_synchronize_only",
    "cudaDeviceSynchronize and cudaEventSynchronize wait as well: they were left out.",
    waiting_lines=lambda log: _waits(
        log,
        is_wait=lambda r: _is_wait(r) and (not _synchronize(r) or "Stream" in r[API]),
    ),
)


waiting_lines.wrong(
    "event_synchronize_left_out",
    "cudaEventSynchronize waits as well: it was left out.",
    waiting_lines=lambda log: _waits(
        log, is_wait=lambda r: _is_wait(r) and "cudaEventSync" not in r[API]
    ),
)


waiting_lines.wrong(
    "whatever_found_work",
    "Every call was counted that began while the device was at work. Most of them return at once; "
    "only a synchronisation or a copy from ordinary memory waits.",
    waiting_lines=lambda log: _every(log, lambda r: _pending(log, r)),
)


waiting_lines.wrong(
    "only_copies",
    "Only calls were counted that returned after their own work. A synchronisation has none, and "
    "waits for that of others.",
    waiting_lines=lambda log: _waits(log, is_wait=lambda r: _is_wait(r) and not _synchronize(r)),
)


@waiting_lines.wrong(
    "counted",
    "This counts the waits of each line. Asked is how long they are: returned - called.",
)
def _(log: Sequence[Row]) -> Any:
    lines = [row[LINE] for row in log if _is_wait(row) and _pending(log, row)]
    found = [(line, lines.count(line)) for line in dict.fromkeys(lines)]
    return sorted(found, key=lambda pair: -pair[1])


@waiting_lines.wrong(
    "until_the_work_was_over",
    "The time was counted to the end of the work. Asked is how long the host was in the call: "
    "returned - called.",
)
def _(log: Sequence[Row]) -> Any:
    waited: dict[int, int] = {}
    over = 0
    for row in log:
        over = max(over, row[OVER] or 0)
        if _is_wait(row) and row[CALLED] < over:
            waited[row[LINE]] = waited.get(row[LINE], 0) + over - row[CALLED]
    return sorted(waited.items(), key=lambda pair: -pair[1])


waiting_lines.wrong(
    "shortest_first",
    "The shortest wait comes first here. The longest was asked for first.",
    waiting_lines=lambda log: _waits(log)[::-1],
)


waiting_lines.wrong(
    "a_dict",
    "This is a dict. A list of pairs was asked for, the longest wait first: "
    "sorted(waited.items(), ...).",
    waiting_lines=lambda log: dict(_waits(log)),
)


waiting_lines.wrong(
    "microseconds_first",
    "The pairs are the other way round: (line, us) was asked for.",
    waiting_lines=lambda log: [(us, line) for line, us in _waits(log)],
)


@waiting_lines.wrong(
    "places_in_the_log",
    "These are places in the log. The first entry of a call is its line.",
)
def _(log: Sequence[Row]) -> Any:
    placed = [(place, *row[1:]) for place, row in enumerate(log)]
    return _waits(placed)


@waiting_lines.wrong(
    "a_pair_for_each_wait",
    "A line that waits more than once has several pairs. Add its waits up.",
)
def _(log: Sequence[Row]) -> Any:
    rows = [row for row in log if _is_wait(row) and _pending(log, row)]
    return sorted(((r[LINE], r[RETURNED] - r[CALLED]) for r in rows), key=lambda pair: -pair[1])


@waiting_lines.wrong(
    "lines_without_a_wait",
    "Lines that did not wait are listed with 0. Only those that waited were asked for.",
)
def _(log: Sequence[Row]) -> Any:
    waits = dict(_waits(log))
    lines = dict.fromkeys(row[LINE] for row in log)
    return sorted(((n, waits.get(n, 0)) for n in lines), key=lambda pair: -pair[1])


@waiting_lines.wrong(
    "memory_calls_too",
    "cudaMalloc was counted. It takes long because the driver works; it waits for no work.",
)
def _(log: Sequence[Row]) -> Any:
    def counts(row: Row) -> bool:
        return (_is_wait(row) or "Malloc" in row[API]) and _pending(log, row)

    return _every(log, counts)


@waiting_lines.wrong(
    "queries_too",
    "cudaEventQuery was counted. It asks whether the work is over, and does not wait for it.",
)
def _(log: Sequence[Row]) -> Any:
    def counts(row: Row) -> bool:
        return (_is_wait(row) or "Query" in row[API]) and _pending(log, row)

    return _every(log, counts)


@waiting_lines.wrong(
    "own_work_forgotten",
    "A copy from ordinary memory on an idle device was left out. It waits for its own work, "
    "whether the device had any before or not.",
)
def _(log: Sequence[Row]) -> Any:
    def counts(row: Row) -> bool:
        before = log[: list(log).index(row)]
        return _is_wait(row) and row[CALLED] < max((r[OVER] or 0 for r in before), default=0)

    return _every(log, counts)


@waiting_lines.wrong(
    "work_of_the_call_before",
    "A wait was left out because the call before it gave no work. What was given earlier may still "
    "run: keep the latest `over` of all calls so far.",
)
def _(log: Sequence[Row]) -> Any:
    waited: dict[int, int] = {}
    for before, row in pairwise([log[0], *log]):
        over = max(before[OVER] or 0, row[OVER] or 0)
        if _is_wait(row) and row[CALLED] < over:
            waited[row[LINE]] = waited.get(row[LINE], 0) + row[RETURNED] - row[CALLED]
    return sorted(waited.items(), key=lambda pair: -pair[1])


@waiting_lines.cost
def _(student: Student, draw: Draw) -> str:
    log = _made(draw, 9)
    found = student.call("waiting_lines", log)
    total = sum(us for _, us in found)
    return f"{len(found)} lines wait, for {total} of {log[-1][RETURNED]} us"
