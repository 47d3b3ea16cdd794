"""`profiled`: the events of some steps, as torch.profiler has them, without torch's own Python."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own log is for nobody here
Event = dict[str, Any]
# How a trace calls a call into Python: the file below a folder of sys.path, the line of the `def`,
# the function. torch's own, the standard library's and C's are thousands in a step.
_CALL = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.+)")
_OURS = ("onelayer/mock_cuda/", "onelayer/profiling/profiled.py", "onelayer/distributed/")


def profiled(
    step: Callable[[int], Any], *, steps: int = 2, warm_up: int = 2, device: str = "cpu"
) -> list[Event]:
    """The trace events of `steps` calls of `step`, which is given its number.

    The first `warm_up` calls are not traced, and one more starts the profiler: libraries are loaded
    and caches are filled in them. With Python functions (`with_stack`) and shapes.
    """
    for number in range(warm_up):
        step(number)
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device == "cuda" else [])]
    # torch 2.11 warns, where nothing is accumulated, that events of another cycle are lost.
    with profile(
        activities=kinds,
        schedule=schedule(wait=0, warmup=1, active=steps, repeat=1),
        with_stack=True,
        record_shapes=True,
        acc_events=True,
    ) as seen:
        for number in range(warm_up, warm_up + 1 + steps):
            step(number)
            if device == "cuda" and number == warm_up:
                torch.cuda.synchronize()  # or the trace begins with work that nobody in it launched
            seen.step()
    return exported(seen)


def exported(seen: Any) -> list[Event]:
    """The events of a profile that is over, without those that nobody here reads."""
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        return kept(json.loads(file.read_text())["traceEvents"])


def kept(events: Iterable[Mapping[str, Any]]) -> list[Event]:
    """The events without torch's own Python functions and without the fields that count what the
    profiler did itself, in the order in which they began."""
    found = [_plain(event) for event in events if _is_read(event)]
    return sorted(found, key=lambda event: (event["ts"], -event.get("dur", 0)))


def _plain(event: Mapping[str, Any]) -> Event:
    if "args" not in event:
        return dict(event)
    return {**event, "args": {k: v for k, v in event["args"].items() if k in _FIELDS}}


def _is_read(event: Mapping[str, Any]) -> bool:
    if event.get("ph") not in ("X", "s", "f"):
        return False
    if event.get("cat") == "python_function":
        call = _CALL.fullmatch(event["name"])
        return call is not None and not _is_machinery(call["file"])
    return event.get("cat") in _KINDS


@cache
def _is_machinery(file: str) -> bool:
    """Whether a file, as a trace names it, is torch's, the standard library's or an instrument."""
    if file.startswith(("<frozen", "<built-in", "torch/", *_OURS)) or "site-packages" in file:
        return True
    return file.partition("/")[0].removesuffix(".py") in sys.stdlib_module_names


_KINDS = {
    "cpu_op",
    "cuda_runtime",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "user_annotation",
    "gpu_user_annotation",
    "ac2g",
}
_FIELDS = {
    "External id",
    "correlation",
    "cbid",
    "stream",
    "device",
    "bytes",
    "grid",
    "block",
    "graph node id",
    "Input Dims",
    "Input type",
    "Python id",
}
