"""Detective case: the windows that moved."""

from __future__ import annotations

import torch

from autograder.judge import Draw, Student, expect_close

from . import lab


@lab.question(
    "centre_windows",
    points=3,
    minutes=10,
    difficulty=3,
    hints=(
        "Print x before and after the call. Then ask your own `overlaps` about the windows.",
        "`-=` writes into the windows, and the windows are the same floats again and again. "
        "The subtraction must write somewhere else.",
        "return windows - windows.mean(dim=1, keepdim=True)",
    ),
)
def centre_windows(student: Student, draw: Draw) -> None:
    """Detective case: every window of x minus its own mean. The code below looks right; make it
    right.

    x (N,), width -> (N - width + 1, width); x itself stays as it is.
    """
    sizes = (8, *(draw.integer(5, 40) for _ in draw.cases(3)))
    cases = [(draw.tensor(n), draw.integer(2, 4)) for n in sizes]
    for (x, width), got in zip(cases, student.each("centre_windows", cases), strict=True):
        windows = torch.stack([x[k : k + width] for k in range(len(x) - width + 1)])
        want = windows - windows.mean(dim=1, keepdim=True)
        expect_close(got, want, tolerance=1e-5)


@centre_windows.wrong(
    "writes_the_windows",
    "Your function wrote into x. Writing into a view of x does that too.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.unfold(0, width, 1)
    windows -= windows.mean(dim=1, keepdim=True)
    return windows


@centre_windows.wrong(
    "clones_x_first",
    "x is safe now, but the windows still share floats with one another: copy the windows, not x.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.clone().unfold(0, width, 1)
    windows -= windows.mean(dim=1, keepdim=True)
    return windows


centre_windows.wrong(
    "one_mean_for_all",
    "Every window lost the same mean. Each has its own: mean(dim=1, keepdim=True).",
    centre_windows=lambda x, width: x.unfold(0, width, 1) - x.mean(),
)


@centre_windows.wrong(
    "mean_across_windows",
    "This is the mean of each *position* over all windows. The mean of a window runs along dim 1.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.unfold(0, width, 1)
    return windows - windows.mean(dim=0, keepdim=True)


@centre_windows.wrong(
    "dimension_dropped",
    "mean(dim=1) dropped the dimension that it ran along, so the means stand beside the wrong one. "
    "keepdim=True leaves it there with size 1.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.unfold(0, width, 1)
    return windows - windows.mean(dim=1)


@centre_windows.cost
def _(student: Student, draw: Draw) -> str:
    x = draw.tensor(600)
    centred = student.call("centre_windows", x, 4)
    return f"{centred.nbytes:,} bytes written once, none of them into the {x.nbytes:,} bytes of x"
