"""What lab 01 has to refuse: answers that are wrong at one edge of what the page allows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from autograder.checks.lab01_strides import lab
from autograder.checks.lab01_strides.copied_bytes import Step
from autograder.checks.lab01_strides.geometry import Sizes
from autograder.checks.lab01_strides.view_strides import _runs
from autograder.judge import Cause, LocalStudent, ask


def by_any_format(size: Sizes, stride: Sizes) -> bool:
    t = torch.empty_strided(size, stride)
    in_another = t.dim() == 4 and t.is_contiguous(memory_format=torch.channels_last)
    return t.is_contiguous() or in_another


def cut_with_a_rest(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    """A new size is cut from a run that is long enough; whether a rest stays is not asked."""
    found, sizes = [1] * len(new_size), list(new_size)
    for left, step in reversed(_runs(size, stride)):
        while sizes and left > 1:
            n = sizes.pop()
            if left < n:
                return None
            found[len(sizes)], left, step = step, left // n, step * n
    return tuple(found)


def side_by_side(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    return x.view(-1, width) if step == width else x.unfold(0, width, step)


def offset_in_fours(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    begin = (x.data_ptr() - x.untyped_storage().data_ptr()) // 4
    return x.unfold(0, width, step).as_strided(
        (1 + (len(x) - width) // step, width), (step * x.stride(0), x.stride(0)), begin
    )


def stride_forgotten_between(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    s = x.stride(0)
    between = step * s if step < width else step
    return x.as_strided((1 + (len(x) - width) // step, width), (between, s))


def offset_in_whole_strides(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    s = x.stride(0)
    begin = x.storage_offset() // s * s
    return x.as_strided((1 + (len(x) - width) // step, width), (step * s, s), begin)


def index_laid_flat(
    flat: torch.Tensor, stride: Sizes, offset: int, index: torch.Tensor
) -> torch.Tensor:
    rows = torch.arange(len(index)).repeat_interleave(index.shape[1])
    return flat[offset + rows * stride[0] + index.view(-1) * stride[1]].view(index.shape)


def windows_refused(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
    """Whatever reaches a float twice needs a copy, unless it repeats whole rows."""
    steps = sorted((s, n) for n, s in zip(size, stride, strict=True) if n > 1)
    if any(outer[0] < s * n for (s, n), outer in itertools.pairwise(steps)):
        return None
    try:
        return tuple(torch.empty_strided(size, stride).view(new_size).stride())
    except RuntimeError:
        return None


def charged_unless_seen(x: torch.Tensor, steps: list[Step]) -> list[int]:
    """A storage that was freed leaves its address, and a later one may have it."""
    bill, seen = [], {x.untyped_storage().data_ptr()}
    for name, arguments in steps:
        x = getattr(x, name)(*arguments)
        storage = x.untyped_storage()
        bill.append(0 if storage.data_ptr() in seen else storage.nbytes())
        seen.add(storage.data_ptr())
    return bill


def last_index_from_the_end(index: Sizes, size: Sizes, stride: Sizes, offset: int) -> int:
    last = [i % n for i, n in zip(index[-1:], size[-1:], strict=True)]
    return offset + sum(i * s for i, s in zip((*index[:-1], *last), stride, strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("is_contiguous", by_any_format),
        ("view_strides", cut_with_a_rest),
        ("view_strides", windows_refused),
        ("copied_bytes", charged_unless_seen),
        ("sliding_windows", side_by_side),
        ("sliding_windows", offset_in_fours),
        ("sliding_windows", stride_forgotten_between),
        ("sliding_windows", offset_in_whole_strides),
        ("gather_flat", index_laid_flat),
        ("address", last_index_from_the_end),
    ],
)
def test_an_answer_that_is_wrong_at_one_edge_is_refused(
    name: str, answer: Callable[..., Any], seed: int
) -> None:
    verdict = ask(lab.questions[name], LocalStudent({name: answer}), seed=seed)
    assert verdict.cause in (Cause.WRONG, Cause.RAISED)
    assert not verdict.misconception  # none of the known ones is true of it


def test_who_takes_a_run_where_none_is_left_hears_when_none_is_needed() -> None:
    def ones_too(size: Sizes, stride: Sizes, new_size: Sizes) -> Sizes | None:
        runs, found, left, step = _runs(size, stride), [], 1, 1
        for n in reversed(new_size):
            if left == 1:
                left, step = runs.pop()
            if left % n:
                return None
            found.append(step)
            left, step = left // n, step * n
        return tuple(reversed(found))

    verdict = ask(lab.questions["view_strides"], LocalStudent({"view_strides": ones_too}), seed=1)
    assert verdict.cause is Cause.WRONG
    assert "needs no run" in verdict.explanation


def test_a_verdict_names_the_row_that_is_wrong_beside_a_much_larger_one() -> None:
    def from_running_sums(x: torch.Tensor, width: int) -> torch.Tensor:
        sums = torch.cat([x.new_zeros(1), x.cumsum(0)])
        windows = x.unfold(0, width, 1)
        centred = windows - ((sums[width:] - sums[:-width]) / width)[:, None]
        if float(x.abs().max()) < 2**20:
            return centred
        right = windows - windows.mean(dim=1, keepdim=True)
        return torch.cat([right[:7], centred[7:]])  # the last row alone is wrong

    student = LocalStudent({"centre_windows": from_running_sums})
    verdict = ask(lab.questions["centre_windows"], student, seed=1)
    assert verdict.cause is Cause.WRONG
    assert "[7, " in str(verdict.where)
    assert "Row 7 is wrong" in verdict.explanation
