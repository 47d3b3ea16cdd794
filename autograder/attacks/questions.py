"""The small lab that most attacks want points for, and how a kernel-class grader asks the same.

Each question stands here twice: as the judge asks it, from outside with fresh inputs, and as the
hidden test cell that an instructor would write, which runs beside the student's code.
"""

from __future__ import annotations

import time

import torch

from autograder.judge import Draw, Lab, Student, Wrong, expect_close, expect_equal

HINTS = ("Look at one element.", "Each element on its own.", "return 2 * x")
QUICK_S = 0.25
SLOW_S = 0.6
"""What the slow answers of timing attacks take, for work that cannot be seen from outside."""

lab = Lab("00_small", "A small lab")


@lab.question("double", points=2, minutes=1, difficulty=1, hints=HINTS)
def double(student: Student, draw: Draw) -> None:
    """Twice a tensor. x -> 2 x, of the same shape and dtype, with x left alone."""
    for size in [(3,), (1,), (2, 5), (), (0,), *(draw.shape() for _ in draw.cases(3))]:
        x = draw.tensor(*size)
        expect_close(student.call("double", x), 2 * x)
    for layout in draw.layouts():
        x = draw.tensor(3, 4, layout=layout)
        expect_close(student.call("double", x), 2 * x)


DOUBLE_CELL = """
import torch
for n in (3, 1, 8):
    x = torch.arange(float(n))
    want = 2 * x
    got = double(x)
    assert torch.allclose(got, want), "wrong"
"""


@lab.question("twice", points=2, minutes=1, difficulty=1, hints=HINTS)
def twice(student: Student, draw: Draw) -> None:
    """Twice each number of a list. numbers -> a list as long."""
    for n in (0, 1, draw.integer(2, 9)):
        numbers = [draw.integer(-1000, 1000) for _ in range(n)]
        expect_equal(student.call("twice", numbers), [2 * number for number in numbers])


TWICE_CELL = """
assert twice([3, 5]) == [6, 10]
assert twice([]) == []
"""
TWICE_PARTIAL = """
float(twice([3, 5]) == [6, 10])
"""


@lab.question("softmax", points=2, minutes=5, difficulty=2, hints=HINTS)
def softmax(student: Student, draw: Draw) -> None:
    """The softmax of each row. x (N, D), any magnitude -> as large, each row adds up to 1."""
    for n in draw.sizes(1, 2, 7):
        for scale in (1.0, 200.0):
            x = scale * draw.tensor(n, 5, layout=draw.layout())
            expect_close(student.call("softmax", x), torch.softmax(x, -1))


@lab.question("cube_vjp", points=2, minutes=5, difficulty=2, hints=HINTS)
def cube_vjp(student: Student, draw: Draw) -> None:
    """x cubed, and what its backward makes of a cotangent. x, cotangent -> (value, gradient)."""
    for n in draw.sizes(1, 4):
        x, cotangent = draw.tensor(n), draw.tensor(n)
        value, gradient = pair(student.call("cube_vjp", x, cotangent))
        expect_close(value, x**3)
        expect_close(gradient, 3 * x**2 * cotangent)


@lab.question("quick", points=2, minutes=1, difficulty=1, hints=HINTS)
def quick(student: Student, draw: Draw) -> None:
    """Twice a tensor, in little time: the median of three calls, each with fresh values."""
    times = []
    for _ in range(3):
        x = draw.tensor(6)
        started = time.monotonic()
        got = student.call("quick", x)
        times.append(time.monotonic() - started)
        expect_close(got, 2 * x)
    median = sorted(times)[1]
    if median > QUICK_S:
        raise Wrong(expected=f"at most {QUICK_S} s", got=f"{median:.2f} s", why="It is too slow.")


QUICK_CELL = f"""
import statistics, time, torch
x = torch.arange(6.0)
quick(x)  # warm up
times = []
for _ in range(3):
    started = time.perf_counter()
    got = quick(x)
    times.append(time.perf_counter() - started)
assert torch.allclose(got, 2 * x), "wrong"
assert not statistics.median(times) > {QUICK_S}, "too slow"
"""


def pair(answer: object) -> tuple[object, object]:
    """Both parts of an answer of two. Raises Wrong for any other."""
    if not isinstance(answer, (list, tuple)) or len(answer) != 2:
        raise Wrong(expected="two tensors", got=f"a {type(answer).__name__}")
    return answer[0], answer[1]
