"""The small lab's questions as they should not be asked: each has one weakness that an attack lives
on, and is otherwise sound."""

from __future__ import annotations

import torch

from autograder.judge import Draw, Lab, Student, Wrong, expect_close, expect_equal

from .questions import HINTS, pair

weak = Lab("00_weak", "The small lab, asked badly")


def _expect(right: bool) -> None:
    if not right:
        raise Wrong(expected="another value", got="this one")


def _tensor(answer: object) -> torch.Tensor:
    if not isinstance(answer, torch.Tensor):
        raise Wrong(expected="a tensor", got=f"a {type(answer).__name__}")
    return answer


@weak.question("public", points=2, minutes=1, difficulty=1, hints=HINTS)
def public(student: Student, draw: Draw) -> None:
    """Twice each number, of the list in the lab's text alone."""
    expect_equal(student.call("twice", [3, 5]), [6, 10])


@weak.question("zeros", points=2, minutes=1, difficulty=1, hints=HINTS)
def zeros(student: Student, draw: Draw) -> None:
    """Twice a tensor of zeros."""
    x = torch.zeros(draw.shape())
    expect_close(student.call("double", x), 2 * x)


@weak.question("one_shape", points=2, minutes=1, difficulty=1, hints=HINTS)
def one_shape(student: Student, draw: Draw) -> None:
    """Twice a tensor, always of the shape that the text shows."""
    x = draw.tensor(8)
    expect_close(student.call("double", x), 2 * x)


@weak.question("same_values", points=2, minutes=1, difficulty=1, hints=HINTS)
def same_values(student: Student, draw: Draw) -> None:
    """Twice a tensor, whose values are drawn once."""
    x = draw.tensor(3, 4)
    for _ in range(3):
        expect_close(student.call("double", x), 2 * x)


@weak.question("contiguous", points=2, minutes=1, difficulty=1, hints=HINTS)
def contiguous(student: Student, draw: Draw) -> None:
    """Twice a tensor, always contiguous from the start of its storage."""
    for _ in draw.cases(2):
        x = draw.tensor(*draw.shape())
        expect_close(student.call("double", x), 2 * x)


@weak.question("coarse", points=2, minutes=1, difficulty=1, hints=HINTS)
def coarse(student: Student, draw: Draw) -> None:
    """Twice a tensor, with room for an error of one in a hundred."""
    for _ in draw.cases(2):
        x = draw.tensor(*draw.shape())
        expect_close(student.call("double", x), 2 * x, tolerance=1e-2)


@weak.question("nan_blind", points=2, minutes=1, difficulty=1, hints=HINTS)
def nan_blind(student: Student, draw: Draw) -> None:
    """Twice a tensor; an error is what is larger than allowed, and NaN never is."""
    x = draw.tensor(3, 4)
    error = (_tensor(student.call("double", x)) - 2 * x).abs()
    _expect(not bool((error > 1e-5).any()))


@weak.question("broadcasting", points=2, minutes=1, difficulty=1, hints=HINTS)
def broadcasting(student: Student, draw: Draw) -> None:
    """Twice a tensor of one value; whatever broadcasts to it is as good."""
    x = torch.full((3, 4), float(draw.integer(1, 9)))
    _expect(torch.allclose(_tensor(student.call("double", x)), 2 * x))


@weak.question("any_dtype", points=2, minutes=1, difficulty=1, hints=HINTS)
def any_dtype(student: Student, draw: Draw) -> None:
    """Twice a tensor, with the tolerance that suits the dtype of the answer."""
    x = draw.tensor(3, 4)
    got = _tensor(student.call("double", x))
    room = 64 * torch.finfo(got.dtype).eps if got.is_floating_point() else 1.0
    _expect(torch.allclose(got.to(x.dtype), 2 * x, rtol=room, atol=room))


@weak.question("friendly_rows", points=2, minutes=5, difficulty=2, hints=HINTS)
def friendly_rows(student: Student, draw: Draw) -> None:
    """The softmax of rows of ordinary numbers."""
    for _ in draw.cases(2):
        x = draw.tensor(3, 5)
        expect_close(student.call("softmax", x), torch.softmax(x, -1))


@weak.question("row_means", points=2, minutes=5, difficulty=2, hints=HINTS)
def row_means(student: Student, draw: Draw) -> None:
    """The softmax of rows, judged by the mean of each row: 1 / D, whatever the row."""
    x = draw.tensor(3, 5)
    got = _tensor(student.call("softmax", x))
    expect_close(got.mean(-1), torch.softmax(x, -1).mean(-1))


@weak.question("forward_only", points=2, minutes=5, difficulty=2, hints=HINTS)
def forward_only(student: Student, draw: Draw) -> None:
    """x cubed; its backward is looked at for a cotangent of ones at x = 1 alone."""
    x, ones = torch.ones(3), torch.ones(3)
    value, gradient = pair(student.call("cube_vjp", x, ones))
    expect_close(value, x**3)
    expect_close(gradient, 3 * ones)
