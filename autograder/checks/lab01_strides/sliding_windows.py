"""All windows over a row, without a copy."""

from __future__ import annotations

import torch

from autograder.judge import Draw, Student, expect_view

from . import lab


@lab.question(
    "sliding_windows",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "How far apart in memory are two neighbours of x? And the first elements of two windows?",
        "`x.as_strided(size, stride)` makes any view. Both strides are multiples of x.stride(0).",
        "x.as_strided((count, width), (step * x.stride(0), x.stride(0)))",
    ),
)
def sliding_windows(student: Student, draw: Draw) -> None:
    """All windows of `width` neighbours of x, one every `step`, without copying a byte.

    x (N,) of any stride and offset -> a view (1 + (N - width) // step, width).
    """
    always = (("contiguous", 2), ("offset", 2), ("strided", 1), ("contiguous", 1))
    drawn = [(layout, draw.integer(1, 3)) for layout in draw.layouts() * draw.rounds]
    cases = [
        (draw.tensor(draw.integer(8, 40), layout=layout), draw.integer(2, 7), step)
        for layout, step in (*always, *drawn)
    ]
    for (x, width, step), got in zip(cases, student.each("sliding_windows", cases), strict=True):
        expect_view(got, x.unfold(0, width, step))


@sliding_windows.wrong(
    "stacked",
    "The windows are right, but they are a copy. A view needs only two strides: as_strided.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    return torch.stack([x[k : k + width] for k in range(0, len(x) - width + 1, step)])


@sliding_windows.wrong(
    "unit_stride",
    "The strides assume that neighbours of x are neighbours in memory. x may itself be a view: "
    "use x.stride(0).",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    return x.as_strided((1 + (len(x) - width) // step, width), (step, 1))


@sliding_windows.wrong(
    "offset_reset",
    "The view begins at the start of the storage. x begins at x.storage_offset(), which "
    "as_strided keeps unless told otherwise.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    s = x.stride(0)
    return x.as_strided((1 + (len(x) - width) // step, width), (step * s, s), 0)


@sliding_windows.wrong(
    "one_window_short",
    "The last window is missing. The first window needs `width` elements, every further one only "
    "`step` more.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    s = x.stride(0)
    return x.as_strided(((len(x) - width) // step, width), (step * s, s))


@sliding_windows.wrong(
    "step_forgotten",
    "The windows follow one another one by one. From a window to the next it is `step` elements.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    s = x.stride(0)
    return x.as_strided((1 + (len(x) - width) // step, width), (s, s))


sliding_windows.wrong(
    "made_contiguous_first",
    "The windows are a view, but of a copy of x. The stride of x is no hindrance: multiply by it.",
    sliding_windows=lambda x, width, step: x.contiguous().unfold(0, width, step),
)


@sliding_windows.cost
def _(student: Student, draw: Draw) -> str:
    x = draw.tensor(600)
    windows = student.call("sliding_windows", x, 64, 1)
    held = windows.untyped_storage().nbytes()
    return f"0 bytes copied: {windows.nbytes:,} bytes of windows over {held:,} bytes of storage"
