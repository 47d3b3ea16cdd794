"""What reaches the second half of a Function: elements and arguments, and nothing that nobody
counts."""

from __future__ import annotations

import torch

from autograder.checks.lab04_contracts.two_halves import FREE, METADATA, handed_on, new_bytes

X, W, T = torch.randn(5, 3), torch.randn(7, 3), torch.arange(5)
GIVEN = X, W, T


def test_arguments_their_transposes_and_reshapes_cost_nothing_and_stay() -> None:
    saved = [X, X.T, W.mT, T[:, None], W.view(21), X[:]]
    assert new_bytes(saved, GIVEN) == 0
    assert all(torch.equal(a, b) for a, b in zip(handed_on(saved, GIVEN), saved, strict=True))


def test_a_part_of_an_argument_costs_its_elements() -> None:
    assert new_bytes([X[1:3]], GIVEN) == 24
    assert new_bytes([X[:, 1]], GIVEN) == 20
    assert new_bytes([X.as_strided((2,), (4,))], GIVEN) == 8


def test_a_new_tensor_costs_its_storage_once() -> None:
    big = torch.zeros(100)
    assert new_bytes([big[:2], big[5:]], GIVEN) == 400
    assert new_bytes([X.clone()], GIVEN) == 60


def test_strides_and_offsets_and_empty_shapes_carry_nothing() -> None:
    told = torch.randn(9).as_strided((1, 2, 1), (123, 1, 456), 3)
    (got,) = handed_on([told], GIVEN)
    assert got.stride() == (2, 1, 1)
    assert got.storage_offset() == 0
    assert torch.equal(got, told)
    (nothing,) = handed_on([torch.empty(0, 123_456)], GIVEN)
    assert nothing.shape == (0,)
    one = X[:1].as_strided((1, 3), (99, 1))
    (row,) = handed_on([one], (X[:1],))
    assert row.stride() == (3, 1)


def test_many_tensors_cost_what_describes_them() -> None:
    free = [X] * (len(GIVEN) + FREE)
    assert new_bytes(free, GIVEN) == 0
    assert new_bytes([*free, X, X], GIVEN) == 2 * METADATA


def test_whether_it_learns_is_handed_on() -> None:
    saved = [X.clone().requires_grad_(), X]
    assert [t.requires_grad for t in handed_on(saved, GIVEN)] == [True, False]
