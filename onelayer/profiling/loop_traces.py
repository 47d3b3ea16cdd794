"""`loop_trace`: the traces of a slow loop and of the repaired one, from the best device there is.

On a GPU they are measured. With a CUDA build of torch the mocked device makes them anew; elsewhere
a recording that it made is read. Each says which.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any, Self

import torch

from onelayer.drawing.words import say
from onelayer.mock_cuda.builds import NoMock
from onelayer.mock_cuda.run import on_mock_gpu
from onelayer.profiling.profiled import Event, profiled
from onelayer.profiling.slow_loops import LOOPS
from onelayer.recordings import HERE, read_recording
from onelayer.recordings.provenance import Provenance, in_text, mocked_provenance, provenance_here
from onelayer.recordings.storing import store

FOLDER = HERE / "loops"
DEVICE = "T4"
"""The device that is mocked: slow enough that it, and not this host, is the limit of a loop."""
STEPS = {"steps_each_parameter": 1}
"""So many steps are traced, where it is not two: some have thousands of events."""
_NUMBERS = ("correlation", "External id", "Python id")


@dataclass(frozen=True)
class LoopTraces:
    """The events of some steps, before the repair and after it."""

    before: list[Event]
    after: list[Event]

    def plain(self) -> dict[str, Any]:
        forms: dict[str, int] = {}
        rows = {side: [_row(event, forms) for event in events] for side, events in self._sides()}
        return {"forms": [json.loads(form) for form in forms], **rows}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        forms: list[Event] = plain["forms"]
        before, after = ([_event(row, forms) for row in plain[side]] for side in _SIDES)
        return cls(before, after)

    def _sides(self) -> list[tuple[str, list[Event]]]:
        return list(zip(_SIDES, (self.before, self.after), strict=True))

    def __str__(self) -> str:
        return say(
            "{before:,} events before the repair, {after:,} after",
            before=len(self.before),
            after=len(self.after),
        )


_SIDES = ("before", "after")


def page_of(traces: LoopTraces, device: str = "") -> str:
    """A sentence with the device's name: `show_traces` draws them."""
    return f"<p>{escape(f'{device}: {traces}' if device else str(traces))}</p>"


def _row(event: Event, forms: dict[str, int]) -> list[Any]:
    """What events of one form share is written once; a row has the number of its form and its own
    numbers."""
    form = {**event, "args": dict(event["args"])} if "args" in event else dict(event)
    own = [form.pop(key, None) for key in ("ts", "dur", "id")]
    args = form.get("args", {})
    own += [args.pop(key, None) for key in _NUMBERS]
    while own[-1] is None:
        own.pop()
    return [forms.setdefault(json.dumps(form), len(forms)), *own]


def _event(row: list[Any], forms: list[Event]) -> Event:
    number, *own = row
    form = forms[number]
    event = {key: value for key, value in form.items() if key != "args"}
    event |= {k: v for k, v in zip(("ts", "dur", "id"), own, strict=False) if v is not None}
    if "args" in form:
        named = zip(_NUMBERS, own[3:], strict=False)
        event["args"] = {**form["args"], **{k: v for k, v in named if v is not None}}
    return event


@dataclass(frozen=True)
class LoopTrace:
    """The traces of a loop, and in one line where they come from."""

    name: str
    traces: LoopTraces
    made: Provenance

    @property
    def before(self) -> list[Event]:
        return self.traces.before

    @property
    def after(self) -> list[Event]:
        return self.traces.after

    def __repr__(self) -> str:
        return in_text(f"{self.name}: {self.made}")


def loop_trace(name: str) -> LoopTrace:
    """The traces of the loop `name` of `slow_loops`, slow and repaired.

    Raises KeyError for another name.
    """
    LOOPS[name]
    if torch.cuda.is_available():
        return LoopTrace(name, _traced("cuda", name), provenance_here("cuda", say("this cell")))
    try:
        return LoopTrace(
            name, _mocked()[name], mocked_provenance(f"Tesla {DEVICE}", say("this cell"))
        )
    except NoMock:
        found = read_recording(f"loop_{name}", folder=FOLDER)
    if not isinstance(found.content, LoopTraces) or found.made is None:
        raise ValueError(say("there is no recording of {name!r}", name=name))
    return LoopTrace(name, found.content, found.made)


def _traced(device: str, name: str) -> LoopTraces:
    steps = STEPS.get(name, 2)
    make = LOOPS[name]
    before, after = (
        profiled(make(device, repaired=repaired), steps=steps, device=device)
        for repaired in (False, True)
    )
    return LoopTraces(_from_zero(before), _from_zero(after))


def _from_zero(events: list[Event]) -> list[Event]:
    """The same, on a clock that begins with the first of them: shorter, and as good."""
    begin = min(event["ts"] for event in events)
    return [{**event, "ts": round(event["ts"] - begin, 3)} for event in events]


@cache
def _mocked() -> dict[str, LoopTraces]:
    """All of them, from one process on the mocked device. Raises NoMock."""
    run = on_mock_gpu(_every_loop, device=DEVICE, memory=None, trace=False, show=False)
    found: dict[str, LoopTraces] = run.result
    return found


def _every_loop() -> dict[str, LoopTraces]:
    return {name: _traced("cuda", name) for name in LOOPS}


def record_loops(made_by: str) -> list[str]:
    """Writes the recordings that readers without a CUDA build are shown; a line about each.

    Raises NoMock where there can be no mocked device.
    """
    FOLDER.mkdir(exist_ok=True)
    made = mocked_provenance(f"Tesla {DEVICE}", made_by)
    told = []
    for name, traces in _mocked().items():
        file = store(f"loop_{name}", traces, made, FOLDER)
        told.append(f"{file.name}: {file.stat().st_size:,} bytes, {traces}")
    return told
