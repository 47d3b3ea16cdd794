"""count_saved: what the graph keeps, once for each storage, and nothing that lives without it."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import onelayer

N, D, V = 7, 64, 600
FLOAT = 4


def saved_by(run, ignore=()):
    with onelayer.count_saved(ignore=ignore) as saved:
        result = run()
    return saved, result


@pytest.fixture
def head():
    return torch.nn.Linear(D, V)


def test_a_product_keeps_both_factors_and_a_sum_neither():
    a, b = torch.randn(10, requires_grad=True), torch.randn(10, requires_grad=True)
    saved, _ = saved_by(lambda: a * b)
    assert saved.bytes == 2 * 10 * FLOAT
    assert saved.tensors == [((10,), torch.float32, 40)] * 2
    assert saved_by(lambda: a + b)[0].bytes == 0


def test_a_storage_that_many_nodes_keep_counts_once():
    w = torch.randn(10, requires_grad=True)
    saved, _ = saved_by(lambda: w.exp().sin())  # exp keeps its result, and sin its input
    assert saved.tensors == [((10,), torch.float32, 40)]


def test_ignored_storages_count_nothing(head):
    x = torch.randn(N, D, requires_grad=True)
    saved, _ = saved_by(lambda: head(x), ignore=[x, *head.parameters()])
    assert saved.bytes == 0
    saved, _ = saved_by(lambda: head(x), ignore=head.parameters())
    assert saved.bytes == x.nbytes
    saved, _ = saved_by(lambda: head(x))
    assert saved.bytes == x.nbytes + head.weight.nbytes  # kept as a view, the transpose


def test_a_slice_keeps_its_whole_storage():
    long = torch.randn(1000)
    w = torch.randn(10, requires_grad=True)
    assert saved_by(lambda: w * long[:10], ignore=[w])[0].bytes == long.nbytes


def test_of_the_loss_it_is_the_logits_softened(head):
    x, target = torch.randn(N, D), torch.randint(V, (N,))
    saved, _ = saved_by(lambda: F.cross_entropy(head(x), target), ignore=[x, target])
    log_softmax, total = N * V * FLOAT, FLOAT
    assert saved.bytes == log_softmax + total


def test_a_storage_of_no_bytes_is_not_listed():
    empty = torch.empty(0, requires_grad=True)
    assert saved_by(empty.sin)[0].tensors == []


def test_without_a_graph_nothing_is_kept(head):
    with torch.no_grad():
        saved, _ = saved_by(lambda: head(torch.randn(N, D)))
    assert saved.bytes == 0
    assert repr(saved) == "0 bytes: no storage was saved for backward"


def test_of_a_checkpoint_it_sees_the_inputs_alone():
    x = torch.randn(N, D, requires_grad=True)
    saved, y = saved_by(lambda: checkpoint(lambda t: t.exp().sin().exp(), x, use_reentrant=False))
    assert saved.tensors == [((N, D), torch.float32, x.nbytes)]
    y.sum().backward()
    assert saved.bytes == x.nbytes


def test_of_a_function_it_sees_what_was_saved_and_not_an_attribute():
    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t, hidden):
            if hidden:
                ctx.result = t * 2
            else:
                ctx.save_for_backward(t * 2)
            return t.clone()

        @staticmethod
        def backward(ctx, dy):
            return dy, None

    x = torch.randn(10, requires_grad=True)
    assert saved_by(lambda: Kept.apply(x, False))[0].bytes == 40
    assert saved_by(lambda: Kept.apply(x, True))[0].bytes == 0


def test_gradients_are_the_ones_without_a_counter_also_the_second():
    def derivatives(w):
        (first,) = torch.autograd.grad((w.exp() * w).sum(), w, create_graph=True)
        return first, *torch.autograd.grad(first.sum(), w)

    w = torch.randn(10, requires_grad=True)
    counted = saved_by(lambda: derivatives(w))[1]
    assert all(a.equal(b) for a, b in zip(counted, derivatives(w), strict=True))


def test_a_graph_dies_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        w = torch.randn(10, requires_grad=True)
        saved, y = saved_by(w.exp)
        gone = weakref.ref(y.untyped_storage())
        del y
        assert gone() is None
        assert saved.bytes == 40
    finally:
        gc.enable()


def test_a_storage_at_an_old_address_counts_again():
    w = torch.randn(1000, requires_grad=True)
    with onelayer.count_saved() as saved:
        for _ in range(50):
            w.exp()
    assert saved.bytes == 50 * w.nbytes


def test_sparse_tensors_count_their_parts():
    sparse = torch.eye(3).to_sparse()
    w = torch.randn(3, 2, requires_grad=True)
    saved, _ = saved_by(lambda: torch.sparse.mm(sparse, w), ignore=[w])
    assert saved.bytes == 2 * 3 * 8 + 3 * FLOAT


def test_it_prints_a_small_table_however_much_it_saw():
    w = torch.randn(1000, requires_grad=True)
    saved, _ = saved_by(lambda: [w.exp() for _ in range(100)])
    lines = repr(saved).splitlines()
    assert lines[0] == "400,000 bytes saved for backward"
    assert lines[1].split(maxsplit=1) == ["4,000", "float32 (1000,)"]
    assert "84 more" in lines[-1]
    assert len(lines) < 20


def test_the_hooks_are_gone_after_an_exception():
    w = torch.randn(10, requires_grad=True)
    with pytest.raises(ZeroDivisionError), onelayer.count_saved() as saved:
        1 / 0  # noqa: B018
    w.exp()
    assert saved.bytes == 0
