"""The fused head loss in CUDA C++: watched on the CPU, built by nvcc, started on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from onelayer import cuda_cpu
from onelayer.cuda_cpu import nvcc
from onelayer.cuda_cpu.on_gpu import OnGpu
from onelayer.cuda_cpu.text import Text
from onelayer.kernels import fused_cuda
from onelayer.kernels.fused_cuda import SOURCE, cuda_head_loss
from tests.onelayer.kernels.test_head_loss import assert_as_good_as_eager, inputs, with_gradients

pytestmark = pytest.mark.compiler

SIZES = [(1, 1), (5, 130), (130, 65)]  # (d, v): a tile and a stage more or less
NO_DEVICE = (35, 100)  # CUDA's codes: a driver that is too old, or none; no device


@pytest.fixture(autouse=True)
def _fresh_inputs() -> None:
    print(f"seed {torch.seed() % 2**32}")  # pytest shows it when the test fails
    torch.manual_seed(torch.initial_seed() % 2**32)


@cache
def kernels(code: str = "", **how: str) -> cuda_cpu.Kernels:
    return cuda_cpu.build(code or SOURCE, **how)  # type: ignore[arg-type]


@pytest.fixture
def simulated_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has `cuda_head_loss` run in another build of its kernels."""
    return lambda *code, **how: monkeypatch.setattr(
        fused_cuda, "simulator", lambda: kernels(*code, **how)
    )


# ---- on the CPU ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "v"), SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_width_and_any_vocabulary(d: int, v: int, dtype: torch.dtype) -> None:
    assert_as_good_as_eager(cuda_head_loss, inputs(7, dtype, d=d, v=v))


def test_a_target_outside_the_vocabulary_spoils_the_gradients_too() -> None:
    x, w, b, t = inputs(4)
    t[1] = -1
    loss, dx, dw, db = with_gradients(cuda_head_loss, (x, w, b, t))
    assert loss.isnan()
    assert dx.isnan().any(1).tolist() == [False, True, False, False]
    assert dw.isnan().all()
    assert db.isnan().all()


def test_what_it_cannot_take_is_said() -> None:
    meta = tuple(one.to("meta") for one in inputs(2))
    for given in (inputs(2, torch.float64), inputs(2, v=600, d=0), meta):
        with pytest.raises(ValueError, match="chunked_head_loss takes any"):
            cuda_head_loss(*given)
    far = torch.randn(1, 1).as_strided((1, 1), (2**31, 1))
    with pytest.raises(ValueError, match=r"Strides are below 2\^31"):
        cuda_head_loss(far, *inputs(1, d=1, v=3)[1:])


@pytest.mark.parametrize("sanitize", ["address", "thread"])
def test_the_sanitizers_find_nothing(sanitize: str, simulated_by: Callable[..., None]) -> None:
    simulated_by(sanitize=sanitize)
    assert_as_good_as_eager(cuda_head_loss, inputs(3, d=37, v=66))


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("race", "__syncthreads();  // dz is written; nobody", "// dz is written; nobody"),
        ("out_of_bounds", "if (i >= rows || j >= columns)", "if (i >= rows)"),
        ("unwritten_shared", "at < HEIGHT * WIDTH;", "at < HEIGHT * WIDTH - 1;"),
    ],
)
def test_a_mistake_in_these_very_kernels_is_found(
    kind: str, right: str, wrong: str, simulated_by: Callable[..., None]
) -> None:
    code = SOURCE.read_text()
    assert code.count(right) == 1
    simulated_by(code.replace(right, wrong))
    with pytest.raises(cuda_cpu.KernelFault, match=kind):
        with_gradients(cuda_head_loss, inputs(1, d=33, v=3))


# ---- for a GPU ----------------------------------------------------------------------------------


def nvcc_or_skip() -> None:
    try:
        nvcc.nvcc()
    except cuda_cpu.NoCompiler as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("target", cuda_cpu.TARGETS)
def test_the_kernels_go_through_nvcc(target: str) -> None:
    nvcc_or_skip()
    machine_code = cuda_cpu.through_nvcc(SOURCE, target)
    assert machine_code.startswith(b"\x7fELF")
    for kernel in ("forward", "backward_x", "backward_w"):
        for written in ("If", "I6__half", "I13__nv_bfloat16"):
            assert f"{len(kernel)}{kernel}{written}".encode() in machine_code


def test_a_launch_that_cuda_refuses_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library that nvcc builds is loaded and called; no GPU is here to take its launch."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU, which takes the launch")
    nvcc_or_skip()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    built = OnGpu(Text.of(SOURCE))
    nobody = (0, *[None] * 6)
    assert built.enqueue("head_loss_forward", *nobody, 1, 64, 600, 64, 1, 64, 1, 0) in NO_DEVICE


def test_on_a_gpu_the_callers_stream_is_used_and_errors_are_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same code path as on a GPU, with the simulator in the place of what nvcc builds."""
    streams = []

    def enqueue(function: str, *arguments: object) -> int:
        *others, stream = arguments
        streams.append(stream)
        kernels().call(function, *others, None).expect_clean()
        return 700 if function == "head_loss_backward_w" else 0

    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=77))
    monkeypatch.setattr(fused_cuda, "_by_nvcc", lambda capability: SimpleNamespace(enqueue=enqueue))
    monkeypatch.setattr(fused_cuda, "_launch_on", lambda device: fused_cuda._on_gpu)
    x, w, b, t = inputs(3)
    loss = cuda_head_loss(x.requires_grad_(), w.requires_grad_(), b, t)
    assert torch.isclose(
        loss, torch.nn.functional.cross_entropy(torch.nn.functional.linear(x, w, b), t)
    )
    with pytest.raises(RuntimeError, match=r"head_loss_backward_w: CUDA refuses .* with error 700"):
        loss.backward()
    assert streams == [77, 77, 77]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 67, 4097])
def test_on_a_gpu(n: int, dtype: torch.dtype) -> None:
    on_gpu = tuple(one.cuda() for one in inputs(n, dtype))
    x, w, b, t = on_gpu
    assert_as_good_as_eager(cuda_head_loss, on_gpu)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        busy = torch.randn(4096, 4096, device="cuda")
        late = x + (busy @ busy).sum() * 0  # x, when the product is done
        ours = with_gradients(cuda_head_loss, (late, w, b, t))
    torch.cuda.synchronize()
    for a, e in zip(ours, with_gradients(cuda_head_loss, on_gpu), strict=True):
        assert torch.equal(a, e)
