"""The fused losses of the head against the truth in float64, and against what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from triton.runtime.errors import InterpreterError
from triton.runtime.interpreter import InterpretedFunction

import onelayer
from onelayer.kernels import IGNORED
from onelayer.kernels.chunked import CPU_ROWS, chunked_head_loss
from onelayer.kernels.eager import eager_head_loss, true_head_loss
from onelayer.kernels.fused_cuda import cuda_head_loss
from onelayer.kernels.fused_triton import triton_head_loss
from onelayer.kernels.triton_jit import interpreted

HeadLoss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Inputs = tuple[Tensor, Tensor, Tensor, Tensor]
IN_CUDA = pytest.param(cuda_head_loss, marks=pytest.mark.compiler, id="cuda_head_loss")
FUSED = [chunked_head_loss, triton_head_loss, IN_CUDA]
# What the interpreter of Triton 3.6, which comes with torch 2.11, does inside itself.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")
every_version = pytest.mark.parametrize("fused", FUSED)
in_kernels = pytest.mark.parametrize("fused", [triton_head_loss, IN_CUDA])


@pytest.fixture(autouse=True)
def _fresh_inputs() -> Iterator[None]:
    seed = torch.seed() % 2**32
    torch.manual_seed(seed)
    yield
    print(f"seed {seed}")  # pytest shows it when the test fails


def inputs(n: int, dtype: torch.dtype = torch.float32, *, d: int = 64, v: int = 600) -> Inputs:
    """x (N, D), w (V, D), b (V,), t (N,), every fifth target ignored."""
    w, b = torch.randn(v, d) / d**0.5, torch.randn(v)
    t = torch.randint(v, (n,))
    t[2::5] = IGNORED
    return torch.randn(n, d).to(dtype), w.to(dtype), b.to(dtype), t


def with_gradients(loss_of: HeadLoss, given: Inputs, factor: float = 1.0) -> list[Tensor]:
    """loss, dx, dw, db."""
    *leaves, t = given
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    loss = loss_of(*leaves, t)
    return [loss.detach(), *torch.autograd.grad(factor * loss, leaves)]


def error(got: Tensor, true: Tensor) -> float:
    """Relative 2-norm."""
    off = (got.double() - true.double()).norm()
    return float(off / true.double().norm().clamp_min(1e-30))


def assert_as_good_as_eager(fused: HeadLoss, given: Inputs, factor: float = 1.0) -> None:
    """Our error may not exceed the ordinary path's own by more than a little."""
    exact = [one.double() if one.is_floating_point() else one for one in given]
    true = with_gradients(true_head_loss, tuple(exact), factor)  # type: ignore[arg-type]
    eager = with_gradients(eager_head_loss, given, factor)
    ours = with_gradients(fused, given, factor)
    z = torch.nn.functional.linear(*given[:3])
    steps = max(4.0, float(z.masked_fill(z.isinf(), 0).abs().max()))  # of a logit, rounded
    slack = steps * torch.finfo(given[0].dtype).eps
    for name, a, e, o in zip(("loss", "dx", "dw", "db"), true, eager, ours, strict=True):
        assert o.shape == e.shape, name
        assert o.dtype == e.dtype, name
        assert error(o, a) <= 1.5 * error(e, a) + slack, (name, error(o, a), error(e, a))


@every_version
@pytest.mark.parametrize("given", [torch.float32, torch.float16])
def test_under_autocast_it_takes_what_a_linear_takes(fused: HeadLoss, given: torch.dtype) -> None:
    """x from a layer before, in 16 bits, beside weights of 32; the loss is float32, as eager's.
    In float16, because Triton's interpreter cannot multiply bfloat16."""
    x, *rest = inputs(70)
    results = []
    for loss_of in (eager_head_loss, fused):
        with torch.autocast("cpu", torch.float16):
            results.append(with_gradients(loss_of, (x.to(given), *rest)))  # type: ignore[arg-type]
    for name, eager, ours in zip(("loss", "dx", "dw", "db"), *results, strict=True):
        assert ours.dtype == eager.dtype, name
        assert error(ours, eager) < 5e-3, (name, error(ours, eager))


@every_version
@pytest.mark.parametrize("n", [1, 7, 64, 67, 257])
def test_any_number_of_tokens(fused: HeadLoss, n: int) -> None:
    assert_as_good_as_eager(fused, inputs(n))


@pytest.mark.parametrize("n", [CPU_ROWS - 1, CPU_ROWS, CPU_ROWS + 1, 3 * CPU_ROWS])
def test_a_chunk_more_or_less_is_no_matter(n: int) -> None:
    assert_as_good_as_eager(chunked_head_loss, inputs(n))


@every_version
@pytest.mark.parametrize(("d", "v"), [(16, 1), (16, 63), (32, 64), (128, 65)])
def test_other_heads(fused: HeadLoss, d: int, v: int) -> None:
    assert_as_good_as_eager(fused, inputs(37, d=d, v=v))


@every_version
def test_half_precision_is_no_worse_than_eagers(fused: HeadLoss) -> None:
    assert_as_good_as_eager(fused, inputs(129, torch.float16))


def test_bfloat16_in_chunks() -> None:
    assert_as_good_as_eager(chunked_head_loss, inputs(300, torch.bfloat16))


def test_the_gradient_in_float64() -> None:
    x, w, b, t = inputs(5, torch.float64, d=3, v=7)
    leaves = [leaf.requires_grad_() for leaf in (x, w, b)]
    assert torch.autograd.gradcheck(lambda *given: chunked_head_loss(*given, t), leaves)


@every_version
def test_any_strides(fused: HeadLoss) -> None:
    x, w, b, t = inputs(66)
    turned = (x.T.contiguous().T, w.T.contiguous().T, b, t)  # columns next to each other
    within = (torch.randn(70, 130)[2:68, 1:129:2], w, torch.randn(1201)[1::2], t.repeat(2)[::2])
    one_row = (x[:1].expand(66, 64), w, b[:1].expand(600), t)
    for given in (turned, within, one_row):
        assert_as_good_as_eager(fused, given)


@every_version
def test_what_comes_from_above_is_multiplied_in(fused: HeadLoss) -> None:
    assert_as_good_as_eager(fused, inputs(9), factor=-3.5)


@every_version
def test_nothing_to_average_is_what_it_is_in_torch(fused: HeadLoss) -> None:
    nobody = inputs(0)
    all_ignored = (*inputs(3)[:3], torch.full((3,), IGNORED))
    for given in (nobody, all_ignored):
        theirs, ours = (with_gradients(one, given) for one in (eager_head_loss, fused))
        for a, b in zip(theirs, ours, strict=True):
            assert torch.equal(a.isnan(), b.isnan())
            assert torch.equal(a.nan_to_num(), b.nan_to_num())


@every_version
def test_logits_beyond_what_exp_can_hold(fused: HeadLoss) -> None:
    x, w, b, t = inputs(20)
    assert_as_good_as_eager(fused, (x * 300, w, b, t))
    forbidden = b.clone()
    forbidden[t[0] - 1] = -torch.inf  # a word that may not come
    t = t.where(t != t[0] - 1, IGNORED)
    assert_as_good_as_eager(fused, (x, w, forbidden, t))


@every_version
def test_a_bias_that_exp_cannot_hold_is_nothing_to_the_rows_beyond_the_last(
    fused: HeadLoss,
) -> None:
    x, w, b, t = inputs(5)
    assert_as_good_as_eager(fused, (x, w, b + 100, t))


@every_version
def test_not_a_number_is_not_lost(fused: HeadLoss) -> None:
    x, w, b, t = inputs(4, v=5)
    b[2], t[:] = torch.nan, 1
    assert all(one.isnan().all() for one in with_gradients(fused, (x, w, b, t))[:2])


@every_version
def test_all_that_comes_back_was_written(fused: HeadLoss) -> None:
    assert torch.utils.deterministic.fill_uninitialized_memory  # by this mode, with NaN
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        assert all(one.isfinite().all() for one in with_gradients(fused, inputs(70, v=65)))
    finally:
        torch.use_deterministic_algorithms(False)


@every_version
@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), ()])
def test_a_frozen_argument_gets_no_gradient(fused: HeadLoss, wanted: tuple[int, ...]) -> None:
    x, w, b, t = inputs(11)
    leaves = [leaf.requires_grad_(i in wanted) for i, leaf in enumerate((x, w, b))]
    loss = fused(*leaves, t)
    assert loss.requires_grad is bool(wanted)
    if wanted:
        loss.backward()
    assert [leaf.grad is not None for leaf in leaves] == [i in wanted for i in range(3)]


def _penalty(loss: Tensor, x: Tensor) -> Tensor:
    """Of a large gradient: what a second backward is for."""
    (dx,) = torch.autograd.grad(loss, x, create_graph=True)
    return dx.square().sum()


@every_version
def test_there_is_no_second_backward(fused: HeadLoss) -> None:
    x, w, b, t = inputs(3)
    loss = fused(x.requires_grad_(), w, b, t)
    with pytest.raises(RuntimeError, match="no second backward"):
        _penalty(loss, x).backward()


@every_version
def test_what_does_not_fit_is_said(fused: HeadLoss) -> None:
    x, w, b, t = inputs(4)
    wrong: list[tuple[tuple[Tensor, ...], str]] = [
        ((x, w.T, b, t), r"sizes N, V, D have to agree; got \(4, 64\), \(64, 600\)"),
        ((x[0], w, b, t), r"x \(N, D\), w \(V, D\), b \(V,\), t \(N,\) are needed"),
        ((x, w.half(), b, t), "share one floating dtype"),
        ((x, w, b, t.int()), "Targets are int64"),
        ((x.to("meta"), w, b, t), "one device; got meta, cpu, cpu, cpu"),
    ]
    for given, sentence in wrong:
        with pytest.raises(ValueError, match=sentence):
            fused(*given)  # type: ignore[arg-type]


@pytest.mark.skipif(not interpreted(), reason="here a GPU runs the kernels")
@pytest.mark.parametrize(
    ("words", "kind", "says"),
    [
        ("only 0-dimensional arrays can be converted to Python scalars", RuntimeError, "'numpy<"),
        ("something else", InterpreterError, "something else"),
    ],
)
def test_an_interpreter_too_old_for_this_numpy_says_so(
    monkeypatch: pytest.MonkeyPatch, words: str, kind: type[Exception], says: str
) -> None:
    """Triton 3.6 on numpy 2.4, as it fails there."""

    def failing(*args: object, **kwargs: object) -> None:
        raise InterpreterError(repr(TypeError(words)))

    monkeypatch.setattr(InterpretedFunction, "run", failing)
    with pytest.raises(kind, match=says):
        triton_head_loss(*inputs(4))


def test_the_triton_version_says_what_it_cannot_take() -> None:
    for given in (inputs(2, d=48), inputs(2, torch.float64), inputs(2, torch.bfloat16)):
        with pytest.raises(ValueError, match="chunked_head_loss takes any"):
            triton_head_loss(*given)


@pytest.mark.compiler
def test_a_target_outside_the_vocabulary_does_not_pass_for_a_loss() -> None:
    x, w, b, t = inputs(4)
    t[1] = 600
    with pytest.raises((IndexError, RuntimeError), match="index"):
        chunked_head_loss(x, w, b, t)
    assert triton_head_loss(x, w, b, t).isnan()
    assert cuda_head_loss(x, w, b, t).isnan()


def test_in_chunks_a_third_of_the_memory_is_plenty() -> None:
    given = inputs(16 * CPU_ROWS)
    peaks = {}
    for loss_of in (eager_head_loss, chunked_head_loss):
        with onelayer.peak_bytes() as peak:
            with_gradients(loss_of, given)
        peaks[loss_of] = peak.bytes
    assert peaks[chunked_head_loss] <= peaks[eager_head_loss] / 3


@in_kernels
def test_a_kernel_keeps_one_number_a_token(fused: HeadLoss) -> None:
    x, w, b, t = inputs(100)
    with onelayer.count_saved() as saved:
        fused(x.requires_grad_(), w, b, t)
    given = sum(one.nbytes for one in (x, w, b, t))
    lse, count = 100 * 4, 8
    assert saved.bytes == given + lse + count


OFFLINE = """
from onelayer.kernels.offline import compiled_kernels
for capability in (75, 80, 90):
    for name, code in compiled_kernels(capability).items():
        print(capability, name, f".target sm_{capability}" in code["ptx"], len(code["cubin"]) > 0)
"""


@pytest.mark.slow
def test_the_kernels_compile_for_gpus_that_are_not_here(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        env=os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 9
    assert all(line[2:] == ["True", "True"] for line in lines), done.stdout
