"""`mocked`: a cell's function on the mocked device, or the recording of it where there is none.

A recording holds the text of the function that was run: one of other code is not shown.
`python -m bench.mocked 05_memory_and_time` makes those of a chapter anew.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Self

from onelayer.drawing.display import Shown
from onelayer.drawing.words import say
from onelayer.memory.allocator_history import AllocatorHistory, read_snapshots
from onelayer.mock_cuda.builds import NoMock
from onelayer.mock_cuda.calls import short_kernel
from onelayer.mock_cuda.run import MockRun, on_mock_gpu
from onelayer.mock_cuda.summary import source as text_of
from onelayer.recordings import MOCKED, Recording, read_recording
from onelayer.recordings.provenance import in_html, in_text, mocked_provenance
from onelayer.recordings.storing import store

FOLDER = MOCKED
KEEP = "ONELAYER_KEEP_MOCKED"
"""Set where recordings are to be written: the command that is noted in them."""
MOST_CALLS = 1500


@dataclass(frozen=True)
class CudaCall:
    """A call of CUDA's runtime. line: the text of the Python that caused it. Microseconds of the
    modelled clock: the host's from start to returned, the stream's from begin to finish (None for
    a call that gives the device no work)."""

    api: str
    kernel: str
    line: str
    stream: int
    bytes: int
    start_us: float
    returned_us: float
    begin_us: float | None
    finish_us: float | None


@dataclass(frozen=True)
class MockedRun:
    """What a function did on a mocked device. source: its text. result: what it returned, as JSON
    has it. history: of the allocator, None where nobody asked it."""

    device: str
    source: str
    result: Any
    calls: tuple[CudaCall, ...]
    history: AllocatorHistory | None

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        words, history = plain["words"], plain["history"]
        calls = tuple(CudaCall(*(words[n] for n in row[:3]), *row[3:]) for row in plain["calls"])
        found = AllocatorHistory.from_plain(history) if history else None
        return cls(plain["device"], "\n".join(plain["source"]), plain["result"], calls, found)

    def plain(self) -> dict[str, Any]:
        texts = [text for call in self.calls for text in (call.api, call.kernel, call.line)]
        words = list(dict.fromkeys(texts))
        number = {word: n for n, word in enumerate(words)}
        rows = [
            [*(number[text] for text in (call.api, call.kernel, call.line)), *_numbers(call)]
            for call in self.calls
        ]
        return {
            "device": self.device,
            "source": self.source.splitlines(),
            "result": self.result,
            "words": words,
            "calls": rows,
            "history": self.history.plain() if self.history else None,
        }

    def __str__(self) -> str:
        return say("{n} calls of CUDA", n=len(self.calls))


def page_of(run: MockedRun, device: str = "") -> str:
    """A sentence: the chapter's cell prints what it wants to show."""
    return f"<p>{escape(say('{run} on {device}', run=run, device=device or run.device))}</p>"


@dataclass(frozen=True, repr=False)
class Mocked(Shown):
    """What `mocked` gives: a run, and in one line where it comes from."""

    run: MockedRun
    provenance: str

    @property
    def result(self) -> Any:
        return self.run.result

    @property
    def calls(self) -> tuple[CudaCall, ...]:
        return self.run.calls

    @property
    def history(self) -> AllocatorHistory:
        """Raises ValueError where nobody asked the allocator for anything."""
        if self.run.history is None:
            raise ValueError(say("this run has no history of the allocator"))
        return self.run.history

    def __repr__(self) -> str:
        return in_text(self.provenance)

    def bundle(self) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": in_html(self.provenance)}


def mocked(name: str, function: Callable[[], Any], **options: Any) -> Mocked:
    """What `function()` does on the mocked device; where there can be none, the recording `name`.

        run = onelayer.mocked("05_first_tensor", first_tensor)
        run.result, run.calls, run.history

    `options` are those of `on_mock_gpu`. The function returns what JSON has: numbers, texts, lists
    and dicts. It shows at once where the run comes from: mocked now, or mocked then.

    Raises ValueError where the recording is of other code than the function, or there is none.
    """
    source = inspect.getsource(function).rstrip()
    try:
        seen = on_mock_gpu(function, trace=False, show=False, **options)
    except NoMock as why:
        return _recorded(name, source, str(why)).show()
    run = run_of(seen, source)
    made = mocked_provenance(seen.device.name, os.environ.get(KEEP) or say("this cell"))
    if KEEP in os.environ:
        FOLDER.mkdir(exist_ok=True)
        store(name, run, made, FOLDER)
    return Mocked(run, f"{name}: {made}").show()


def run_of(seen: MockRun, source: str) -> MockedRun:
    """What is kept of a run. Raises ValueError for more calls than a page can hold."""
    if len(seen.calls) > MOST_CALLS:
        raise ValueError(
            say("{n:,} calls: at most {most:,} are kept", n=len(seen.calls), most=MOST_CALLS)
        )
    calls = tuple(
        CudaCall(
            api=call.api,
            kernel=short_kernel(call.kernel),
            line=text_of(call.line) if call.line else "",
            stream=call.stream,
            bytes=call.bytes,
            start_us=round(call.start_us, 1),
            returned_us=round(call.end_us, 1),
            begin_us=_rounded(call.begin_us),
            finish_us=_rounded(call.finish_us),
        )
        for call in seen.calls
    )
    result = json.loads(json.dumps(seen.result))
    return MockedRun(seen.device.name, source, result, calls, _history(seen.memory))


def _rounded(us: float | None) -> float | None:
    return None if us is None else round(us, 1)


def _numbers(call: CudaCall) -> list[float | None]:
    times = [call.start_us, call.returned_us, call.begin_us, call.finish_us]
    return [call.stream, call.bytes, *times]


def _history(snapshot: Mapping[str, Any]) -> AllocatorHistory | None:
    nothing: dict[str, Any] = {"segments": [], "device_traces": [[]]}
    try:
        return read_snapshots(nothing, [("the run", snapshot)])
    except (ValueError, KeyError):  # nobody asked for anything, or CUDA was never started
        return None


def _code(source: str) -> str:
    return ast.dump(ast.parse(textwrap.dedent(source)))


def _recorded(name: str, source: str, why: str) -> Mocked:
    """The recording, if it is one of this very code, in whatever language its comments are."""
    found: Recording = read_recording(name, folder=FOLDER)
    if not isinstance(found.content, MockedRun):
        raise ValueError(say("there is no recording {name!r}. {why}", name=name, why=why))
    if _code(found.content.source) != _code(source):
        raise ValueError(
            say(
                "the recording {name!r} is of other code than this function, and this machine "
                "cannot run it. {why}",
                name=name,
                why=why,
            )
        )
    return Mocked(found.content, found.provenance)
