"""What lab 00 explains: an exception where None is asked for, and which of two keeps its dtype."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from autograder.checks.lab00_open_the_hood import batch_to, device_of_sum, lab
from autograder.judge import Cause, LocalStudent, ask

Place = tuple[str, tuple[int, ...]]
Pair = tuple[torch.Tensor, ...]


def raised_as_torch_does(a: Place, b: Place) -> str:
    if a[0] == b[0]:
        return a[0]
    if ("cpu", ()) not in (a, b):
        raise RuntimeError("Expected all tensors to be on the same device")
    return "cuda"


def text_of_the_device(a: Place, b: Place) -> str | None:
    if a[0] != b[0] and ("cpu", ()) not in (a, b):
        return None
    return "cpu" if a[0] == b[0] == "cpu" else "cuda:0"


def named_float(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    """torch.bfloat16 has another name."""
    return tuple(t.to(where) if str(t.dtype).startswith("torch.float") else t for t in (x, y))


def whole_numbers_widened(x: torch.Tensor, y: torch.Tensor, where: torch.dtype) -> Pair:
    return tuple(
        t.to(where) if t.is_floating_point() else t if t.dtype == torch.bool else t.long()
        for t in (x, y)
    )


@pytest.mark.parametrize(
    ("name", "answer", "sentence"),
    [
        ("device_of_sum", raised_as_torch_does, device_of_sum._RAISED["RuntimeError"]),
        ("device_of_sum", text_of_the_device, device_of_sum._NUMBERED),
        ("batch_to", named_float, batch_to._IS_FLOAT),
        ("batch_to", whole_numbers_widened, batch_to._IS_NO_FLOAT),
    ],
)
def test_a_wrong_answer_without_a_name_is_told_which_rule_it_breaks(
    name: str, answer: Callable[..., object], sentence: str
) -> None:
    verdict = ask(lab.questions[name], LocalStudent({name: answer}), seed=3)
    assert (verdict.cause, str(verdict.sentence)) == (Cause.WRONG, sentence)
