"""What is said of ranks that did not all come back: who failed, who waits where, and for whom."""

import itertools
import linecache
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import distributed

from onelayer.drawing.words import counted, say

from . import one_rank
from .one_rank import Failed, Frame

_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.+)')
_NOTED_WAIT = "_noted_wait"  # stands for Work.wait() while collectives are recorded
_Fate = tuple[str, str, str]
"""What is said of one rank, what of several, and what stands in the field of either."""
_ENDED = ("rank {ranks} ended with {what}", "ranks {ranks} ended with {what}")
_RAISED = ("rank {ranks} raised {what}", "ranks {ranks} raised {what}")
_STILL = ("rank {ranks} was still waiting{what}", "ranks {ranks} were still waiting{what}")
_LATE = (
    "rank {ranks} was not back after {s:g} s, and waiting{what}",
    "ranks {ranks} were not back after {s:g} s, and waiting{what}",
)


def report(
    answers: Mapping[int, bytes | Failed | None], stacks: Mapping[int, str], timeout_s: float
) -> str:
    """A paragraph for each fate, causes first, with all ranks that share it; a line for those who
    are done. answers: in the order in which they came, None where none did; stacks: of those."""
    failed = {n: answer for n, answer in answers.items() if isinstance(answer, Failed)}
    how = _STILL if failed else _LATE
    fates = [(number, _fault(answer)) for number, answer in failed.items()]
    fates += [(number, (*how, _waiting(stacks[number]))) for number in sorted(stacks)]
    done = sorted(n for n, answer in answers.items() if isinstance(answer, bytes))
    calling = [] if failed else [n for n in sorted(stacks) if _call_of_torch(_frames(stacks[n]))]
    told = _together(fates, timeout_s)
    return "\n".join([say("not every rank came back"), *told, *_done(done, calling)])


def _together(fates: list[tuple[int, _Fate]], timeout_s: float) -> Iterator[str]:
    """Ranks of one fate in one paragraph."""
    sharing: dict[_Fate, list[int]] = {}
    for number, fate in fates:
        sharing.setdefault(fate, []).append(number)
    for (one, many, what), numbers in sharing.items():
        yield counted(len(numbers), one, many, ranks=_listed(numbers), what=what, s=timeout_s)


def _listed(numbers: list[int]) -> str:
    """In their own order: which of two equal ranks came first is chance."""
    return ", ".join(map(str, sorted(numbers)))


def _done(done: list[int], calling: list[int]) -> list[str]:
    """Who returned, and what that has to do with those who stand in a call of torch."""
    if not done:
        return []
    line = counted(len(done), "done: rank {ranks}", "done: ranks {ranks}", ranks=_listed(done))
    if calling:
        line += counted(
            len(calling),
            ", without the call that rank {ranks} waits for",
            ", without the call that ranks {ranks} wait for",
            ranks=_listed(calling),
        )
    return [line]


def _fault(failed: Failed) -> _Fate:
    if not failed.kind:
        return (*_ENDED, failed.message)
    head = f"{failed.kind}: {failed.message}"
    return (*_RAISED, "\n    ".join([head, *map(_place, failed.frames)]))


def _waiting(stack: str) -> str:
    """Where a rank was: torch's function, and the lines that led to it, innermost last; nothing
    where it said nothing."""
    frames = _frames(stack)
    theirs = [frame for frame in reversed(frames) if one_rank.is_theirs(frame[0])]
    inside = say(" in {name}()", name=name) if (name := _call_of_torch(frames)) else ""
    return "\n    ".join([inside, *map(_place, theirs)])


def _frames(stack: str) -> list[Frame]:
    """Of the rank's function. stack: as faulthandler writes it, innermost first, and so is this."""
    matches = [match for match in map(_FRAME.search, stack.splitlines()) if match]
    frames = [(match["file"], int(match["line"]), match["name"]) for match in matches]
    return list(itertools.takewhile(lambda frame: frame[0] != one_rank.__file__, frames))


def _call_of_torch(frames: list[Frame]) -> str:
    """The public function of torch in which a rank stands, as its caller names it; "" for none."""
    inside = [name for file, _, name in frames if one_rank.is_torchs(file)]
    public = [name for name in inside if not name.startswith("_") and hasattr(distributed, name)]
    if public:
        return public[-1]
    return "Work.wait" if any(name == _NOTED_WAIT for _, _, name in frames) else ""


def _place(frame: Frame) -> str:
    """A frame in one line, with its source where this process knows it, as it does a cell's. A
    cell's file is no place that anybody could look at."""
    file, line, name = frame
    source = linecache.getline(file, line).strip()
    where = say("line {line}, in {name}", line=line, name=name)
    if Path(file).is_file() and "ipykernel_" not in file:
        where = f"{file}, {where}"
    return f"{where}: {source}" if source else where
