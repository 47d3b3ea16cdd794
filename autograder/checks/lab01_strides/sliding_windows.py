"""All windows over a row, without a copy."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_view, within

from . import lab

_RAISED = {
    "RuntimeError: setStorage": "The last window would end behind the last float of x: there are "
    "too many windows, they or a step are too long, or the first one begins too late. All is "
    "counted in floats.",
    "RuntimeError: shape": "Windows need not fill x: what is left behind the last one belongs to "
    "none of them.",
}
_COPIED = "The windows are right, but they are a copy. A view needs only two strides: as_strided."

_TIGHT = [(5, 5, 1), (5, 5, 3), (6, 5, 3), (7, 1, 1), (7, 1, 3), (1, 1, 1)]
_TIGHT += [(8, 3, 9), (8, 3, 5), (8, 3, 3)]
"""One window, windows of one element, and what is left behind the last one."""
_WIDER = (torch.float64, torch.int64, torch.bfloat16)


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
    beside = draw.tensor(24, layout="strided")[3:]  # neither the offset nor the stride is plain
    cases.append((beside, 4, 2))
    beside = draw.tensor(30)[3:22]  # there is room behind it, and between two windows
    cases += [(beside, 3, 5), (draw.tensor(12), 4, 4)]
    beside = draw.tensor(24, layout="strided")[3:]  # a stride, and no element in two windows
    cases += [(beside, 3, 3), (beside, 2, 5)]
    cases.append((draw.tensor(23)[1::2], 3, 2))  # an offset that is no multiple of the stride
    cases.append((draw.tensor(60)[4:5].expand(9), 3, 2))  # a stride of 0, and room for one of 1
    cases += [(draw.tensor(n), width, step) for n, width, step in _TIGHT]
    cases += [(draw.tensor(11, dtype=dtype, layout="strided")[2:], 3, 2) for dtype in _WIDER]
    with explaining(_RAISED):
        for case, got in zip(cases, student.each("sliding_windows", cases), strict=True):
            with within("", why=partial(_because, got, *case)):
                expect_view(got, case[0].unfold(0, *case[1:]))


def _because(got: Any, x: torch.Tensor, width: int, step: int) -> str:
    """What is wrong in these windows: how many there are, where they lie, or how they step; ""
    where the verdict has a better word."""
    want = x.unfold(0, width, step)
    if not isinstance(got, torch.Tensor):
        return (
            "" if got is None else "All windows together are one tensor, a view with two strides."
        )
    if got.shape != want.shape:
        if got.shape == want.T.shape and got.equal(want.T):
            return ""
        rows = (
            f"One every {step}, there are {len(want)} windows of {width} elements in x: a row "
            "for each."
        )
        return rows if len(want) > 1 else "There is one window in x."
    if got.untyped_storage().data_ptr() != x.untyped_storage().data_ptr():
        return (
            _COPIED if got.equal(want) else "This is a copy, and not all of its windows are right."
        )
    if got.storage_offset() != x.storage_offset():
        return (
            f"The first window begins where x does, at float {x.storage_offset()} of the storage."
        )
    (s,) = x.stride()
    return (
        f"Neighbours in x are {s} apart in the storage, so the next element of a window is {s} "
        f"further, and the next window {step} times {s}."
    )


@sliding_windows.wrong(
    "stacked",
    _COPIED,
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
    "x.as_strided keeps unless told otherwise.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    s = x.stride(0)
    return x.as_strided((1 + (len(x) - width) // step, width), (step * s, s), 0)


@sliding_windows.wrong(
    "offset_in_bytes",
    "The offset is in bytes here. as_strided counts it in elements, as it counts the strides.",
)
def _(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    (s,), begin = x.stride(), x.storage_offset() * x.element_size()
    return x.as_strided((1 + (len(x) - width) // step, width), (step * s, s), begin)


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


sliding_windows.wrong(
    "width_and_step_swapped",
    "Width and step have changed places. `unfold` takes the width first and then the step.",
    sliding_windows=lambda x, width, step: x.unfold(0, step, width),
)
sliding_windows.wrong(
    "every_window_of_step_1",
    "These are all the windows, one for each element. One every `step` elements is asked for.",
    sliding_windows=lambda x, width, step: x.unfold(0, width, 1),
)
sliding_windows.wrong(
    "no_two_share_an_element",
    "These windows follow one another without an element in common. From a window to the next it "
    "is `step` elements, not `width`.",
    sliding_windows=lambda x, width, step: x.unfold(0, width, width),
)
sliding_windows.wrong(
    "step_inside_the_windows",
    "The step was taken inside the windows, as by x[::step]. A window holds neighbours of x; the "
    "step is from window to window.",
    sliding_windows=lambda x, width, step: x[::step].unfold(0, width, 1),
)
sliding_windows.wrong(
    "step_taken_twice",
    "The step was taken twice: from a window to the next it is step * step elements here.",
    sliding_windows=lambda x, width, step: x.unfold(0, width, step)[::step],
)


def _strided(x: torch.Tensor, width: int, step: int, by: tuple[int, int]) -> torch.Tensor:
    return x.as_strided((1 + (len(x) - width) // step, width), by)


sliding_windows.wrong(
    "strides_swapped",
    "The two strides changed places: the first one leads from window to window, the second one "
    "along a window.",
    sliding_windows=lambda x, width, step: _strided(
        x, width, step, (x.stride(0), step * x.stride(0))
    ),
)
sliding_windows.wrong(
    "step_in_floats",
    "From window to window it is `step` elements of x, and these are x.stride(0) apart in memory: "
    "multiply.",
    sliding_windows=lambda x, width, step: _strided(x, width, step, (step, x.stride(0))),
)
sliding_windows.wrong(
    "unit_stride_inside",
    "Inside a window the strides assume that neighbours of x are neighbours in memory. x may "
    "itself be a view: use x.stride(0).",
    sliding_windows=lambda x, width, step: _strided(x, width, step, (step * x.stride(0), 1)),
)
sliding_windows.wrong(
    "first_element_repeated",
    "Each window holds one element again and again. A stride of 0 repeats it; its neighbours are "
    "x.stride(0) apart.",
    sliding_windows=lambda x, width, step: _strided(x, width, step, (x.stride(0), 0)),
)


@sliding_windows.cost
def _(student: Student, draw: Draw) -> str:
    x = draw.tensor(600)
    windows = student.call("sliding_windows", x, 64, 1)
    held = windows.untyped_storage().nbytes()
    return f"0 bytes copied: {windows.nbytes:,} bytes of windows over {held:,} bytes of storage"
