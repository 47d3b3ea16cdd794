"""count_bytes: what is counted, what costs nothing, and what it sees of F.linear's copies."""

import subprocess
import sys
import threading

import pytest
import torch
import torch.nn.functional as F

import onelayer

FP32 = 4
N, B, D, V = 7, 2, 64, 600


def counted(run):
    with onelayer.count_bytes() as moved:
        run()
    return moved


def names(moved):
    return [op.name for op in moved.ops]


@pytest.fixture(params=[torch.enable_grad, torch.no_grad, torch.inference_mode])
def _grad_mode(request):
    with request.param():
        yield


@pytest.mark.usefixtures("_grad_mode")
class TestInEveryGradMode:
    @pytest.mark.parametrize(
        "view",
        [
            lambda w: w.T,
            lambda w: w.contiguous(),
            lambda w: w.reshape(-1),
            lambda w: w[1:, ::2],
            lambda w: w[0].expand(600, 64),
            lambda w: w.unfold(0, 3, 1),
            lambda w: w.to(torch.float32),
            lambda w: w.detach(),
            lambda w: torch.from_numpy(w.numpy()),
        ],
    )
    def test_a_view_costs_nothing(self, view):
        w = torch.randn(V, D)
        moved = counted(lambda: view(w))
        assert moved.bytes == 0
        assert moved.ops == []
        assert repr(moved).startswith("0 bytes")

    @pytest.mark.parametrize(
        ("copy", "nbytes"),
        [
            (lambda w: w.clone(), V * D * FP32),
            (lambda w: w.T.contiguous(), V * D * FP32),
            (lambda w: w.T.reshape(-1), V * D * FP32),
            (lambda w: w.to(torch.float64), V * D * 8),
            (lambda w: w[[3, 1]], 2 * D * FP32 + 2 * 8),  # the two indices became a tensor as well
            (lambda w: torch.tensor([1.0, 2.0]), 2 * FP32),
            (lambda w: torch.zeros(5), 5 * FP32),
        ],
    )
    def test_a_copy_costs_its_size(self, copy, nbytes):
        w = torch.randn(V, D)
        assert counted(lambda: copy(w)).bytes == nbytes

    def test_linear_of_contiguous_batches_allocates_the_logits_and_no_more(self):
        x, w, b = torch.randn(B, N, D), torch.randn(V, D), torch.randn(V)
        moved = counted(lambda: F.linear(x, w, b))
        assert moved.bytes == B * N * V * FP32
        assert names(moved) == ["aten::addmm"]


def transposed_batches():
    return torch.randn(N, B, D).transpose(0, 1)  # (B, N, D), strides (D, B * D, 1)


def test_linear_of_transposed_batches_copies_them_once_the_weight_is_trained():
    x, w, b = transposed_batches(), torch.randn(V, D, requires_grad=True), torch.randn(V)
    moved = counted(lambda: F.linear(x, w, b))
    logits = B * N * V * FP32
    assert moved.ops == [
        ("aten::clone", B * N * D * FP32),
        ("aten::mm", logits),
        ("aten::add", logits),  # the bias no longer fits into one addmm
    ]


def test_linear_of_transposed_batches_copies_nothing_while_the_weight_is_frozen():
    x, w, b = transposed_batches(), torch.randn(V, D), torch.randn(V)
    moved = counted(lambda: F.linear(x, w, b))
    logits = B * N * V * FP32
    assert moved.ops == [("aten::bmm", logits), ("aten::add", logits)]


def test_the_copy_inside_a_kernel_is_invisible():
    x = torch.randn(N, 2 * D)[:, ::2]  # no BLAS reads every second float: addmm copies x for itself
    moved = counted(lambda: F.linear(x, torch.randn(V, D), torch.randn(V)))
    assert sum(op.bytes for op in moved.ops if op.name == "aten::addmm") == N * V * FP32
    assert "aten::clone" not in names(moved)


def test_backward_is_counted():
    w = torch.randn(V, D, requires_grad=True)
    loss = F.linear(torch.randn(N, D), w).sum()
    moved = counted(loss.backward)
    assert ("aten::mm", V * D * FP32) in moved.ops


def test_copy_into_an_old_storage_counts_what_it_wrote_and_arithmetic_in_place_counts_nothing():
    w = torch.zeros(V, D)
    moved = counted(lambda: w[:10].copy_(torch.randn(D)))
    assert moved.ops[-1] == ("aten::copy_", 10 * D * FP32)
    source = torch.ones(3, dtype=torch.float64)
    moved = counted(lambda: w[0, :3].copy_(source))
    assert moved.bytes == 3 * FP32  # bytes written, in the type they were written
    assert counted(lambda: w.add_(1).zero_().mul_(2)).bytes == 0
    moved = counted(lambda: torch._foreach_copy_([w[0], w[1]], [w[2], w[3]]))
    assert moved.bytes == 2 * D * FP32


def test_out_counts_only_when_the_storage_had_to_grow():
    x, w = torch.randn(N, D), torch.randn(D, V)
    roomy, empty = torch.empty(N, V), torch.empty(0)
    assert counted(lambda: torch.mm(x, w, out=roomy)).bytes == 0
    assert counted(lambda: torch.mm(x, w, out=empty)).bytes == N * V * FP32


def test_an_operator_that_returns_one_storage_twice_counts_it_once():
    halves = torch.randn(8)
    assert counted(lambda: halves.split(4)).bytes == 0
    assert counted(lambda: torch.zeros(8).split(4)).bytes == 8 * FP32


def test_autocast_casts_are_counted():
    x, w = torch.randn(N, D), torch.randn(V, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        moved = counted(lambda: F.linear(x, w))
    assert {op.bytes for op in moved.ops if op.name == "aten::_to_copy"} == {V * D * 2, N * D * 2}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sparse_meta_and_empty_tensors():
    dense = torch.eye(3)
    assert counted(dense.to_sparse).bytes == 2 * 3 * 8 + 3 * FP32
    assert counted(dense.to_sparse_csr).bytes >= (4 + 3) * 8 + 3 * FP32
    assert counted(lambda: torch.empty(10, device="meta")).bytes == 10 * FP32
    assert counted(lambda: torch.empty(0)).bytes == 0
    assert counted(lambda: torch.empty(2).resize_(100)).ops[-1] == ("aten::resize_", 100 * FP32)


def test_nested_counters_both_count_and_one_counter_goes_on():
    w = torch.randn(4)
    with onelayer.count_bytes() as outer:
        w.clone()
        with onelayer.count_bytes() as inner:
            w.clone()
    assert (outer.bytes, inner.bytes) == (32, 16)
    with inner:
        w.clone()
    assert inner.bytes == 32
    with torch.inference_mode(), onelayer.count_bytes() as outer, onelayer.count_bytes() as inner:
        w.reshape(2, 2).T.reshape(-1)
    assert outer.ops == inner.ops == [("aten::clone", 16)]


def test_an_exception_passes_and_the_counter_is_gone():
    w = torch.randn(4)
    with pytest.raises(RuntimeError, match="shape"), onelayer.count_bytes() as moved:
        w.clone().view(3)
    w.clone()
    assert moved.bytes == 16


def test_other_threads_are_not_counted():
    with onelayer.count_bytes() as moved:
        thread = threading.Thread(target=lambda: torch.zeros(1000))
        thread.start()
        thread.join()
    assert moved.bytes == 0


def test_results_are_the_ones_without_a_counter():
    x, w, b = transposed_batches(), torch.randn(V, D), torch.randn(V)
    with torch.inference_mode():
        want = F.linear(x, w, b)
        with onelayer.count_bytes():
            got = F.linear(x, w, b)
    assert got.equal(want)
    assert got.is_inference()


@pytest.mark.slow
def test_a_count_does_not_import_dynamo() -> None:
    """That takes 1.6 s, and a mode that torch wraps does it at its first operator."""
    code = (
        "import sys, torch, onelayer\n"
        "with onelayer.count_bytes() as moved: torch.ones(3).clone()\n"
        "assert moved.bytes == 24, moved; assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_compiled_beside_a_count_is_counted_and_the_count_is_not_compiled() -> None:
    from torch._dynamo.utils import counters

    def doubled(x: torch.Tensor) -> torch.Tensor:
        y = x.t().reshape(-1) * 2
        torch._dynamo.graph_break()
        return y + 1

    torch._dynamo.reset()
    counters.clear()
    with onelayer.count_bytes() as moved:
        torch.compile(doubled, backend="eager")(torch.ones(3, 4))
    assert [op.name for op in moved.ops] == ["aten::ones", "aten::clone", "aten::mul", "aten::add"]
    assert counters["frames"]["total"] == 0


def test_it_prints_a_small_table_however_much_it_saw():
    w = torch.randn(V, D)
    moved = counted(lambda: [w.clone() for _ in range(500)])
    lines = repr(moved).splitlines()
    assert lines[0] == "76,800,000 bytes allocated or copied"
    assert lines[1].split() == ["153,600", "aten::clone"]
    assert "484 more" in lines[-1]
    assert len(lines) < 20


@pytest.mark.slow
def test_importing_onelayer_loads_neither_torch_nor_matplotlib():
    code = (
        "import sys, onelayer; loaded = {'torch', 'matplotlib', 'anywidget'} & set(sys.modules);"
        "assert not loaded, loaded; assert 'count_bytes' in dir(onelayer);"
        "onelayer.count_bytes; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = onelayer.nope
