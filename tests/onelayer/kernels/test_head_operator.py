"""The operator `onelayer::head_loss` is the chunked loss, and keeps an operator's promises."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from onelayer.kernels.chunked import CPU_ROWS, chunked_head_loss
from onelayer.kernels.eager import true_head_loss
from onelayer.kernels.head_operator import head_loss

OPTIONS = [{}, {"label_smoothing": 0.1}, {"z_loss": 0.2}, {"softcap": 3.0}, {"ignore_index": 1}]
SIZES = [1, 2, 7, CPU_ROWS, CPU_ROWS + 1]


def given(
    n: int, *, v: int = 11, d: int = 5, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, ...]:
    """Return x, w, b, which want gradients, and t, one of it ignored."""
    made = torch.Generator().manual_seed(n)
    x, w, b = (
        torch.randn(size, generator=made, dtype=torch.float64).to(dtype).requires_grad_()
        for size in ((n, d), (v, d), (v,))
    )
    t = torch.randint(v, (n,), generator=made)
    t[n // 2 : n // 2 + (n > 1)] = -100
    return x, w, b, t


def gradients(loss: Tensor, leaves: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(3 * loss, leaves)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_the_chunked_loss(n: int, options: dict[str, float]) -> None:
    *leaves, t = given(n)
    x, w, b = leaves
    if "ignore_index" in options:
        t = t.where(t >= 0, 1)
        t[0] = 2
    ours, plain = head_loss(x, w, b, t, **options), chunked_head_loss(x, w, b, t, **options)  # type: ignore[arg-type]
    torch.testing.assert_close(ours, plain)
    for got, want in zip(gradients(ours, (x, w, b)), gradients(plain, (x, w, b)), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("n", SIZES)
def test_it_is_the_truth(n: int) -> None:
    x, w, b, t = given(n)
    torch.testing.assert_close(head_loss(x, w, b, t), true_head_loss(x, w, b, t))


def test_gradients_are_those_of_finite_differences() -> None:
    x, w, b, t = given(4)
    assert torch.autograd.gradcheck(lambda *a: head_loss(*a, t, softcap=3.0), (x, w, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wants", [True, False])
# torch 2.15's opcheck asks tensors that are no leaves for their .grad (describe_tensor).
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_opcheck_is_clean(dtype: torch.dtype, wants: bool) -> None:
    *leaves, t = given(7, dtype=dtype)
    arguments = (*(leaf.detach().requires_grad_(wants) for leaf in leaves), t)
    torch.library.opcheck(torch.ops.onelayer.head_loss.default, arguments)


def test_no_tokens_give_no_number_and_no_gradient() -> None:
    x, w, b, t = given(0)
    loss = head_loss(x, w, b, t)
    assert loss.isnan()
    assert [g.abs().sum().item() for g in gradients(loss, (x, w, b))] == [0.0, 0.0, 0.0]


def test_a_compiler_sees_one_node_whatever_n_is() -> None:
    def calls(n: int) -> list[str]:
        seen: list[str] = []

        def keep(graph: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
            seen.extend(str(n.target) for n in graph.graph.nodes if n.op == "call_function")
            return graph

        torch.compile(head_loss, backend=keep, fullgraph=True, dynamic=False)(*given(n))
        return seen

    torch._dynamo.reset()
    assert calls(2 * CPU_ROWS) == calls(5 * CPU_ROWS)


def test_autocast_reaches_its_inputs_and_not_its_sums() -> None:
    x, w, b, t = given(7, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = head_loss(x, w, b, t)
    short = [one.detach().bfloat16().double() for one in (x, w, b)]
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), true_head_loss(*short, t), rtol=1e-6, atol=0)
    loss.backward()  # type: ignore[no-untyped-call]
    assert w.grad is not None
    assert w.grad.dtype == torch.float32


def test_what_does_not_fit_is_refused() -> None:
    x, w, b, t = given(3)
    with pytest.raises(ValueError, match="agree"):
        head_loss(x, w[:, :2], b, t)


def test_a_second_backward_is_refused() -> None:
    x, w, b, t = given(3)
    with pytest.raises(RuntimeError, match="second backward"):
        torch.autograd.grad(head_loss(x, w, b, t), x, create_graph=True)
