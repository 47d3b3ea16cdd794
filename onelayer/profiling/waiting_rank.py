"""The fifth loop: two ranks, of which one has longer sentences, and the other waits for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import record_function

from onelayer.distributed.ranks import run_ranks
from onelayer.model.gpt import head
from onelayer.profiling.profiled import Event, profiled
from onelayer.profiling.slow_loops import Step

ROWS = {"cpu": (256, 2048), "cuda": (8192, 65536)}
"""Rows of a batch on each of the two ranks. Dealt out evenly, each has half of their sum."""


def rank_step(device: str, rows: Sequence[int]) -> Step:
    """A step of this rank: forward and backward of `rows[rank]` rows, then one all-reduce for
    each gradient."""
    rank = dist.get_rank()
    place = f"cuda:{rank}" if device == "cuda" else device
    model = head().to(place)
    x = torch.ones(rows[rank], 64, device=place)  # (N, D)
    target = torch.zeros(rows[rank], dtype=torch.int64, device=place)
    total = sum(rows)

    def step(number: int) -> Tensor:
        with record_function("forward"):
            loss = F.cross_entropy(model(x), target, reduction="sum") / total
        with record_function("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        with record_function("all-reduce"):
            for p in model.parameters():
                dist.all_reduce(p.grad)
        with record_function("optimizer"), torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-0.1)  # type: ignore[arg-type]
                p.grad = None
        return loss.detach()

    return step


def traces_of_two_ranks(device: str, *, repaired: bool) -> list[list[Event]]:
    """The trace of each rank. Repaired, both have as many rows."""
    few, many = ROWS[device]
    rows = (few + many) // 2, (few + many) // 2
    backend = "nccl" if device == "cuda" else "gloo"
    given = rows if repaired else (few, many)
    return list(run_ranks(2, _traced, device, given, backend=backend))


def _traced(device: str, rows: Sequence[int]) -> list[Event]:
    if device == "cuda":
        torch.cuda.set_device(dist.get_rank())
    step: Step = rank_step(device, rows)
    return profiled(step, device=device)
