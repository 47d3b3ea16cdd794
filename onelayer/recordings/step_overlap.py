"""A backward whose gradients leave while it still runs, as torch's profiler saw it.

With one GPU there is nobody to send a gradient to. Here each leaves for the host's memory, over a
stream of its own, from the same hook from which chapter 11 sends it to another rank: what can run
beside what is the same question.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from onelayer.memory.stream_trace import StreamTrace, read_trace

LAYERS = 6
STEPS = 5  # of which the shortest is kept: the host was interrupted least in it
SIZES = {"cuda": (2048, 4096), "cpu": (256, 256)}  # of each layer, both ways; rows in the batch


def record_step_overlap(device: str) -> StreamTrace:
    """What ran when, in forward and backward of six layers, on the host and on each stream."""
    width, rows = SIZES[device]
    linears = (nn.Linear(width, width, bias=False, device=device) for _ in range(LAYERS))
    model = nn.Sequential(*linears)
    send, wait = _sender(device)
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(send)  # type: ignore[no-untyped-call]
    x = torch.randn(rows, width, device=device)

    def step() -> None:
        model.zero_grad()
        model(x).square().mean().backward()
        wait()

    _profiled(step, device)  # the first one starts the profiler, and fills every cache
    return min((_profiled(step, device) for _ in range(STEPS)), key=lambda seen: seen.span_us)


def _sender(device: str) -> tuple[Callable[[Tensor], None], Callable[[], None]]:
    """What copies a parameter's gradient to the host, and what waits for all such copies."""
    away: dict[Tensor, Tensor] = {}

    def room(p: Tensor) -> Tensor:
        if p not in away:
            away[p] = torch.empty(p.shape, pin_memory=device == "cuda")
        return away[p]

    if device == "cpu":
        return lambda p: _copy(room(p), p), lambda: None
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def send(p: Tensor) -> None:
        stream.wait_stream(torch.cuda.current_stream())  # until the gradient is there
        with torch.cuda.stream(stream):
            _copy(room(p), p)
        if p.grad is not None:
            p.grad.record_stream(stream)  # nobody may reuse its memory before it has left

    return send, torch.cuda.synchronize


def _copy(away: Tensor, p: Tensor) -> None:
    if p.grad is not None:
        away.copy_(p.grad, non_blocking=True)


def _profiled(step: Callable[[], None], device: str) -> StreamTrace:
    gpu = [ProfilerActivity.CUDA] if device == "cuda" else []
    # torch 2.11 warns, where nothing is accumulated, that events of another cycle are lost.
    with profile(activities=[ProfilerActivity.CPU, *gpu], acc_events=True) as seen:
        step()
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        return read_trace(json.loads(file.read_text())["traceEvents"])
