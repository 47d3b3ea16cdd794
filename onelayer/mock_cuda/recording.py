"""torch's own profiler and torch's own memory history around a whole program on the mocked device.

Calls of CUDA that come from this file are ours, and are left out of what is told (`calls.py`).
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import profile  # what torch.profiler wraps, without its imports

from onelayer.mock_cuda.aliases import library

MOST_ENTRIES = 200_000  # of the allocator's history


class Recording:
    """From its making to `stop`. Where the program uses a profiler of its own, the trace ends
    there: torch has room for one."""

    def __init__(self, folder: Path, suffix: str, *, trace: bool) -> None:
        """`suffix` goes into the names of the files: "" for the first process."""
        self._folder, self._suffix = folder, suffix
        self._profile: Any = None
        # cudaMallocAsync's memory is the driver's: torch keeps no history of it.
        self._native = torch.cuda.memory.get_allocator_backend() == "native"
        if self._native:
            torch.cuda.memory._record_memory_history(max_entries=MOST_ENTRIES, stacks="python")
        if trace:
            self._start_profiler()

    def stop(self) -> None:
        """Leaves memory.pickle, memory.json and trace.json in the folder."""
        library().onelayer_mock_forgive()  # after a failed assert nobody could look at the device
        self._stop_profiler()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            _write_memory(self._folder, self._suffix, snapshot=self._native)

    def _start_profiler(self) -> None:
        self._profile = profile(use_device="cuda", use_kineto=True, acc_events=True)
        self._theirs = profile._prepare_trace
        self._profile.__enter__()

        def prepare(theirs: Any) -> None:
            self._stop_profiler()
            theirs._prepare_trace()

        profile._prepare_trace = prepare  # type: ignore[method-assign]

    def _stop_profiler(self) -> None:
        running, self._profile = self._profile, None
        if running is None:
            return
        profile._prepare_trace = self._theirs  # type: ignore[method-assign]
        running.__exit__(None, None, None)
        file = self._folder / f"trace{self._suffix}.json"
        running.export_chrome_trace(str(file))
        _name_as_mocked(file)


def _name_as_mocked(file: Path) -> None:
    """The word goes into the trace itself: whoever opens it anywhere reads it."""
    trace = json.loads(file.read_text())
    trace["onelayer"] = "mocked device: real launches of torch, modelled times"
    for event in trace["traceEvents"]:
        if event.get("ph") == "M" and event.get("name") == "process_labels":
            label = event["args"].get("labels", "")
            event["args"]["labels"] = label.replace("GPU", "mocked GPU")
    file.write_text(json.dumps(trace))


def _write_memory(folder: Path, suffix: str, *, snapshot: bool) -> None:
    """The allocator's snapshot, as torch's memory viewer reads it, and its counters by device."""
    if snapshot:
        held = torch.cuda.memory._snapshot()
        (folder / f"memory{suffix}.pickle").write_bytes(pickle.dumps(held))
    stats = {n: torch.cuda.memory_stats(n) for n in range(torch.cuda.device_count())}
    (folder / f"memory{suffix}.json").write_text(json.dumps(stats))
