"""What is said of ranks that did not all come back: who failed, who waits where, and for whom."""

import itertools
import linecache
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from torch import distributed

from . import one_rank
from .one_rank import Failed, Frame

_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.+)')
_NOTED_WAIT = "_noted_wait"  # stands for Work.wait() while collectives are recorded


def report(
    answers: Mapping[int, bytes | Failed | None], stacks: Mapping[int, str], timeout_s: float
) -> str:
    """A paragraph for each fate, causes first, with all ranks that share it; a line for those who
    are done. answers: in the order in which they came, None where none did; stacks: of those."""
    failed = {n: answer for n, answer in answers.items() if isinstance(answer, Failed)}
    how = "still" if failed else f"not back after {timeout_s:g} s, and"
    fates = [(number, _fault(answer)) for number, answer in failed.items()]
    fates += [(number, _waiting(stacks[number], how)) for number in sorted(stacks)]
    done = sorted(n for n, answer in answers.items() if isinstance(answer, bytes))
    calling = [] if failed else [n for n in sorted(stacks) if _call_of_torch(_frames(stacks[n]))]
    return "\n".join(["not every rank came back", *_together(fates), *_done(done, calling)])


def _together(fates: list[tuple[int, tuple[str, str]]]) -> Iterator[str]:
    """Ranks of one fate in one paragraph. A fate: a verb and how it goes on."""
    sharing: dict[tuple[str, str], list[int]] = {}
    for number, fate in fates:
        sharing.setdefault(fate, []).append(number)
    for (verb, rest), numbers in sharing.items():
        plural = verb == "was" and len(numbers) > 1
        yield f"rank {_listed(numbers)} {'were' if plural else verb} {rest}"


def _listed(numbers: list[int]) -> str:
    """In their own order: which of two equal ranks came first is chance."""
    return ", ".join(map(str, sorted(numbers)))


def _done(done: list[int], calling: list[int]) -> list[str]:
    """Who returned, and what that has to do with those who stand in a call of torch."""
    if not done:
        return []
    line = f"done: rank {_listed(done)}"
    if calling:
        wait = "wait" if len(calling) > 1 else "waits"
        line += f", without the call that rank {_listed(calling)} {wait} for"
    return [line]


def _fault(failed: Failed) -> tuple[str, str]:
    if not failed.kind:
        return "ended", f"with {failed.message}"
    head = f"{failed.kind}: {failed.message}"
    return "raised", "\n    ".join([head, *map(_place, failed.frames)])


def _waiting(stack: str, how: str) -> tuple[str, str]:
    """Where a rank was: torch's function, and the lines that led to it, innermost last; nothing
    where it said nothing."""
    frames = _frames(stack)
    theirs = [frame for frame in reversed(frames) if one_rank.is_theirs(frame[0])]
    inside = f" in {name}()" if (name := _call_of_torch(frames)) else ""
    return "was", "\n    ".join([f"{how} waiting{inside}", *map(_place, theirs)])


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
    where = f"line {line}, in {name}"
    if Path(file).is_file() and "ipykernel_" not in file:
        where = f"{file}, {where}"
    return f"{where}: {source}" if source else where
