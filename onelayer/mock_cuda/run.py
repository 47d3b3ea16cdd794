"""`on_mock_gpu`: a function of a cell on a mocked CUDA device, and what was seen of it."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle

from onelayer.drawing.words import counted, say
from onelayer.mock_cuda.calls import Call, read_calls
from onelayer.mock_cuda.devices import DeviceModel, device_model
from onelayer.mock_cuda.environment import mocked_environment
from onelayer.mock_cuda.zygote_client import run_forked


@dataclass(frozen=True)
class Wanted:
    """What the process is to do. payload: the pickled function and its arguments."""

    payload: bytes
    values: bool


@dataclass(frozen=True)
class Failed:
    """An exception of the function: its type, its message, its lines."""

    kind: str
    message: str
    lines: str


@dataclass(frozen=True)
class Uncomputed:
    """A tensor that was returned from a device without numbers: what is known of it."""

    shape: tuple[int, ...]
    dtype: str
    device: str

    def __repr__(self) -> str:
        size = f"size={self.shape}, dtype={self.dtype}, device={self.device!r}"
        return say("tensor(never computed, {size})", size=size)


@dataclass(frozen=True, repr=False)
class MockRun:
    """What a function returned on a mocked device, and what torch did there.

    result: what it returned. printed: what it wrote. calls: each call of CUDA's API with its work.
    memory: torch's own snapshot of its allocator. stats: its counters, by device. trace: Chrome's
    trace of torch.profiler. All times are modelled; launches, sizes and their order are torch's.
    """

    device: DeviceModel
    devices: int
    result: Any
    printed: str
    calls: list[Call]
    memory: dict[str, Any]
    stats: dict[int, dict[str, int]]
    trace: dict[str, Any] = field(default_factory=dict)

    @property
    def kernels(self) -> list[Call]:
        """The launches, in order."""
        return [call for call in self.calls if call.kind == "kernel"]

    @property
    def peak_bytes(self) -> int:
        """The most that tensors held at once, as torch counts it, on the fullest device."""
        return max((s.get("allocated_bytes.all.peak", 0) for s in self.stats.values()), default=0)

    def __repr__(self) -> str:
        return say(
            "mocked {device}: {kernels}, {us:.0f} us modelled, {n:,} bytes at the peak",
            device=self.device.name,
            kernels=counted(len(self.kernels), "{n} kernel", "{n} kernels"),
            us=sum(call.took_us for call in self.kernels),
            n=self.peak_bytes,
        )

    def show_timeline(self) -> Any:
        """What ran beside what: the lanes of torch.profiler's trace, on modelled time."""
        from onelayer.mock_cuda.pictures import timeline

        return timeline(self.device.name, self.trace.get("traceEvents", ()))

    def show_memory(self) -> Any:
        """The bytes that tensors held, request by request, from torch's own history."""
        from onelayer.mock_cuda.pictures import memory

        return memory(self.device.name, self.memory)

    def show_launches(self) -> Any:
        """A row for each kernel: how often, from which line, how large, how long by the model."""
        from onelayer.mock_cuda.pictures import launches

        return launches(self.device.name, self.calls)


class MockFailed(RuntimeError):
    """The function raised, or its process ended, on the mocked device. `run` is what was seen up
    to there; `kind` is the exception's name."""

    says_where = True

    def __init__(self, message: str, *, kind: str, run: MockRun) -> None:
        super().__init__(message)
        self.kind, self.run = kind, run

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the function's own lines, and none of ours."""
        return [str(self)]


def on_mock_gpu(
    function: Callable[..., Any],
    *args: Any,
    devices: int = 1,
    memory: str | int | None = "8 GiB",
    device: str = "H100",
    values: bool = False,
    trace: bool = True,
    timeout_s: float = 600.0,
    show: bool = True,
) -> MockRun:
    """What `function(*args)` did on mocked CUDA devices, in a process of its own.

        def step():
            layer = torch.nn.Linear(64, 600).cuda()
            layer(torch.randn(32, 64).cuda()).sum().backward()
        run = onelayer.on_mock_gpu(step)
        run.show_launches()

    The process runs the unmodified CUDA build of torch: its launches, its allocator, its streams
    are real. It is a fork of one that has imported torch and used no device; the first call waits
    for that one, later calls with the same environment variables do not. Nothing computes on the
    device: with `values` each operator that torch's CPU kernels know has their numbers, without it
    no number is there, and one that is read is NaN. Times follow a model of `device` (T4, L4, A100,
    H100, H200). `memory` is the size of each of `devices` devices; None is the real one's. cuDNN is
    off. What it prints is shown unless `show` is False.

    Raises MockFailed with the function's traceback if it raises, ends or takes over `timeout_s`;
    NoMock where this torch or this machine can have no mocked device; ValueError for a device that
    is not in the table.
    """
    model = device_model(device, memory)
    wanted = Wanted(cloudpickle.dumps((function, args)), values)
    with tempfile.TemporaryDirectory(prefix="mock-") as name:
        folder = Path(name)
        environment = mocked_environment(
            model, devices=devices, values=values, trace=trace, folder=folder
        )
        (folder / "wanted").write_bytes(cloudpickle.dumps(wanted))
        ended = run_forked(environment, folder / "printed", timeout_s)
        printed = (folder / "printed").read_text(errors="replace")
        outcome = _outcome(folder, ended)
        run = _seen(folder, model, devices, outcome, printed)
    if show:
        print(printed, end="")
    if isinstance(outcome, Failed):
        message = f"{outcome.kind}: {outcome.message}\n{outcome.lines}"
        raise MockFailed(message.rstrip(), kind=outcome.kind, run=run)
    return run


def _outcome(folder: Path, ended: str) -> Any:
    try:
        return cloudpickle.loads((folder / "outcome").read_bytes())
    except (FileNotFoundError, EOFError):
        last = (folder / "printed").read_text(errors="replace").strip().splitlines()[-3:]
        told = say("{ended}; the last it wrote was:", ended=ended)
        return Failed("ProcessEnded", "\n".join([told, *last]), "")


def _seen(folder: Path, model: DeviceModel, devices: int, outcome: Any, printed: str) -> MockRun:
    """What lies in the folder after a run, or after as much of it as there was."""
    stats = _json(folder / "memory.json")
    snapshot = folder / "memory.pickle"
    return MockRun(
        device=model,
        devices=devices,
        result=None if isinstance(outcome, Failed) else outcome,
        printed=printed,
        calls=read_calls(folder),
        memory=pickle.loads(snapshot.read_bytes()) if snapshot.exists() else {},
        stats={int(n): counters for n, counters in stats.items()},
        trace=_json(folder / "trace.json"),
    )


def _json(file: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return read
