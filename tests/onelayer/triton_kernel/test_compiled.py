"""Kernels compiled for GPUs that are not here: what the texts and the assembler say of them."""

from __future__ import annotations

import pytest
import torch
from triton import language as tl

from onelayer.triton_kernel import kernel
from onelayer.triton_kernel.compiled import STAGES, Compiled

# mypy: disable-error-code="no-untyped-def,untyped-decorator"
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")


@kernel
def tops(z, tops, V, BLOCK: tl.constexpr):
    words = tl.arange(0, BLOCK)
    row = tl.load(z + tl.program_id(0) * V + words, mask=words < V, other=float("-inf"))
    tl.store(tops + tl.program_id(0), tl.max(row, 0))


@kernel
def squares(w, s, D: tl.constexpr, TILE: tl.constexpr, HOW: tl.constexpr):
    i, j = tl.arange(0, TILE), tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    for first in range(0, D, 32):
        d = first + tl.arange(0, 32)
        a = tl.load(w + i[:, None] * D + d[None, :])
        total += tl.dot(a, tl.trans(a), input_precision=HOW)
    tl.store(s + i[:, None] * TILE + j[None, :], total)


def top_of(**more: object) -> Compiled:
    return tops.compiled(90, z="*fp32", tops="*fp32", V="i32", BLOCK=1024, **more)


def square_of(tile: int, capability: int = 90, how: str = "ieee", **more: object) -> Compiled:
    return squares.compiled(capability, w="*fp32", s="*fp32", D=128, TILE=tile, HOW=how, **more)


@pytest.mark.slow
def test_every_stage_has_its_text() -> None:
    code = top_of()
    words = {"ttir": "tt.load", "ttgir": "#blocked", "llir": "define", "ptx": "ld.", "sass": "LDG"}
    assert tuple(words) == STAGES
    for stage, word in words.items():
        assert code.lines(stage, word), stage
        assert all(word in line for line in code.lines(stage, word))


def test_what_16_divides_is_loaded_four_at_a_time() -> None:
    known, unknown = top_of(divisible=["V"]), top_of()
    assert known.instructions("ld.global") == {"ld.global.v4.b32": 2}
    assert unknown.instructions("ld.global") == {"ld.global.b32": 8}


def test_instructions_are_counted_behind_their_predicates() -> None:
    code = top_of()
    assert any(line.startswith("@%p") for line in code.lines("ptx", "ld.global"))
    assert code.instructions("st.global") == {"st.global.b32": 1}
    assert code.instructions("no.such") == {}
    assert set(code.instructions("ld.global")) < set(code.instructions())


def test_fewer_registers_are_paid_with_spills() -> None:
    free, tight = square_of(64), square_of(64, maxnreg=64)
    assert free.registers > tight.registers
    assert tight.registers <= 64
    # Triton 3.6's code spills 16 bytes where it is free to, too.
    assert free.spilled_bytes < tight.spilled_bytes
    assert len(free.lines("sass", "STL")) < len(tight.lines("sass", "STL"))


def test_options_reach_the_compiler() -> None:
    assert square_of(32, num_warps=8).warps == 8
    stages = [square_of(64, 80, "tf32", num_stages=n).shared_bytes for n in (2, 3, 4)]
    assert stages == sorted(set(stages))


@pytest.mark.parametrize(("capability", "word"), [(75, "fma"), (80, "mma.sync"), (90, "wgmma.mma")])
def test_a_dot_becomes_what_the_gpu_has(capability: int, word: str) -> None:
    assert square_of(64, capability, "tf32").instructions(word)


def test_it_says_what_the_assembler_counted() -> None:
    code = square_of(32)
    said = repr(code)
    assert "squares for sm_90: 4 warps" in said
    assert f"{code.registers} registers" in said
    assert f"{code.shared_bytes:,} bytes shared" in said


def test_a_kernel_compiles_after_it_was_interpreted_and_the_other_way_round() -> None:
    z, found = torch.randn(3, 600), torch.empty(3)
    for _ in range(2):
        tops[3,](z, found, 600, BLOCK=1024)
        assert torch.equal(found, z.amax(1))
        assert top_of(fresh=True).instructions("max")


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(KeyError, match="BLOCK"):
        tops.compiled(90, z="*fp32", tops="*fp32", V="i32")
