"""What is switched on around a program that runs on the mocked device: torch's own memory history,
torch's own profiler, and what the mocked device cannot run switched off.

Everything here happens in the process of that program.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.autograd import graph
from torch.profiler import ProfilerActivity, profile

from onelayer.mock_cuda.values import computing

MOST_ENTRIES = 200_000  # of the allocator's history


@contextlib.contextmanager
def watched(folder: Path, *, values: bool, trace: bool) -> Iterator[None]:
    """Runs what is inside on the mocked device and leaves in `folder`: trace.json, memory.pickle
    and memory.json, also where it raises."""
    _without_cudnn()
    _noting_who_waits_for_backward()
    torch.cuda.memory._record_memory_history(max_entries=MOST_ENTRIES, stacks="python")
    profiler = _Profiler(folder / "trace.json") if trace else None
    try:
        with computing() if values else contextlib.nullcontext():
            yield
    finally:
        if profiler is not None:
            profiler.stop()
        _write_memory(folder)
        mock().onelayer_mock_flush()


def mock() -> ctypes.CDLL:
    """The mocked library, which this process loaded before anything else."""
    return ctypes.CDLL(None)


def _without_cudnn() -> None:
    """Convolutions and attention go to torch's own kernels: cuDNN's cannot be seen from outside."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def _noting_who_waits_for_backward() -> None:
    """A thread of the autograd engine runs no Python: its kernels are told with the line that
    waits for it, which is the one that called backward."""
    run: Callable[..., Any] = graph._engine_run_backward

    def noted(*args: Any, **kwargs: Any) -> Any:
        mock().onelayer_mock_here()
        return run(*args, **kwargs)

    graph._engine_run_backward = noted
    torch.autograd._engine_run_backward = noted


class _Profiler:
    """torch.profiler around the whole program. Where the program uses a profiler of its own, this
    one ends there: torch has room for one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._theirs = profile.start
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        self._profile: Any = profile(activities=activities, acc_events=True)
        self._profile.start()
        mine = self

        def start(theirs: Any) -> None:
            mine.stop()
            mine._theirs(theirs)

        profile.start = start  # type: ignore[method-assign]

    def stop(self) -> None:
        """Writes the trace; a second time it does nothing."""
        running, self._profile = self._profile, None
        if running is None:
            return
        profile.start = self._theirs  # type: ignore[method-assign]
        running.stop()
        running.export_chrome_trace(str(self._file))
        _name_as_mocked(self._file)


def _name_as_mocked(file: Path) -> None:
    """The word goes into the trace itself: whoever opens it anywhere reads it."""
    trace = json.loads(file.read_text())
    trace["onelayer"] = "mocked device: real launches of torch, modelled times"
    for event in trace["traceEvents"]:
        if event.get("ph") == "M" and event.get("name") == "process_labels":
            label = event["args"].get("labels", "")
            event["args"]["labels"] = label.replace("GPU", "mocked GPU")
    file.write_text(json.dumps(trace))


def _write_memory(folder: Path) -> None:
    """The allocator's snapshot, as torch's memory viewer reads it, and its peaks."""
    if not torch.cuda.is_initialized():
        return
    snapshot = torch.cuda.memory._snapshot()
    (folder / "memory.pickle").write_bytes(pickle.dumps(snapshot))
    stats = {n: torch.cuda.memory_stats(n) for n in range(torch.cuda.device_count())}
    (folder / "memory.json").write_text(json.dumps(stats))
