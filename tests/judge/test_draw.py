"""Cases that are the same for everybody, and inputs that a seed draws."""

from __future__ import annotations

import random

import pytest
import torch

from autograder.judge import Draw, some
from autograder.judge.draw import LAYOUTS

DRAWN = {
    "integer": lambda draw: draw.integer(0, 10**9),
    "choice": lambda draw: [draw.choice(range(1000)) for _ in range(3)],
    "shuffled": lambda draw: draw.shuffled(range(50)),
    "sizes": lambda draw: [*draw.sizes(1, 2, high=10**6)],
    "shape": lambda draw: [draw.shape(high=10**6), draw.shape(high=10**6)],
    "layout": lambda draw: [draw.layout() for _ in range(20)],
    "layouts": lambda draw: [draw.layouts() for _ in range(3)],
    "tensor": lambda draw: draw.tensor(3, 4).tolist(),
    "integers": lambda draw: draw.integers(9, low=0, high=10**6).tolist(),
}


def test_some_of_many_cases_are_the_same_for_everybody() -> None:
    cases = list(range(1000))
    found = some(cases, 77)
    assert found == some(cases, 77)
    assert len({*found}) == 77
    assert {case // 100 for case in found} == set(range(10))  # all over them


@pytest.mark.parametrize("kind", DRAWN)
def test_a_seed_draws_the_same_again_and_another_one_something_else(kind: str) -> None:
    drawn = DRAWN[kind]
    before = random.getstate(), torch.get_rng_state()
    assert drawn(Draw(7)) == drawn(Draw(7))
    assert drawn(Draw(7)) != drawn(Draw(8))
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_grading_has_more_rounds() -> None:
    draw, graded = Draw(1), Draw(1, rounds=3)
    assert (draw.seed, draw.rounds, graded.rounds) == (1, 1, 3)
    assert (len(draw.cases(5)), len(graded.cases(5))) == (5, 15)
    assert [len([*one.sizes(1, 64)]) for one in (draw, graded)] == [3, 5]


def test_integers_reach_both_ends_and_nothing_beyond() -> None:
    draw = Draw(2)
    assert {draw.integer(-1, 2) for _ in range(200)} == {-1, 0, 1, 2}
    numbers = draw.integers(400, low=-1, high=2)
    assert numbers.dtype is torch.int64
    assert set(numbers.tolist()) == {-1, 0, 1, 2}
    assert set(draw.shuffled(range(5))) == set(range(5))


def test_sizes_are_the_awkward_ones_and_then_fresh_ones() -> None:
    draw = Draw(3, rounds=2000)
    sizes = [*draw.sizes(1, 2, 33)]
    assert sizes[:3] == [1, 2, 33]
    assert (min(sizes[3:]), max(sizes[3:])) == (2, 97)
    assert {*draw.sizes(high=4)} == {2, 3, 4}


def test_a_shape_keeps_its_limits() -> None:
    draw = Draw(4)
    shapes = [draw.shape() for _ in range(2000)]
    assert {len(shape) for shape in shapes} == {1, 2, 3, 4}
    assert {n for shape in shapes for n in shape} == {1, 2, 3, 4, 5, 6}
    assert {n for _ in range(99) for n in draw.shape(3, low=2, high=3)} == {2, 3}
    assert (draw.shape(0), len(draw.shape(3))) == ((), 3)


@pytest.mark.parametrize(
    ("layout", "strides", "offset"),
    [
        ("contiguous", (12, 4, 1), 0),
        ("transposed", (1, 2, 6), 0),
        ("strided", (24, 8, 2), 0),
        ("offset", (12, 4, 1), 3),
        ("expanded", (0, 4, 1), 0),
    ],
)
def test_a_tensor_is_laid_out_as_asked(layout: str, strides: tuple[int, ...], offset: int) -> None:
    t = Draw(5).tensor(2, 3, 4, layout=layout)
    found = tuple(t.shape), t.stride(), t.storage_offset(), t.dtype, t.requires_grad
    assert found == ((2, 3, 4), strides, offset, torch.float32, False)
    repeated = layout == "expanded"
    assert len(t.unique()) == 24 // (2 if repeated else 1)  # no two are the same float


def test_the_first_dimension_that_is_longer_than_one_is_expanded() -> None:
    draw = Draw(6)
    assert draw.tensor(1, 2, 3, layout="expanded").stride() == (3, 0, 1)
    for shape in ((), (1, 1)):
        assert draw.tensor(*shape, layout="expanded").is_contiguous()
        assert draw.tensor(*shape, layout="expanded").storage_offset() == 0
    for layout in ("strided", "offset"):
        assert draw.tensor(layout=layout).storage_offset() == 3  # one number, behind three others
    with pytest.raises(ValueError, match="no layout 'sparse': contiguous, transposed, strided"):
        draw.tensor(2, layout="sparse")
    assert {draw.layout() for _ in range(99)} == set(LAYOUTS) == set(draw.layouts())


def test_numbers_are_normal_and_fit_their_dtype() -> None:
    draw = Draw(7)
    values = draw.tensor(10_000)
    assert abs(float(values.mean())) < 0.05
    assert abs(float(values.std()) - 1) < 0.05
    assert draw.tensor(3, requires_grad=True).requires_grad
    turned = draw.tensor(99, dtype=torch.complex64)
    assert turned.dtype is torch.complex64
    assert float(turned.real.std()) > 0.5 < float(turned.imag.std())
    whole = draw.tensor(9_999, dtype=torch.int32)
    assert whole.dtype is torch.int32
    assert (int(whole.min()), int(whole.max())) == (0, 100)
    truths = draw.tensor(9_999, dtype=torch.bool)
    assert abs(float(truths.float().mean()) - 0.5) < 0.05
    exact = draw.tensor(99, dtype=torch.float64)
    assert not torch.equal(exact, exact.float().double())  # it has all its digits
    half = Draw(8).tensor(5, dtype=torch.float16)
    assert torch.equal(half, Draw(8).tensor(5, dtype=torch.float64).half())
