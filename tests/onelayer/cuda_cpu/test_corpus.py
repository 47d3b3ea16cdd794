"""CUDA on the CPU: correct kernels of many styles run right, are reported clean, and pass nvcc."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from onelayer import cuda_cpu

pytestmark = pytest.mark.compiler

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(CORPUS.glob("*.cu"))


@dataclass(frozen=True)
class Case:
    """One call of one function of the corpus, and the tensors that it must have written."""

    function: str
    arguments: tuple[object, ...]
    written: tuple[tuple[Tensor, Tensor], ...]  # what the kernel wrote, what torch says
    value: int | None = None
    tolerance: float = 1e-5


CASES: dict[str, Callable[[torch.Generator], list[Case]]] = {}


def case(make: Callable[[torch.Generator], list[Case]]) -> Callable[[torch.Generator], list[Case]]:
    """Register the cases of one function, under its name `file__what`."""
    CASES[make.__name__] = make
    return make


def nan(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """An output that nobody has written."""
    return torch.full(shape, torch.nan).to(dtype)


def tensors_of_a_head(g: torch.Generator, n: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    x, w, b = (torch.randn(*s, generator=g) for s in ((n, 64), (600, 64), (600,)))
    return x.to(dtype), w.to(dtype), b.to(dtype)


@case
def heads__naive_and_tiled(g: torch.Generator) -> list[Case]:
    made = []
    for function, stream in (("head_naive", ()), ("head_tiled", (None,))):
        for n in (0, 1, 7):
            x, w, b = tensors_of_a_head(g, n, torch.float32)
            y = nan(n, 600)
            arguments = (x, w, b, y, n, 64, 600, *stream)
            made.append(Case(function, arguments, ((y, F.linear(x, w, b)),), 0, 1e-4))
    return made


@case
def heads__sizes_that_are_no_multiple_of_the_tile(g: torch.Generator) -> list[Case]:
    x, w, b = (torch.randn(*s, generator=g) for s in ((17, 37), (41, 37), (41,)))
    y = nan(17, 41)
    arguments = (x, w, b, y, 17, 37, 41, None)
    return [Case("head_tiled", arguments, ((y, F.linear(x, w, b)),), 0, 1e-4)]


@case
def heads__any_strides(g: torch.Generator) -> list[Case]:
    x = torch.randn(64, 13, generator=g).T[1:12:2]  # offset and strided
    w, b = torch.randn(30, 128, generator=g)[:, ::2], torch.randn(30, generator=g)
    y = nan(30, 6).T
    strides = (*x.stride(), *w.stride(), *y.stride())
    arguments = (x, w, b, y, 6, 64, 30, *strides)
    row = torch.randn(64, generator=g).expand(5, 64)  # five rows that are one
    z = nan(5, 30)
    of_one = (row, w, b, z, 5, 64, 30, *row.stride(), *w.stride(), *z.stride())
    return [
        Case("head_strided", arguments, ((y, F.linear(x, w, b)),), 0, 1e-4),
        Case("head_strided", of_one, ((z, F.linear(row, w, b)),), 0, 1e-4),
    ]


@case
def heads__sixteen_bits(g: torch.Generator) -> list[Case]:
    made = []
    for function, dtype in (("head_half", torch.float16), ("head_bfloat16", torch.bfloat16)):
        x, w, b = tensors_of_a_head(g, 3, dtype)
        y = nan(3, 600, dtype=dtype)
        want = F.linear(x.double(), w.double(), b.double()).to(dtype)
        arguments = (x, w, b, y, 3, 64, 600)
        made.append(Case(function, arguments, ((y.view(3, 600), want),), None, 2e-2))
    return made


@case
def reductions__sums(g: torch.Generator) -> list[Case]:
    made = []
    for n in (0, 1, 255, 1000):
        x, s = torch.randn(n, generator=g), nan(1)
        made.append(Case("sum_tree", (x, s, n), ((s, x.sum()[None]),), None, 1e-4))
    x, sums = torch.randn(5, 333, generator=g), nan(5)
    made.append(Case("sum_rows", (x, sums, 5, 333), ((sums, x.sum(1)),), None, 1e-4))
    y, line = nan(32), x[0, :32].contiguous()
    made.append(Case("sum_neighbours", (line, y), ((y, line.roll(1) + line.roll(5)),)))
    partial, s = nan(4), nan(1)
    arguments = (x, partial, s, x.numel(), 4)
    made.append(Case("sum_last_block", arguments, ((s, x.sum()[None]),), None, 1e-3))
    return made


@case
def reductions__votes(g: torch.Generator) -> list[Case]:
    x = torch.randn(1000, generator=g)
    a, b, c = (torch.zeros(1, dtype=torch.int32) for _ in range(3))
    positive = (x > 0).sum()[None].int()
    everywhere = torch.zeros(1, dtype=torch.int32)
    return [Case("count", (x, a, b, c, 1000), ((a, positive), (b, positive), (c, everywhere)))]


@case
def reductions__prefix_sums(g: torch.Generator) -> list[Case]:
    x, y = torch.randn(100, generator=g), nan(100)
    i = torch.arange(96, dtype=torch.int32)
    j = torch.full_like(i, -1)
    return [
        Case("prefix_sum", (x, y, 100), ((y, x.cumsum(0)),), None, 1e-4),
        Case("prefix_of_warps", (i, j, 3), ((j, i.view(3, 32).cumsum(1).view(-1).int()),)),
    ]


@case
def losses__rows(g: torch.Generator) -> list[Case]:
    z, p, loss = torch.randn(5, 600, generator=g) * 9, nan(5, 600), nan(5)
    target = torch.randint(600, (5,), generator=g)
    want = F.cross_entropy(z, target, reduction="none")
    return [
        Case("softmax_rows", (z, p, 5, 600), ((p, z.softmax(-1)),)),
        Case("cross_entropy_rows", (z, target, loss, 5, 600), ((loss, want),), None, 1e-4),
    ]


@case
def memory__grid_stride_and_vectors(g: torch.Generator) -> list[Case]:
    x, y = torch.randn(1001, generator=g), torch.randn(1001, generator=g)
    made = [Case("run_saxpy", (1001, 2.5, x, y), ((y, 2.5 * x + y),))]
    for n in (0, 3, 64, 1001):
        z = nan(n)
        made.append(Case("scale", (x[:n], z, 3.0, n), ((z, 3 * x[:n]),)))
    return made


@case
def memory__transpose_stencil_permute(g: torch.Generator) -> list[Case]:
    x, y = torch.randn(70, 45, generator=g), nan(45, 70)
    u, v, w = torch.randn(150, generator=g), nan(150), torch.randn(7, generator=g)
    convolved = F.conv1d(u[None, None], w[None, None], padding=3)[0, 0]
    a = torch.randint(0, 255, (3, 7, 9), generator=g, dtype=torch.uint8)
    b = torch.zeros(9, 7, 3, dtype=torch.uint8)
    return [
        Case("run_transpose", (x, y, 70, 45), ((y, x.T),)),
        Case("run_stencil", (u, v, w, 150), ((v, convolved),), 0, 1e-4),
        Case("permute_bytes", (a, b, 3, 7, 9), ((b, a.permute(2, 1, 0)),)),
    ]


@case
def atomics__all(g: torch.Generator) -> list[Case]:
    i = torch.randint(0, 1000, (5000,), generator=g, dtype=torch.int32)
    bins = torch.zeros(16, dtype=torch.int32)
    d, s = torch.randn(20, generator=g).double(), torch.zeros(1).double()
    x = torch.randn(333, generator=g)
    kept, count = nan(333), torch.zeros(1, dtype=torch.int32)
    in_order = torch.cat([x[x > 0], torch.full_like(x[x <= 0], torch.nan)])
    most, extremes = torch.full((1,), -1e9), torch.zeros(2, dtype=torch.int32)
    ends = torch.tensor([332, -332], dtype=torch.int32)
    n = (x > 0).sum()[None].int()
    return [
        Case("run_histogram", (i, bins, 5000), ((bins, torch.bincount(i % 16).int()),)),
        Case("sum_locked", (d, s, 20), ((s, d.sum()[None]),)),
        Case("compact", (x, kept, count, 333), ((kept, in_order), (count, n))),
        Case("run_maximum", (x, most, extremes, 333), ((most, x.max()[None]), (extremes, ends))),
    ]


@case
def hosts__all(g: torch.Generator) -> list[Case]:
    x, s = torch.randn(500, generator=g), nan(1)
    y, z, total = nan(1), nan(40), torch.zeros(1, dtype=torch.int32)
    return [
        Case("sum_of_squares", (x, s, 500), ((s, (x * x).sum()[None]),), 0, 1e-2),
        Case("names_of_the_device", (z, 40), ((z, torch.full((40,), 2.0)),), 2),
        Case("much_shared", (y, 65536), ((y, torch.tensor([16383.0])),), 0),
        Case("round_trip", (total, 50), ((total, torch.tensor([1275], dtype=torch.int32)),), 0),
    ]


@case
def groups__of_threads(g: torch.Generator) -> list[Case]:
    x, p = torch.randn(7, 75, generator=g) * 5, nan(7, 75)
    d, least, most = torch.randn(64, generator=g).double(), *(nan(8).double() for _ in range(2))
    s, up, below = torch.randint(9, (48,), generator=g).float(), nan(3, 16), nan(3, 16)
    sums = s.view(3, 16).cumsum(1)
    told = torch.zeros(64, dtype=torch.int32)
    return [
        Case("softmax_warps", (x, p, 7, 75), ((p, x.softmax(-1)),)),
        Case(
            "tiles_of_eight",
            (d, least, most, 64),
            ((least, d.view(8, 8).amin(1)), (most, d.view(8, 8).amax(1))),
        ),
        Case("scans", (s, up, below, 48), ((up, sums), (below, sums - s.view(3, 16)))),
        Case("groups_tell", (told,), ((told, torch.tensor(_told(), dtype=torch.int32)),)),
    ]


def _told() -> list[int]:
    """What `tell` writes, said without groups."""

    def moved(i: int) -> int:
        first, rank = i // 16 * 16, i % 16
        up, down = first + max(rank - 1, 0), first + min(rank + 1, 15)
        return up + down + (first + (rank ^ 3)) + first + 5

    near = [0b111 + (32 <= i < 48) + 2 for i in range(64)]
    odd = 1000 * sum(range(16)) + 16
    return [moved(i ^ 1) + near[i] + (odd if i % 2 else 0) for i in range(64)]


@case
def groups__rows_and_device(g: torch.Generator) -> list[Case]:
    x = torch.randint(1000, (5, 12), generator=g, dtype=torch.int32)
    y = torch.zeros_like(x)
    want = torch.zeros_like(x)
    want[:, 2:10] = 2 * x[:, 2:10]
    invalid_pitch = 12
    return [
        Case("twice_inside", (x, y, 5, 12, 8), ((y, want),), invalid_pitch),
        Case("device_agrees_with_itself", (), (), 0),
    ]


@case
def styles__all(g: torch.Generator) -> list[Case]:
    x, y = torch.randn(100, generator=g), torch.zeros(100)
    want = (2 * x).clamp(min=0)
    want[:4] = 3
    want[:32] += 1
    a, b = torch.arange(8, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    pairs = a.view(4, 2).sum(1).int()
    return [Case("many_styles", (x, y, 100, a, b), ((y, want), (b, pairs)))]


def check_case(kernels: cuda_cpu.Kernels, one: Case) -> cuda_cpu.Run:
    wanted = [(got, want.clone()) for got, want in one.written]
    run = kernels.call(one.function, *one.arguments)
    assert run.ok, f"{one.function}:\n{run}"
    assert run.value == one.value
    for got, want in wanted:
        torch.testing.assert_close(
            got, want, rtol=one.tolerance, atol=one.tolerance, equal_nan=True
        )
    return run


@cache
def built(name: str, **how: str) -> cuda_cpu.Kernels:
    return cuda_cpu.build(CORPUS / f"{name}.cu", **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_a_correct_kernel_is_right_and_reported_clean(name: str) -> None:
    seed = torch.randint(1 << 31, (1,)).item()
    print("seed", seed)
    for one in CASES[name](torch.Generator().manual_seed(int(seed))):
        check_case(built(name.split("__")[0]), one)


@pytest.mark.parametrize("name", CASES)
def test_the_portable_fibers_agree(name: str) -> None:
    for one in CASES[name](torch.Generator().manual_seed(7)):
        check_case(built(name.split("__")[0], fibers="portable"), one)


def test_every_file_and_function_of_the_corpus_is_called() -> None:
    called = {c.function for make in CASES.values() for c in make(torch.Generator())}
    exported = {f for path in FILES for f in built(path.stem).signatures}
    assert called == exported
    assert len(called) >= 20


@pytest.mark.parametrize("target", cuda_cpu.TARGETS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_same_file_goes_through_nvcc(path: Path, target: str) -> None:
    try:
        machine_code = cuda_cpu.through_nvcc(path, target)
    except cuda_cpu.NoCompiler as missing:
        pytest.skip(str(missing))
    assert machine_code.startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("sanitize", "name"),
    [("address", "memory__grid_stride_and_vectors"), ("thread", "reductions__prefix_sums")],
)
def test_a_correct_kernel_is_clean_under_a_sanitizer(sanitize: str, name: str) -> None:
    for one in CASES[name](torch.Generator().manual_seed(7)):
        check_case(built(name.split("__")[0], sanitize=sanitize), one)
