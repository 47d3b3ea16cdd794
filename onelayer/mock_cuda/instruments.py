"""What is switched on in every process on a mocked device, once its torch is loaded."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd import graph

from onelayer.mock_cuda.aliases import library
from onelayer.mock_cuda.environment import MAIN, MOCKED, OUT_OF_MEMORY, TRACE, VALUES
from onelayer.mock_cuda.graph import compute_replays
from onelayer.mock_cuda.printing import print_honestly
from onelayer.mock_cuda.recording import Recording
from onelayer.mock_cuda.values import Computing


def prepare() -> None:
    """Prepares this process's torch, and records from here on; `finish` or its end ends that."""
    prepare_torch()
    _note_who_waits_for_backward()
    global _recording
    if os.environ.setdefault(MAIN, str(os.getpid())) == str(os.getpid()):
        suffix, trace = "", os.environ[TRACE] == "1"
    else:
        suffix, trace = f"-{os.getpid()}", False
    _recording = Recording(Path(os.environ[MOCKED]), suffix, trace=trace)
    atexit.register(finish)
    _note_out_of_memory()


def prepare_torch() -> None:
    """Prepares this process's torch to its end: without cuDNN, honest in what it prints, and with
    numbers where they are asked for. It asks nothing of the device."""
    values = os.environ[VALUES] == "1"
    _without_cudnn()
    print_honestly(values=values)
    if values:
        compute_replays()
        Computing().__enter__()  # type: ignore[no-untyped-call]
    elif dist.is_available():
        _let_ranks_compare()


_recording: Recording | None = None


def finish() -> None:
    """Writes what was seen of this process; a second time it does nothing."""
    global _recording
    recording, _recording = _recording, None
    if recording is not None:
        recording.stop()
        library().onelayer_mock_flush()


def _note_out_of_memory() -> None:
    """An OutOfMemoryError that ends the program leaves its words: how often they were caught and
    retried, the allocator counts."""
    shown = sys.excepthook

    def noted(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if isinstance(error, torch.OutOfMemoryError):
            file = Path(os.environ[MOCKED]) / OUT_OF_MEMORY
            file.write_text(str(error).partition(" See documentation")[0])
        shown(kind, error, trace)

    sys.excepthook = noted


def _without_cudnn() -> None:
    """Convolutions and attention go to torch's own kernels: cuDNN's cannot be seen from outside."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)


def _let_ranks_compare() -> None:
    """DDP asks the other ranks how many parameters they have, and how it sorted them into buckets.
    These numbers come from hosts and go back to hosts by way of the device: they are carried."""
    module: Any = dist
    module._verify_params_across_processes = _carried(module._verify_params_across_processes)
    module.Reducer._rebuild_buckets = _carried(module.Reducer._rebuild_buckets)


def _carried(asked: Callable[..., Any]) -> Callable[..., Any]:
    def carried(*args: Any) -> Any:
        library().onelayer_mock_carry(1)
        try:
            return asked(*args)
        finally:
            library().onelayer_mock_carry(0)

    return carried


def _note_who_waits_for_backward() -> None:
    """A thread of the autograd engine runs no Python: its kernels are told with the line that
    waits for it, which is the one that called backward."""
    run: Callable[..., Any] = graph._engine_run_backward

    def noted(*args: Any, **kwargs: Any) -> Any:
        library().onelayer_mock_here()
        return run(*args, **kwargs)

    graph._engine_run_backward = noted
    torch.autograd._engine_run_backward = noted  # type: ignore[attr-defined]
