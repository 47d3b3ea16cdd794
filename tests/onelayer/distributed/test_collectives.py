"""record_collectives: what it sees of Python, of the reducer, of fully_shard, and its bytes."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import onelayer
from onelayer.distributed import socket_bytes
from onelayer.distributed.collectives import record_collectives
from onelayer.distributed.rank_log import Collective, RankLog, ring_bytes
from onelayer.distributed.socket_bytes import written_bytes

RANKS = 3
ROW, BIAS = 64 * 4, 4


def _as_in_a_cell() -> Any:
    def by_hand() -> RankLog:
        rank, n = dist.get_rank(), dist.get_world_size()
        x = torch.ones(600, 64)
        with onelayer.record_collectives() as log:
            dist.all_reduce(x)
            dist.all_gather([torch.empty_like(x) for _ in range(n)], x)
            dist.reduce_scatter(torch.empty(200, 64), list(x.chunk(n)))
            dist.broadcast(x, 0)
            dist.gather(x, [torch.empty_like(x) for _ in range(n)] if rank == 0 else None)
            dist.scatter(x, [torch.empty_like(x) for _ in range(n)] if rank == 0 else None)
            sent = dist.isend(x, (rank + 1) % n)
            dist.recv(torch.empty_like(x), (rank - 1) % n)
            sent.wait()
            late = dist.all_reduce(x[:1].clone(), async_op=True)
            x.mm(x.mT)
            late.wait()
            dist.barrier()
        return log

    def two_layers() -> nn.Sequential:
        return nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 600))

    def ddp() -> list[RankLog]:
        model = nn.parallel.DistributedDataParallel(two_layers(), bucket_cap_mb=0.001)
        logs = []
        for _ in range(2):  # the buckets are made anew once the first backward has shown the order
            with onelayer.record_collectives() as log:
                model(torch.ones(2, 64)).sum().backward()
            logs.append(log)
        return logs

    def fsdp() -> RankLog:
        from torch.distributed.fsdp import fully_shard

        model = two_layers()
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        with onelayer.record_collectives() as log:
            model(torch.ones(2, 64)).sum().backward()
        return log

    def functional() -> RankLog:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        x = distribute_tensor(torch.ones(6, 5), mesh, [Shard(0)])
        with onelayer.record_collectives() as log:
            x.redistribute(mesh, [Replicate()]).to_local().sum().item()
        return log

    def everything() -> tuple[RankLog, list[RankLog], RankLog, RankLog]:
        return by_hand(), ddp(), fsdp(), functional()

    return everything, fsdp


everything, fsdp_alone = _as_in_a_cell()


@pytest.fixture(scope="module")
def logs() -> list[Any]:
    return onelayer.run_ranks(RANKS, everything, show=False)


def test_every_collective_of_python_is_seen_with_its_whole_tensor(logs: list[Any]) -> None:
    for rank, (log, *_) in enumerate(logs):
        assert (log.rank, log.backend) == (rank, "gloo")
        whole = 600 * ROW
        assert [(call.name, call.bytes) for call in log.collectives] == [
            ("all_reduce", whole),
            ("all_gather", RANKS * whole),
            ("reduce_scatter", whole),
            ("broadcast", whole),
            ("gather", RANKS * whole),
            ("scatter", RANKS * whole),
            ("send", whole),
            ("recv", whole),
            ("all_reduce", ROW),
            ("barrier", 0),
        ]
        assert {call.ranks for call in log.collectives} == {RANKS}


def test_times_are_in_order_and_waits_are_noted(logs: list[Any]) -> None:
    for log, *_ in logs:
        for call in log.collectives:
            assert call.ended_ms is not None
            assert call.waited_ms is not None
            assert call.started_ms <= call.waited_ms[0] <= call.waited_ms[1]
            assert call.started_ms <= call.ended_ms
        late = log.collectives[-2]
        between = [c for c in log.compute if late.started_ms < c.started_ms < late.waited_ms[0]]
        assert any(bar.name in ("t", "transpose", "mm") for bar in between)


def test_the_reducer_is_seen_and_its_buckets_are_the_gradients(logs: list[Any]) -> None:
    nbytes = [64 * (ROW + BIAS), 600 * (ROW + BIAS)]
    for _, (first, second), *_ in logs:
        assert {call.name for call in second.collectives} >= {"all_reduce"}
        for log in (first, second):
            assert sum(c.bytes for c in log.collectives if c.name == "all_reduce") == sum(nbytes)
        assert len([c for c in second.collectives if c.name == "all_reduce"]) > 1


def test_fully_shard_gathers_twice_and_scatters_once(logs: list[Any]) -> None:
    small = -(-64 // RANKS) * RANKS * (ROW + BIAS)  # rows are padded to a multiple of the ranks
    large = -(-600 // RANKS) * RANKS * (ROW + BIAS)
    for _, _, log, _ in logs:
        assert [(call.name, call.bytes) for call in log.collectives] == [
            ("all_gather", small),
            ("all_gather", large),
            ("all_gather", large),
            ("all_gather", small),
            ("reduce_scatter", large),
            ("reduce_scatter", small),
        ]


def test_dtensor_is_seen_through_the_functional_operators(logs: list[Any]) -> None:
    for *_, log in logs:
        (call,) = log.collectives
        assert (call.name, call.bytes, call.ranks) == ("all_gather", 6 * 5 * 4, RANKS)
        assert call.waited_ms is not None


def test_the_kernel_counts_what_a_ring_sends(logs: list[Any]) -> None:
    if written_bytes() is None:
        pytest.skip("this system does not say what its connections sent")
    for _, (first, _), *_ in logs:
        assert first.sent_bytes is not None
        assert first.ring_bytes <= first.sent_bytes < 1.05 * first.ring_bytes  # gloo's headers


def test_a_log_is_plain_data_and_its_text_is_short(logs: list[Any]) -> None:
    log = logs[0][0]
    assert json.loads(json.dumps(log.plain()))["collectives"][0]["name"] == "all_reduce"
    assert repr(log).startswith("rank 0, gloo: 8 collectives; a ring sends ")
    log.collectives *= 10
    assert repr(log).splitlines()[-1] == "  and 76 more"


def test_a_message_is_not_called_a_collective_and_goes_round_no_ring() -> None:
    def call(name: str) -> Collective:
        return Collective(name, 800, ring_bytes(name, 800, 4), 4, "cpu", "main", 0.0)

    log = RankLog(0, "gloo", [call("send"), call("recv")])
    says = "rank 0, gloo: 2 messages between two ranks; this rank sends 800 bytes"
    assert repr(log).splitlines()[0] == says
    log.collectives.append(call("all_reduce"))
    both = "rank 0, gloo: 1 collective; a ring sends 1,200 bytes; 2 messages between two ranks; "
    assert repr(log).startswith(both)
    assert repr(RankLog(0, "gloo")) == "rank 0, gloo: no collective"


def test_a_fake_group_calls_and_counts_as_a_real_one(logs: list[Any]) -> None:
    with onelayer.fake_group(RANKS, rank=1):
        assert dist.get_rank() == 1
        faked = fsdp_alone()
        with pytest.raises(RuntimeError, match="in a group already"), onelayer.fake_group(2):
            pass
    assert not dist.is_initialized()
    assert faked.sent_bytes is None
    real = [(c.name, c.bytes, c.ring_bytes) for c in logs[1][2].collectives]
    assert [(c.name, c.bytes, c.ring_bytes) for c in faked.collectives] == real
    with pytest.raises(ValueError, match="from 0 to 1"), onelayer.fake_group(2, rank=2):
        pass


def test_outside_a_group_only_compute_is_recorded_and_torch_is_as_before() -> None:
    wait = dist.Work.wait
    with record_collectives() as log:
        assert dist.Work.wait is not wait
        torch.ones(3).exp()
    assert dist.Work.wait is wait
    assert (log.backend, log.collectives, log.sent_bytes) == ("none", [], None)
    assert sum(bar.operators for bar in log.compute) == 2


def test_what_leaves_through_a_connection_is_counted_to_the_byte() -> None:
    before = written_bytes()
    if before is None:
        pytest.skip("this system does not say what its connections sent")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as here,
        server.accept()[0],
    ):
        for size in (1, 50_000, 3):
            here.sendall(bytes(size))
        assert (written_bytes() or 0) - before == 50_004


def around_a_ring(name: str, parts: int) -> int:
    """Parts that one rank of a ring of `parts` ranks sends, by walking through the turns."""
    held = [{(part, rank) for part in range(parts)} for rank in range(parts)]
    sent = 0
    turns = range(parts - 1)
    if name in ("reduce_scatter", "all_reduce"):
        for turn in turns:
            moved = [
                {piece for piece in held[rank] if piece[0] == (rank - turn) % parts}
                for rank in range(parts)
            ]
            sent += 1
            for rank in range(parts):
                held[(rank + 1) % parts] |= moved[rank]
        whole = [sum(part == (rank + 1) % parts for part, _ in held[rank]) for rank in range(parts)]
        assert whole == [parts] * parts  # each rank has everyone's share of one part
    if name in ("all_gather", "all_reduce"):
        sent += len(turns)
    return sent


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter"])
def test_ring_bytes_are_what_a_walk_around_the_ring_sends(name: str, ranks: int) -> None:
    assert ring_bytes(name, ranks * 12, ranks) == 12 * around_a_ring(name, ranks)


def test_of_calls_that_are_no_ring() -> None:
    assert ring_bytes("send", 100, 4) == 100
    assert ring_bytes("recv", 100, 4) == ring_bytes("barrier", 0, 4) == 0
    assert ring_bytes("all_to_all", 100, 4) == ring_bytes("broadcast", 100, 4) == 75
    assert ring_bytes("gather", 400, 4) == ring_bytes("scatter", 400, 4) == 75


def test_what_was_sent_again_counts_once() -> None:
    info = bytearray(216)
    struct.pack_into("=I", info, 144, 3)
    struct.pack_into("=QQ", info, 200, 110, 10)

    class Busy:
        length = 216

        def getsockopt(self, level: int, option: int, length: int) -> bytes:
            return bytes(info[: min(length, self.length)])

    busy: Any = Busy()
    assert socket_bytes._written(busy) == 103
    busy.length = 192  # a kernel that does not count
    assert socket_bytes._written(busy) is None
