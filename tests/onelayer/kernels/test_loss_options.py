"""What the chunked loss offers beside the mean, each against the ordinary path in float64; and its
error in short dtypes against the ordinary path's own."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from onelayer.kernels import IGNORED
from onelayer.kernels.chunked import CPU_ROWS, REDUCTIONS, chunked_head_loss
from onelayer.kernels.fused_triton import triton_head_loss

# What the interpreter of Triton 3.6, which comes with torch 2.11, does inside itself.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")

N, D, V = CPU_ROWS + 9, 8, 23
Given = tuple[Tensor, Tensor, Tensor | None, Tensor]


def ordinary(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    t: Tensor,
    *,
    z_loss: float = 0.0,
    softcap: float | None = None,
    shift: bool = False,
    weight: Tensor | None = None,
    ignore_index: int = IGNORED,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The same loss with all of its logits in memory."""
    if shift:
        x, t = x[..., :-1, :], t[..., 1:]
    z = F.linear(x, w, b)
    z = z if softcap is None else softcap * torch.tanh(z / softcap)
    rows = z.flatten(0, -2)
    flat = t.flatten()
    loss = F.cross_entropy(
        rows,
        flat,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
    if not z_loss:
        return loss.reshape(t.shape) if reduction == "none" else loss
    counts = flat != ignore_index
    squares = z_loss * rows.logsumexp(1).square() * counts
    if reduction == "none":
        return (loss + squares).reshape(t.shape)
    return loss + (squares.sum() / counts.sum() if reduction == "mean" else squares.sum())


def given(seed: int = 0, *, scale: float = 2.0, ignored: int = IGNORED) -> Given:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(N, D, generator=g, dtype=torch.float64)
    w = scale * torch.randn(V, D, generator=g, dtype=torch.float64)
    b = torch.randn(V, generator=g, dtype=torch.float64)
    t = torch.randint(1, V, (N,), generator=g)
    t[1::7] = ignored
    return x, w, b, t


def with_gradients(loss_of: Any, given: Given, from_above: Tensor, **how: Any) -> list[Tensor]:
    """loss, then the gradients of x, w and, where there is one, b."""
    x, w, b, t = given
    leaves = [one.detach().requires_grad_() for one in (x, w, b) if one is not None]
    loss = loss_of(*leaves[:2], leaves[2] if b is not None else None, t, **how)
    return [loss.detach(), *torch.autograd.grad(loss, leaves, from_above.expand_as(loss))]


def assert_same(given: Given, **how: Any) -> None:
    """Equal in float64 up to rounding, with gradients, whatever comes from above."""
    above = torch.tensor(-1.75, dtype=torch.float64)
    if how.get("reduction") == "none":
        above = torch.randn(ordinary(*given, **how).shape, dtype=torch.float64)
    want = with_gradients(ordinary, given, above, **how)
    got = with_gradients(chunked_head_loss, given, above, **how)
    for a, c in zip(got, want, strict=True):
        assert a.shape == c.shape
        torch.testing.assert_close(a, c, rtol=1e-9, atol=1e-12)


WEIGHT = torch.rand(V, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) + 0.2
FEATURES: dict[str, dict[str, Any]] = {
    "ignore_index": {"ignore_index": 3},
    "label_smoothing": {"label_smoothing": 0.1},
    "weight": {"weight": WEIGHT},
    "z_loss": {"z_loss": 0.01},
    "softcap": {"softcap": 5.0},
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_alone(name: str, reduction: str) -> None:
    how = FEATURES[name]
    assert_same(given(ignored=how.get("ignore_index", IGNORED)), reduction=reduction, **how)


@pytest.mark.parametrize("pair", [*itertools.combinations(FEATURES, 2)])
def test_two_features_together(pair: tuple[str, str]) -> None:
    how = FEATURES[pair[0]] | FEATURES[pair[1]]
    for reduction in REDUCTIONS:
        assert_same(given(1, ignored=how.get("ignore_index", IGNORED)), reduction=reduction, **how)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_all_of_them(reduction: str) -> None:
    how: dict[str, Any] = {}
    for one in FEATURES.values():
        how |= one
    assert_same(given(2, ignored=3), reduction=reduction, **how)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_without_a_bias(reduction: str) -> None:
    x, w, _, t = given(3)
    assert_same((x, w, None, t), reduction=reduction)


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sentences_and_the_next_word(reduction: str, shift: bool) -> None:
    x, w, b, t = given(4)
    x, t = x[: 6 * 44].view(6, 44, D), t[: 6 * 44].view(6, 44)
    assert_same((x, w, b, t), reduction=reduction, shift=shift)


@pytest.mark.slow
def test_an_arguments_own_gradient_by_differences() -> None:
    x, w, b, t = given(5)
    leaves = [one[:5].requires_grad_() for one in (x, w)]
    torch.autograd.gradcheck(
        lambda x, w: chunked_head_loss(
            x, w, b[:5], t[:5] % 5, softcap=3.0, z_loss=0.1, label_smoothing=0.2, reduction="none"
        ),
        leaves,
    )


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"reduction": "average"}, "reduction is one of"),
        ({"label_smoothing": 1.5}, "label_smoothing lies in"),
        ({"softcap": 0.0}, "softcap is above 0"),
        ({"weight": torch.ones(V + 1)}, r"weight is \(V,\)"),
        ({"weight": torch.ones(V, requires_grad=True)}, "without a gradient"),
    ],
)
def test_what_cannot_be_is_said(how: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        chunked_head_loss(*given(), **how)


def error(got: Tensor, true: Tensor) -> float:
    """Relative 2-norm."""
    return float((got.double() - true).norm() / true.norm().clamp_min(1e-300))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("factor", [1.0, 1024.0])
def test_the_error_is_no_larger_than_the_ordinary_paths(
    dtype: torch.dtype, scale: float, factor: float
) -> None:
    x, w, b, t = (
        one.to(dtype) if one.is_floating_point() else one for one in given(6, scale=scale)
    )
    above = torch.tensor(factor)
    exact = (x.double(), w.double(), b.double(), t)
    true = with_gradients(ordinary, exact, above.double())
    theirs = with_gradients(ordinary, (x, w, b, t), above.to(dtype))
    ours = with_gradients(chunked_head_loss, (x, w, b, t), above.to(dtype))
    for name, a, eager, one in zip(("loss", "dx", "dw", "db"), true, theirs, ours, strict=True):
        slack = 2 * torch.finfo(dtype).eps
        assert error(one, a) <= 1.05 * error(eager, a) + slack, name


@pytest.mark.parametrize("loss_of", [chunked_head_loss, triton_head_loss])
@pytest.mark.slow
def test_the_mean_costs_float16_nothing(loss_of: Any) -> None:
    """A probability of 1 / 900, divided by 700 tokens, is 27 of float16's smallest steps: who
    divides before the sum is wrong by 0.16 %, whatever is multiplied into it later."""
    n, words = 700, 900
    g = torch.Generator().manual_seed(7)
    x = 1 + torch.rand(n, 16, generator=g).half()
    w = (0.01 * torch.randn(words, 16, generator=g)).half()
    b = torch.zeros(words).half()
    t = torch.randint(words, (n,), generator=g)
    scale = torch.tensor(1024.0, dtype=torch.float16)  # a GradScaler's
    true = with_gradients(ordinary, (x.double(), w.double(), b.double(), t), scale.double())
    p = (x.double() @ w.double().T).softmax(1)
    dz = (p - torch.nn.functional.one_hot(t, words)) / n
    assert error(scale * (dz.half().double().T @ x.double()), true[2]) > 1.4e-3
    ours = with_gradients(loss_of, (x, w, b, t), scale)
    for name, a, one in zip(("loss", "dx", "dw", "db"), true, ours, strict=True):
        assert error(one, a) < 5e-4, (name, error(one, a))


def test_a_scalers_first_factor_arrives_under_autocast() -> None:
    """2^16, where torch's GradScaler begins, is no number of float16: the loss is float32, and what
    comes from above stays so until it meets the gradients."""
    x, w, b, t = given(10)
    true = with_gradients(ordinary, (x, w, b, t), torch.tensor(1.0).double())
    factor = torch.tensor(2.0**16)
    with torch.autocast("cpu", torch.float16):
        leaves = (x.float(), w.float(), b.float(), t)
        ours = with_gradients(chunked_head_loss, leaves, factor)
    assert ours[0].dtype == torch.float32
    assert ours[0] != ours[0].half()
    for name, a, one in zip(("dx", "dw", "db"), true[1:], ours[1:], strict=True):
        assert error(one / factor, a) < 5e-3, name


@pytest.mark.slow
def test_a_quarter_of_a_million_tokens_in_float16() -> None:
    n, words = 262_144, 64
    g = torch.Generator().manual_seed(8)
    x = torch.randn(n, 4, generator=g).half()
    w, b = torch.randn(words, 4, generator=g).half(), torch.zeros(words).half()
    t = torch.randint(words, (n,), generator=g)
    scale = torch.tensor(2.0**15, dtype=torch.float16)
    true = with_gradients(ordinary, (x.double(), w.double(), b.double(), t), scale.double())
    ours = with_gradients(chunked_head_loss, (x, w, b, t), scale)
    for name, a, one in zip(("loss", "dx", "dw", "db"), true, ours, strict=True):
        assert error(one, a) < 2e-3, (name, error(one, a))


def test_under_autocast_it_takes_what_a_linear_takes() -> None:
    x, w, b, t = given(9)
    leaves = [x.bfloat16(), w.float(), b.float()]
    results = []
    for loss_of in (ordinary, chunked_head_loss):
        with torch.autocast("cpu", torch.bfloat16):
            results.append(with_gradients(loss_of, (*leaves, t), torch.tensor(1.0)))  # type: ignore[arg-type]
    for name, eager, one in zip(("loss", "dx", "dw", "db"), *results, strict=True):
        assert one.dtype == eager.dtype, name
        assert error(one, eager.double()) < 0.02, name


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # Dynamo's
def test_compiled_in_one_graph() -> None:
    x, w, b, t = given(10)
    how = {"softcap": 5.0, "z_loss": 0.01, "label_smoothing": 0.1}

    @torch.compile(fullgraph=True, backend="aot_eager")
    def step(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return chunked_head_loss(x, w, b, t, **how)

    above = torch.tensor(1.0, dtype=torch.float64)
    got = with_gradients(lambda *leaves, **_: step(*leaves[:3]), (x, w, b, t), above)
    want = with_gradients(ordinary, (x, w, b, t), above, **how)
    for a, c in zip(got, want, strict=True):
        torch.testing.assert_close(a, c, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_torch_func_differentiates_it_once(reduction: str) -> None:
    x, w, b, t = given()

    def ours(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return chunked_head_loss(x, w, b, t, reduction=reduction)

    def eager(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(x @ w.T + b, t, reduction=reduction)

    found, value = torch.func.grad_and_value(ours, (0, 1, 2))(x, w, b)
    true, loss = torch.func.grad_and_value(eager, (0, 1, 2))(x, w, b)
    torch.testing.assert_close((*found, value), (*true, loss))
    with pytest.raises(RuntimeError, match="no second backward"):
        torch.func.grad(lambda x: torch.func.grad(ours)(x, w, b).square().sum())(x)


def test_torch_func_gives_each_token_its_gradient() -> None:
    x, w, b, t = given()
    above = torch.linspace(-1, 1, len(t))
    _, ours = torch.func.vjp(lambda x: chunked_head_loss(x, w, b, t, reduction="none"), x)
    _, true = torch.func.vjp(
        lambda x: torch.nn.functional.cross_entropy(x @ w.T + b, t, reduction="none"), x
    )
    torch.testing.assert_close(ours(above), true(above))


def test_it_keeps_no_activation_for_backward() -> None:
    """What tells gradients where they came from keeps none of the memory there."""
    x, w, b, t = given()
    hidden = 1 * x.requires_grad_()
    alive = weakref.ref(hidden)
    loss = chunked_head_loss(hidden, w, b, t)
    del hidden
    gc.collect()
    assert alive() is None
    loss.backward()
    assert x.grad is not None
