"""torch's global settings, which any cell can change for all cells after it.

A default dtype, a default device or a grad mode that one cell leaves behind would decide about the
answers of others. So a question is asked, and a function called, under the settings that torch
starts with, in the notebook as in grading; then a student's own are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

CPU = torch.device("cpu")


def _set_device(device: torch.device) -> None:
    torch.set_default_device(None if device == CPU else device)  # set to "cpu", it is a mode


def _now() -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        torch.empty(0).device,  # get_default_device takes ten times as long
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_enabled("cuda"),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_anomaly_enabled(),
        torch.get_num_threads(),
    )


WRITERS: tuple[Callable[[Any], Any], ...] = (
    torch.set_default_dtype,
    _set_device,
    torch.set_grad_enabled,
    partial(torch.set_autocast_enabled, "cpu"),
    partial(torch.set_autocast_enabled, "cuda"),
    torch.set_float32_matmul_precision,
    torch.use_deterministic_algorithms,
    torch.autograd.set_detect_anomaly,
    torch.set_num_threads,
)
FRESH = (torch.float32, CPU, True, False, False, "highest", False, False)
_threads: list[int] = []


def remember_threads() -> None:
    """How many threads torch starts with here: to be called before a stranger's code runs."""
    _threads[:] = [torch.get_num_threads()]


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, torch computes with one thread, as in the jail, and is believed to have started so.

    Questions ask about small tensors. Where something else works too, several threads mostly wait
    for each other: lab 03's questions took forty times the processor time on two busy cores.
    """
    before, started = torch.get_num_threads(), list(_threads)
    torch.set_num_threads(1)
    _threads[:] = [1]
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _threads[:] = started


@contextmanager
def as_started() -> Iterator[None]:
    """Inside, torch's global settings are those of a fresh process; afterwards what they were."""
    if not _threads:
        remember_threads()
    before, inference = _now(), torch.is_inference_mode_enabled()
    _change(before, (*FRESH, *_threads))
    try:
        with torch.inference_mode(mode=False) if inference else nullcontext():
            yield
    finally:
        _change(_now(), before)


def _change(now: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    """Calls the writers of the settings that differ."""
    if now != wanted:
        for write, old, new in zip(WRITERS, now, wanted, strict=True):
            if old != new:
                write(new)
