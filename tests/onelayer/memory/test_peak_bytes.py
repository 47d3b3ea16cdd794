"""peak_bytes: what was held at once, by mechanism, and nothing that was there before."""

import gc

import pytest
import torch
import torch.nn.functional as F

import onelayer


def test_two_held_together_and_two_one_after_the_other() -> None:
    with onelayer.peak_bytes() as together:
        a, b = torch.empty(1000), torch.empty(500)
    with onelayer.peak_bytes() as in_turn:
        for n in (1000, 500):
            torch.empty(n)
    assert together.bytes == a.nbytes + b.nbytes == 6000
    assert in_turn.bytes == 4000


def test_it_falls_when_the_last_view_is_gone() -> None:
    with onelayer.peak_bytes() as peak:
        x = torch.empty(1000)
        view = x[5:]
        del x
        assert peak.now == 4000
        del view
        assert peak.now == 0
        torch.empty(100)
    assert peak.bytes == 4000


def test_views_writes_and_what_was_there_before_take_nothing() -> None:
    x = torch.zeros(1000)
    with onelayer.peak_bytes() as peak:
        x.view(10, 100).T.add_(1)
        x.copy_(torch.ones(1).expand(1000))
    assert peak.bytes == 4


@pytest.mark.slow
def test_what_autograd_saves_is_held_until_backward_frees_it() -> None:
    x = torch.randn(100, requires_grad=True)
    with onelayer.peak_bytes() as peak:
        y = x.exp().sum()  # exp saves its result
        gc.collect()
        held = peak.now
        (grad,) = torch.autograd.grad(y, x)
        del y
        after = peak.now
    assert held == 400 + 4
    assert after == grad.nbytes


def test_logits_are_the_bill_of_a_loss() -> None:
    h = torch.randn(512, 64)
    w, b = torch.randn(600, 64), torch.randn(600)
    with torch.no_grad(), onelayer.peak_bytes() as peak:
        F.cross_entropy(F.linear(h, w, b), torch.zeros(512, dtype=torch.int64))
    logits = 512 * 600 * 4
    assert 2 * logits <= peak.bytes < 2.2 * logits
    assert repr(peak) == f"{peak.bytes:,} bytes held at once"


def test_a_storage_at_an_old_address_counts_again() -> None:
    with onelayer.peak_bytes() as peak:
        for _ in range(50):
            torch.empty(1000)
            assert peak.now == 0
    assert peak.bytes == 4000


def test_the_path_has_a_point_for_each_operator() -> None:
    with onelayer.peak_bytes() as peak:
        a = torch.empty(100)
        torch.empty(200)  # gone before the next operator
        a.add_(1)
    assert peak.path == [400, 1200, 400]
    assert max(peak.path) == peak.bytes
