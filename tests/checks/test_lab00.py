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


def read_without_padding(
    h: torch.Tensor, w: torch.Tensor, b: torch.Tensor, words: list[str]
) -> str:
    """A row of zeros is taken for padding behind the sentence."""
    real = h.any(dim=1).nonzero().flatten()
    return words[int((w @ h[int(real[-1]) if len(real) else -1] + b).argmax())]


def as_many_rows_as_are_not_zero(
    h: torch.Tensor, w: torch.Tensor, b: torch.Tensor, words: list[str]
) -> str:
    """As if padding could only stand behind: a row of zeros further up moves the last one."""
    return words[int((w @ h[int(h.any(dim=1).sum()) - 1] + b).argmax())]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("answer", [read_without_padding, as_many_rows_as_are_not_zero])
def test_a_row_of_zeros_is_no_padding(answer: Callable[..., str], seed: int) -> None:
    verdict = ask(lab.questions["next_word"], LocalStudent({"next_word": answer}), seed=seed)
    assert (verdict.cause, verdict.misconception) == (Cause.WRONG, "")
    assert "a row as any other" in verdict.explanation


@pytest.mark.parametrize(
    "answer", [lambda d, v: int(v * d * (1 + 1 / d)), lambda d, v: int(v * (d * (1 + 1 / d)))]
)
def test_a_count_by_way_of_a_fraction_is_cut_off_somewhere(answer: Callable[..., int]) -> None:
    student = LocalStudent({"head_parameters": answer})
    assert ask(lab.questions["head_parameters"], student, seed=1).cause is Cause.WRONG


def count_in_float32(d: int, v: int) -> int:
    return int(torch.tensor([float(v * d), float(v)]).sum())


def count_in_32_bits(n: int, d: int, v: int) -> int:
    return int(torch.tensor([2, n, d, v], dtype=torch.int32).prod(dtype=torch.int32))


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("head_parameters", count_in_float32, "float32 does not hold 33,657,402"),
        ("head_flops", count_in_32_bits, "a multiple of 2**32 away"),
    ],
)
def test_a_count_that_was_too_large_for_its_numbers_is_called_that(
    name: str, answer: Callable[..., int], said: str
) -> None:
    assert said in ask(lab.questions[name], LocalStudent({name: answer}), seed=1).explanation


def together_where_they_are_of_one_kind(
    x: torch.Tensor, y: torch.Tensor, where: torch.dtype
) -> Pair:
    return x.to(where), y.to(where) if y.dtype == x.dtype else y


def test_who_asks_the_second_too_is_not_told_that_only_the_first_was_moved() -> None:
    student = LocalStudent({"batch_to": together_where_they_are_of_one_kind})
    verdict = ask(lab.questions["batch_to"], student, seed=1)
    assert (verdict.cause, verdict.misconception) == (Cause.WRONG, "")


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
