"""play_masks: its counts against a real Triton kernel, watched in the interpreter."""

from __future__ import annotations

import pytest
import torch
from triton import language as tl

import onelayer
from onelayer.triton_kernel import kernel, watch
from onelayer.triton_kernel.masks import astray, play_masks

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")


@kernel
def double(z, N, V, HIGH: tl.constexpr, WIDE: tl.constexpr, MASKED: tl.constexpr):
    n = tl.program_id(0) * HIGH + tl.arange(0, HIGH)
    v = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    at = z + n[:, None] * V + v[None, :]
    if MASKED:
        there = (n < N)[:, None] & (v < V)[None, :]
        tl.store(at, 2 * tl.load(at, mask=there), mask=there)
    else:
        tl.store(at, 2 * tl.load(at))


def ran(n: int, v: int, high: int, wide: int, masked: bool):
    """The run of `double`, how many elements of z it left wrong, and how many outside it touched.
    What lies behind z is ours too."""
    room = torch.ones((n + high) * v + wide)
    z = room[: n * v].view(n, v)
    with watch() as run:
        double[(-(-n // high), -(-v // wide))](z, n, v, HIGH=high, WIDE=wide, MASKED=masked)
    return run, int((z != 2).sum()), run.outside(z)


@pytest.mark.parametrize(("high", "wide"), [(16, 16), (1, 64), (4, 8), (4, 1024), (1, 8)])
@pytest.mark.parametrize("mask", ["on", "off"])
def test_the_view_says_what_a_kernel_does(high: int, wide: int, mask: str) -> None:
    n, v = 5, 600
    run, _, outside = ran(n, v, high, wide, mask == "on")
    scene = play_masks(n=n, v=v).view["scenes"][f'["{wide}","{high}","{mask}"]']
    programs = "1 program," if run.programs == 1 else f"{run.programs} programs,"
    assert scene["says"].startswith(programs)
    assert f"Read and written: {run.bytes:,} bytes." in scene["says"]
    lanes = run.made[0].mask.size * run.programs
    assert f"{lanes:,} lanes, {lanes - n * v:,} of them beyond the edge" in scene["says"]
    beyond = astray(n, v, high, wide)
    assert sum(beyond) == lanes - n * v
    assert outside == (0 if mask == "on" else 2 * beyond[1])  # loads and stores


@pytest.mark.parametrize(("high", "wide"), [(16, 16), (4, 8), (4, 1024)])
def test_whoever_goes_astray_inside_of_z_leaves_it_wrong(high: int, wide: int) -> None:
    for masked, want in ((True, False), (False, astray(5, 600, high, wide)[0] > 0)):
        _, wrong, _ = ran(5, 600, high, wide, masked)
        assert bool(wrong) is want


def test_the_tiles_of_a_side_cover_it_and_hang_over() -> None:
    for scene in play_masks(n=7, v=600).view["scenes"].values():
        for (_, parts, value), length in zip(scene["lines"], (600, 7), strict=True):
            tiles, tile = map(int, value.split(" x "))
            live = [int(label) for _, look, label in parts if look in ("blue", "pale")]
            over = [int(label) for _, look, label in parts if look in ("grey", "red")]
            assert len(live) == tiles
            assert sum(live) == length
            assert sum(over) == tiles * tile - length
            assert all(size == pytest.approx(int(label) * parts[0][0] / live[0])
                       for size, _, label in parts)  # fmt: skip


def test_an_empty_matrix_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one element"):
        onelayer.play_masks(v=0)
