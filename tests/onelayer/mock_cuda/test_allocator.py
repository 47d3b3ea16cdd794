"""torch's caching allocator on the mocked device: its own rules, its own words."""

import random

from autograder.checks.lab05_memory_and_time.allocator_model import Allocator
from tests.onelayer.memory.drawn_requests import drawn_requests
from tests.onelayer.mock_cuda import programs
from tests.onelayer.mock_cuda.programs import MIB


def test_sizes_of_segments_are_those_of_torch(facts):
    """Rounding to 512 bytes, segments of 2 MiB for small requests, of 20 MiB up to 10 MiB, and of
    whole 2 MiB above: c10/cuda/CUDACachingAllocator.cpp."""
    found = facts["allocator_rules"]
    assert found["small"] == (2 * MIB, 4096)
    assert found["middle"] == (20 * MIB, 2 * MIB)
    assert found["large"] == (32 * MIB, 32 * MIB)
    assert found["kept"] == (32 * MIB, 0)
    assert found["emptied"] == 0
    assert found["free"] == found["total"] == 1024 * MIB


def test_the_snapshot_holds_what_is_on_the_device(mocked):
    run = mocked(programs.three_steps)
    segments = run.memory["segments"]
    reserved = sum(segment["total_size"] for segment in segments)
    mallocs = sum(call.bytes for call in run.calls if call.api == "cudaMalloc")
    assert reserved == mallocs == run.stats[0]["reserved_bytes.all.current"]
    for segment in segments:
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]


def test_out_of_memory_in_torchs_words_and_life_after_it(facts):
    found = facts["out_of_memory_and_on"]
    assert found["said"].startswith("CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert "has a total capacity of 1024.00 MiB" in found["said"]
    assert found["then"] == 900 * MIB
    assert found["ooms"] == 1


def test_other_backends_of_the_allocator(mocked, monkeypatch):
    for conf in ("expandable_segments:True", "backend:cudaMallocAsync"):
        monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", conf)
        run = mocked(programs.out_of_memory_and_on, memory="1 GiB", trace=conf[0] == "e")
        assert run.result["then"] == 900 * MIB
        assert "out of memory" in run.result["said"]


def test_the_model_of_unit_05_is_torchs_allocator_block_for_block(mocked):
    """Drawn sequences of requests, with cached blocks, streams and empty_cache."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    sequences = tuple(tuple(drawn_requests(rng)) for _ in range(400))
    torchs = mocked(programs.replayed, sequences, memory=None, trace=False).result
    for number, (requests, theirs) in enumerate(zip(sequences, torchs, strict=True)):
        ours = [
            (s.stream, s.pool, [(b.bytes, b.asked, b.name is not None) for b in s.blocks])
            for s in Allocator().run(requests).segments
        ]
        assert ours == theirs, f"sequence {number} of seed {seed}: {requests}"
    assert sum(map(len, torchs)) > 1000


def test_a_planted_fault_in_the_model_is_found(mocked):
    """The comparison sees an allocator that splits a large block at 1 MiB exactly."""

    class Faulty(Allocator):
        def splits(self, left, pool):
            return left >= (512 if pool == "small" else 2**20)

    requests = (("alloc", "a", 15 * MIB, 0),)
    ((theirs,),) = mocked(programs.replayed, (requests,), memory=None, trace=False).result
    (ours,) = Faulty().run(requests).segments
    assert [block.bytes for block in ours.blocks] != [size for size, *_ in theirs[2]]
