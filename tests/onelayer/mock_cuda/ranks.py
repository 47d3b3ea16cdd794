"""Two ranks of NCCL in processes that are forked before CUDA begins, so that torch loads once."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

HALVES = [1.0, -0.1, 3e-6, 1e-8, 30_000.0, 0.0]  # also what is subnormal, and what overflows


def two_ranks() -> list[dict[str, Any]]:
    """What each rank found out."""
    folder = Path(tempfile.mkdtemp(prefix="ranks-"))
    children = [_forked(rank, folder) for rank in range(2)]
    for child in children:
        os.waitpid(child, 0)
    return [json.loads((folder / str(rank)).read_text()) for rank in range(2)]


def _forked(rank: int, folder: Path) -> int:
    if child := os.fork():
        return child
    try:
        (folder / str(rank)).write_text(json.dumps(_facts(rank, folder)))
    except BaseException:
        traceback.print_exc()
    from onelayer.mock_cuda.aliases import library

    library().onelayer_mock_flush()
    os._exit(0)


def _facts(rank: int, folder: Path) -> dict[str, Any]:
    torch.cuda.set_device(rank)
    store = (folder / "store").as_uri()
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=2)
    facts = _collectives(rank) | {"gradient": _gradient(rank)}
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return facts


def _collectives(rank: int) -> dict[str, Any]:
    x = torch.arange(3.0, device="cuda") + rank
    dist.all_reduce(x)
    halves = (torch.tensor(HALVES, device="cuda") * (rank + 1)).half()
    dist.all_reduce(halves)
    parts = [torch.empty(2, device="cuda") for _ in range(2)]
    dist.all_gather(parts, torch.full((2,), float(rank), device="cuda"))
    y = torch.empty(2, device="cuda")
    dist.reduce_scatter(y, list(torch.arange(4.0, device="cuda").split(2)))
    b = torch.full((1,), float(rank + 5), device="cuda")
    dist.broadcast(b, 1)
    facts = {
        "all_reduce": x.tolist(),
        "all_reduce of halves": halves.tolist(),
        "all_gather": torch.cat(parts).tolist(),
        "reduce_scatter": y.tolist(),
        "broadcast": b.tolist(),
        "recv": None,
    }
    if rank == 0:
        dist.send(b * 2, 1)
    else:
        dist.recv(b, 0)
        facts["recv"] = b.tolist()
    return facts


def _gradient(rank: int) -> list[float]:
    """The first row of DDP's gradient, where rank 0 has ones and rank 1 has twos."""
    torch.manual_seed(0)
    layer = nn.parallel.DistributedDataParallel(nn.Linear(4, 3).cuda(), device_ids=[rank])
    layer(torch.full((2, 4), float(rank + 1), device="cuda")).sum().backward()
    row: list[float] = layer.module.weight.grad[0].tolist()
    return row
