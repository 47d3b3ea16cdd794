"""What the watched interpreter counts, against kernels whose accesses can be counted by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from triton import language as tl
from triton.runtime.interpreter import interpreter_builder

from onelayer.triton_kernel import kernel, watch
from onelayer.triton_kernel.accesses import Accesses

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")


@kernel
def halve(x, z, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < N, other=0.0) / 2, mask=at < N)


@kernel
def halve_unmasked(x, z, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at) / 2)


@kernel
def tally(t, counts):
    word = tl.load(t + tl.program_id(0))
    tl.store(counts + word, tl.load(counts + word) + 1)


@kernel
def tally_atomically(t, counts):
    word = tl.load(t + tl.program_id(0))
    tl.atomic_add(counts + word, 1)


def halved(x: Tensor, block: int) -> Accesses:
    z = torch.full_like(x, float("nan"))
    run = halve[-(-len(x) // block),](x, z, len(x), BLOCK=block)
    assert torch.equal(z, x / 2)
    return run


@pytest.mark.parametrize("n", [1, 16, 37, 600])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_masked_element_is_not_counted(n: int, dtype: torch.dtype) -> None:
    run = halved(torch.randn(n).to(dtype), 16)
    nbytes = n * dtype.itemsize
    assert (run.bytes_read, run.bytes_written, run.bytes) == (nbytes, nbytes, 2 * nbytes)
    assert run.programs == -(-n // 16)
    assert run.distinct_bytes_read == nbytes


def test_its_text_says_how_many_lanes_were_idle() -> None:
    said = repr(halved(torch.randn(37), 16))
    assert said.startswith("3 programs\n")
    assert "37 elements" in said
    assert "masked off 11" in said


def test_elements_that_several_programs_read_are_counted_once_as_distinct() -> None:
    tokens, counts = torch.tensor([3, 3, 3, 5]), torch.zeros(8, dtype=torch.int64)
    run = tally[4,](tokens, counts)
    assert run.bytes_read == 8 * 8
    assert run.distinct_bytes_read == (4 + 2) * 8


def test_a_race_is_seen_though_the_result_is_right() -> None:
    tokens, counts = torch.tensor([3, 3, 3, 5]), torch.zeros(8, dtype=torch.int64)
    run = tally[4,](tokens, counts)
    assert counts.tolist() == [0, 0, 0, 3, 0, 1, 0, 0]
    assert run.raced == 1
    assert halved(torch.randn(37), 16).raced == 0


def test_an_atomic_is_no_race_and_counts_both_ways() -> None:
    tokens, counts = torch.tensor([3, 3, 5]), torch.zeros(8, dtype=torch.int64)
    run = tally_atomically[3,](tokens, counts)
    assert counts.tolist() == [0, 0, 0, 2, 0, 1, 0, 0]
    assert run.raced == 0
    assert (run.bytes_read, run.bytes_written) == (3 * 8 + 3 * 8, 3 * 8)


def test_what_lies_outside_of_the_tensors_is_seen() -> None:
    room, z = torch.zeros(32), torch.zeros(32)
    run = halve_unmasked[2,](room, z, BLOCK=16)
    assert run.outside(room, z) == 0
    assert run.outside(room[:20], z) == 12
    assert run.outside(room[4:20], z[:31]) == 4 + 12 + 1
    assert run.outside(room[:0], z) == 32


def test_an_expanded_or_turned_tensor_has_the_extent_of_its_memory() -> None:
    run = halved(torch.zeros(16), 16)
    (first, _) = run.made
    x = torch.zeros(4, 4)
    assert run.outside(x.T) == 32
    assert first.addresses.shape == (16,)


def test_afterwards_nothing_is_watched() -> None:
    with watch() as run:
        pass
    halved(torch.zeros(4), 4)
    assert run.made == []
    assert "create_masked_load" not in vars(interpreter_builder)


def test_it_stops_watching_when_the_kernel_raises() -> None:
    with pytest.raises(Exception, match="power of 2"):
        halve[1,](torch.zeros(3), torch.zeros(3), 3, BLOCK=3)
    assert "create_masked_load" not in vars(interpreter_builder)


def test_a_watch_around_a_watched_run_sees_it_too() -> None:
    with watch() as run:
        inner = halved(torch.zeros(4), 4)
    assert len(inner.made) == 2
    assert (run.bytes_read, run.bytes_written) == (inner.bytes_read, inner.bytes_written)
