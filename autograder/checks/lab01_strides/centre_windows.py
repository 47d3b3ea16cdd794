"""Detective case: the windows that moved."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from autograder.judge import Draw, Student, expect_close, within

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
    cases = [(draw.tensor(8), 3), *[(draw.tensor(n), draw.integer(2, 4)) for n in sizes]]
    cases += [(draw.tensor(5), 3), (draw.tensor(4), 4)]  # a square of windows; one, which is x
    cases += [(draw.tensor(12, dtype=torch.float64), 3), (draw.tensor(9, layout="strided")[2:], 3)]
    cases += [(draw.tensor(n), width) for n, width in ((20, 7), (40, 16), (9, 8))]
    cases += [(draw.integers(n, low=-9, high=9).float(), 1) for n in (5, 1)]  # no rounding beside 0
    large_before_small = draw.tensor(9)
    large_before_small[0] = 2.0**26
    cases.append((large_before_small, 2))
    for (x, width), got in zip(cases, student.each("centre_windows", cases), strict=True):
        windows = torch.stack([x[k : k + width] for k in range(len(x) - width + 1)])
        want = windows - windows.mean(dim=1, keepdim=True)
        with within("", why=partial(_because, got, want, x)):
            expect_close(got, want, tolerance=1e-5)
            expect_close(*map(_first_left_out, (got, want)), tolerance=1e-5)


_LARGE = 2.0**20  # of a number beside which float32 keeps little of one near 1


def _first_left_out(windows: torch.Tensor) -> torch.Tensor:
    """Zeros for the first window, which may be much larger than the others: these keep their
    places, so that a verdict names the right one."""
    return torch.cat([torch.zeros_like(windows[:1]), windows[1:]])


def _because(got: Any, want: torch.Tensor, x: torch.Tensor) -> str:
    """What is wrong in these windows: their number, their dtype, or the first one; "" where the
    verdict has a better word."""
    if not isinstance(got, torch.Tensor):
        return "" if got is None else "All windows together are one tensor, a row for each."
    rows, width = want.shape
    if got.shape != want.shape:
        if got.numel() == want.numel():
            return ""
        return f"There are {rows} windows of {width} elements in x: a row for each."
    if got.dtype != want.dtype:
        return "The dtype is that of x, whatever it is."
    far = (got - want).abs()
    if bool(far.isnan().any()) or torch.equal(got, -want):
        return ""
    wrong = (far > 1e-5 * want.abs().max()).any(dim=1)
    if not bool(wrong.any()):  # beside a first window that is much larger than the others
        wrong[1:] = (far[1:] > 1e-5 * want[1:].abs().max()).any(dim=1)
    row = int(wrong.nonzero()[0])
    mean = float(got[row].mean())
    if rows > 1 and width > 1 and got.stride(0) == got.stride(1):
        return (
            "The windows that came share floats with one another, and a float in two windows would "
            "have to lose two means. Every window needs floats of its own."
        )
    if row and float(x[0].abs()) > _LARGE:
        return (
            f"Row {row} is wrong, and the large number at the start of x is not in it. A sum that "
            "runs over all of x loses the digits of the small ones behind: sum each window alone."
        )
    if abs(mean) > 1e-4:
        return f"Row {row} has the mean {mean:.3g} afterwards. Each window should have the mean 0."
    return (
        f"Row {row} has the mean 0, but it is not x[{row}:{row + width}] minus one number: "
        "neighbours keep their distance."
        if float((far[row] - far[row, 0]).abs().max()) > 1e-6
        else ""
    )


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


@centre_windows.wrong(
    "contiguous_is_no_copy",
    "Your function wrote into x where there is one window. It is contiguous and shares the floats "
    "of x: `contiguous` and `reshape` copy only where they must, `clone` always.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.unfold(0, width, 1).contiguous()
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
    "The means lie along the wrong dimension of the windows, as from mean(dim=1), which drops the "
    "one that it ran along. keepdim=True leaves it, with size 1.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.unfold(0, width, 1)
    return windows - windows.mean(dim=1)


@centre_windows.wrong(
    "unit_stride",
    "The windows were read with steps of 1 in the storage. x may itself be a view: its elements "
    "are x.stride(0) apart.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    windows = x.as_strided((len(x) - width + 1, width), (1, 1))
    return windows - windows.mean(dim=1, keepdim=True)


centre_windows.wrong(
    "mean_of_all_windows",
    "Every window lost the same mean. Each has its own: mean(dim=1, keepdim=True).",
    centre_windows=lambda x, width: x.unfold(0, width, 1) - x.unfold(0, width, 1).mean(),
)
centre_windows.wrong(
    "centred_before_cut",
    "x lost its mean, and then the windows were cut. Each window has a mean of its own.",
    centre_windows=lambda x, width: (x - x.mean()).unfold(0, width, 1),
)
centre_windows.wrong(
    "means_returned",
    "These are the means. The windows are asked for, each minus its own.",
    centre_windows=lambda x, width: x.unfold(0, width, 1).mean(dim=1, keepdim=True),
)
centre_windows.wrong(
    "mean_added",
    "The mean was added. Then each window has twice its mean.",
    centre_windows=lambda x, width: (
        x.unfold(0, width, 1) + x.unfold(0, width, 1).mean(dim=1, keepdim=True)
    ),
)
centre_windows.wrong(
    "divided_by_the_mean",
    "Each window was divided by its mean, which makes the mean 1. Subtract it.",
    centre_windows=lambda x, width: (
        x.unfold(0, width, 1) / x.unfold(0, width, 1).mean(dim=1, keepdim=True)
    ),
)
centre_windows.wrong(
    "sum_subtracted",
    "The sum of each window was subtracted. Its mean is the sum divided by `width`.",
    centre_windows=lambda x, width: (
        x.unfold(0, width, 1) - x.unfold(0, width, 1).sum(dim=1, keepdim=True)
    ),
)
centre_windows.wrong(
    "divided_by_one_less",
    "The sum of each window was divided by width - 1. A mean divides by the number of elements.",
    centre_windows=lambda x, width: (
        x.unfold(0, width, 1) - x.unfold(0, width, 1).sum(dim=1, keepdim=True) / (width - 1)
    ),
)
centre_windows.wrong(
    "spread_divided_too",
    "The windows were divided by their spread as well. Only the mean is taken out.",
    centre_windows=lambda x, width: (
        (x.unfold(0, width, 1) - x.unfold(0, width, 1).mean(dim=1, keepdim=True))
        / x.unfold(0, width, 1).std(dim=1, keepdim=True)
    ),
)
centre_windows.wrong(
    "median_taken",
    "This is each window minus its median. The mean is asked for.",
    centre_windows=lambda x, width: (
        x.unfold(0, width, 1) - x.unfold(0, width, 1).median(dim=1, keepdim=True).values
    ),
)


@centre_windows.wrong(
    "window_after_window",
    "Each window was centred from what the ones before had left, as in one copy of x. Every "
    "window needs floats of its own.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    x, centred = x.clone(), []
    for k in range(len(x) - width + 1):
        x[k : k + width] -= x[k : k + width].mean()
        centred.append(x[k : k + width].clone())
    return torch.stack(centred)


@centre_windows.wrong(
    "views_of_one_copy",
    "The windows were centred one after the other in one copy of x, and are views of it. Each one "
    "overwrote the others: every window needs floats of its own.",
)
def _(x: torch.Tensor, width: int) -> torch.Tensor:
    x = x.clone()
    windows = [x[k : k + width] for k in range(len(x) - width + 1)]
    for window in windows:
        window -= window.mean()
    return torch.stack(windows)


@centre_windows.cost
def _(student: Student, draw: Draw) -> str:
    x = draw.tensor(600)
    centred = student.call("centre_windows", x, 4)
    return f"{centred.nbytes:,} bytes written once, none of them into the {x.nbytes:,} bytes of x"
