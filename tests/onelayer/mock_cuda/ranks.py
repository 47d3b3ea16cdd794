"""Two ranks of NCCL in processes that are forked before CUDA begins, so that torch loads once."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

HALVES = [1.0, -0.1, 3e-6, 1e-8, 30_000.0, 0.0]  # also what is subnormal, and what overflows


def two_ranks() -> list[dict[str, Any]]:
    """What each rank found out about collectives, and about a model in parts."""
    return _on_two(_facts)


def compiled_ranks() -> list[dict[str, Any]]:
    """What each rank says of a compiled DDP: Inductor's kernels are launched, and not computed."""
    return _on_two(_compiled)


def _on_two(facts: Callable[[int], dict[str, Any]]) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="ranks-"))
    children = [_forked(rank, folder, facts) for rank in range(2)]
    for child in children:
        os.waitpid(child, 0)
    return [json.loads((folder / str(rank)).read_text()) for rank in range(2)]


def _forked(rank: int, folder: Path, facts: Callable[[int], dict[str, Any]]) -> int:
    if child := os.fork():
        return child
    try:
        (folder / str(rank)).write_text(json.dumps(_grouped(rank, folder, facts)))
    except BaseException:
        traceback.print_exc()
    from onelayer.mock_cuda.aliases import library

    library().onelayer_mock_flush()
    os._exit(0)


def _grouped(rank: int, folder: Path, facts: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    torch.cuda.set_device(rank)
    store = (folder / "store").as_uri()
    dist.init_process_group("nccl", init_method=store, rank=rank, world_size=2)
    found = facts(rank)
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return found


def _facts(rank: int) -> dict[str, Any]:
    return _collectives(rank) | {
        "gradient": _gradient(rank),
        "FSDP": _trained(rank, _fsdp),
        "fully_shard": _trained(rank, _fully_sharded),
    }


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


class Model(nn.Module):
    """30 parameters. Its forward is in no file of torch's: those dynamo does not compile alone."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(nn.functional.gelu(self.first(x)))
        return y


def model() -> Model:
    """The same on every rank, and here."""
    torch.manual_seed(0)
    return Model()


def batches() -> torch.Tensor:
    """(2, 3, 4): a batch for each rank."""
    return torch.arange(24.0).reshape(2, 3, 4) / 24


Gathered = Callable[[nn.Module], list[torch.Tensor]]
"""The whole parameters of a model that lies in parts."""


def _fsdp(whole: nn.Module) -> tuple[nn.Module, Gathered]:
    sharded = FullyShardedDataParallel(whole, use_orig_params=True)
    return sharded, _summoned


def _summoned(sharded: nn.Module) -> list[torch.Tensor]:
    with FullyShardedDataParallel.summon_full_params(sharded):
        return [p.detach().clone() for p in sharded.parameters()]


def _fully_sharded(whole: nn.Module) -> tuple[nn.Module, Gathered]:
    return fully_shard(whole), lambda wrapped: [p.full_tensor() for p in wrapped.parameters()]


def _trained(rank: int, shard: Any) -> list[float]:
    """The parameters, in one row, after a step on this rank's batch."""
    sharded, gathered = shard(model().cuda())
    step(sharded, batches()[rank].cuda())
    row: list[float] = torch.cat([p.flatten() for p in gathered(sharded)]).tolist()
    return row


def step(module: nn.Module, x: torch.Tensor) -> None:
    """One step of SGD."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module(x).square().mean().backward()
    optimizer.step()


def _compiled(rank: int) -> dict[str, Any]:
    wrapped = nn.parallel.DistributedDataParallel(model().cuda(), device_ids=[rank])
    step(torch.compile(wrapped), batches()[rank].cuda())
    return {"parameters": len(list(wrapped.parameters()))}
