"""Recordings: what a GPU showed, or a mocked device where it shows the truth, for readers who have
neither.

What lives here: the reader, a recorder for each, and recordings as `NAME.json`, each with its
provenance. What may not: anything that was not recorded on the device that it names.

    head_loss        the code that Inductor writes for the head's loss, in Triton
    head_loss_times  the fused loss against its peers: milliseconds, peak bytes
    step_memory      what the caching allocator did in two steps of training
    step_overlap     a profiler's trace: what runs beside what

`make record` makes them on a GPU: no chapter does, and no test but in a folder of its own.
In `mocked/` lies what the mocked device shows: the same under the same names, by `make
record-mocked` (`bench/record.py`), and what chapters' cells saw: `mocked.py`.
"""

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from onelayer.drawing.display import Shown
from onelayer.drawing.words import say
from onelayer.recordings.provenance import FIELDS, Provenance, in_html, in_text

HERE = Path(__file__).parent
MOCKED = HERE / "mocked"


class Content(Protocol):
    """What was recorded. Its str is for the eye; `plain` goes to JSON."""

    def plain(self) -> dict[str, Any]: ...


# What a recording shows -> the class that reads it, by its `from_plain`, and what makes a page of
# it. Both are imported when they are used: who records needs no picture.
SHOWS = {
    "loop": (
        "onelayer.profiling.loop_traces:LoopTraces",
        "onelayer.profiling.loop_traces:page_of",
    ),
    "code": ("onelayer.recordings.head_code:HeadCode", "onelayer.recordings.head_code:page_of"),
    "times": ("onelayer.recordings.head_times:HeadTimes", "onelayer.recordings.head_times:page_of"),
    "memory": (
        "onelayer.memory.allocator_history:AllocatorHistory",
        "onelayer.memory.allocator_picture:page_of",
    ),
    "overlap": (
        "onelayer.memory.stream_trace:StreamTrace",
        "onelayer.memory.stream_lanes:page_of",
    ),
    "mocked": ("onelayer.recordings.mocked:MockedRun", "onelayer.recordings.mocked:page_of"),
}


@dataclass(frozen=True, repr=False)
class Recording(Shown):
    """What was recorded under `name`, and where it comes from. One that nobody has made yet has
    neither, and says so."""

    name: str
    made: Provenance | None = None
    content: Content | None = None

    @property
    def exists(self) -> bool:
        return self.made is not None

    @property
    def provenance(self) -> str:
        """One line: where, with what, when and how, or that there is nothing."""
        if self.made is None:
            return say(
                "{name}: no recording. `make record` makes it on a machine with a CUDA GPU.",
                name=self.name,
            )
        return f"{self.name}: {self.made}"

    def __repr__(self) -> str:
        if self.content is None:
            return in_text(self.provenance)
        return f"{in_text(self.provenance)}\n\n{self.content}"

    def bundle(self) -> dict[str, Any]:
        bundle = {"text/plain": repr(self)}
        if self.content is not None:
            page_of = _found(SHOWS[shows_of(self.content)][1])
            page = page_of(self.content, self.made.device_name if self.made else "")
            bundle["text/html"] = in_html(self.provenance, page)
        return bundle


def read_recording(name: str, *, folder: Path = HERE) -> Recording:
    """The recording `name`, a mocked device's where a GPU has made none, or one that says that it
    does not exist.

    Raises ValueError for a file without complete provenance, for then nobody can say what it is,
    and for one whose content is not what it says that it shows.
    """
    places = [folder, *([MOCKED] if folder == HERE else [])]
    file = next((f for place in places if (f := place / f"{name}.json").exists()), None)
    if file is None:
        return Recording(name)
    return recording_of(name, json.loads(file.read_text(encoding="utf-8")))


def recording_of(name: str, held: dict[str, Any]) -> Recording:
    """The recording that a file `NAME.json` with this in it is. Raises ValueError as above."""
    missing = [field for field in (*FIELDS, "shows", "content") if not held.get(field)]
    if missing:
        raise ValueError(f"{name}.json does not say its {', '.join(missing)}: it proves nothing")
    if held["shows"] not in SHOWS:
        raise ValueError(f"{name}.json shows {held['shows']!r}; known are {', '.join(SHOWS)}")
    made = Provenance(**{field: str(held[field]) for field in FIELDS})
    try:
        content = _found(SHOWS[held["shows"]][0]).from_plain(held["content"])
    except (KeyError, TypeError, IndexError, SyntaxError, ValueError) as error:
        raise ValueError(f"{name}.json holds no {held['shows']}: {error!r}") from error
    return Recording(name, made, content)


def show_recording(name: str) -> Recording:
    """Shows what a GPU or a mocked one showed, with device, versions and date, or says that there
    is no recording."""
    return read_recording(name).show()


def shows_of(content: Content) -> str:
    """What a recording of `content` shows: a key of SHOWS."""
    kind = f"{type(content).__module__}:{type(content).__name__}"
    return next(shows for shows, (reader, _) in SHOWS.items() if reader == kind)


def _found(address: str) -> Any:
    module, _, name = address.partition(":")
    return getattr(import_module(module), name)
