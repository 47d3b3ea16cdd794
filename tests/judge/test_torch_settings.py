"""What one cell does to torch's settings decides nothing about the answers of others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from autograder.judge import Lab, LocalStudent, ask, expect_close
from autograder.judge.torch_settings import (
    FRESH,
    _now,
    as_started,
    one_thread,
    remember_threads,
)
from autograder.notebook.checking import checked

LEFT_BEHIND: dict[str, Callable[[], Any]] = {
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "device": lambda: torch.set_default_device("meta"),
    "grad": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast on a GPU": lambda: torch.set_autocast_enabled("cuda", True),
    "matmul": lambda: torch.set_float32_matmul_precision("medium"),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "threads": lambda: torch.set_num_threads(3),
}


@pytest.fixture
def threads() -> Iterator[None]:
    remember_threads()
    with as_started():  # whatever a test leaves behind
        yield


def fresh() -> tuple[Any, ...]:
    return (*FRESH, torch.get_num_threads())


@pytest.mark.parametrize("leave", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_a_setting_is_as_in_a_fresh_process_inside_and_the_students_own_after(
    leave: Callable[[], Any], threads: None
) -> None:
    before = _now()
    leave()
    left = _now()
    assert left != before
    for once_more in (leave, list):
        with as_started():
            assert _now() == before
            once_more()
        assert _now() == left


def test_fresh_is_what_a_process_begins_with() -> None:
    asked = "from autograder.judge.torch_settings import _now; print(_now()[:-1])"
    told = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == str(FRESH)


def test_inference_mode_too() -> None:
    with torch.inference_mode():
        with as_started():
            assert (torch.ones(2, requires_grad=True) * 2).requires_grad
        assert torch.is_inference_mode_enabled()


lab = Lab("07_settings", "Settings")


@lab.question("product", points=1, minutes=1, difficulty=1, hints=("a", "b", "c"))
def product(student: Any, draw: Any) -> None:
    """x (5, 3), w (3, 2) -> x w, float32, with its gradient."""
    x, w = draw.tensor(5, 3), draw.tensor(3, 2)
    expect_close(student.call("product", x, w), torch.zeros(5, 2) + x @ w)


@pytest.mark.parametrize("leave", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_the_answer_of_the_next_cell_is_judged_as_before(
    leave: Callable[[], Any], threads: None
) -> None:
    def right(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(5, 2)
        made += x.clone().requires_grad_() @ w
        made.sum().backward()
        return made.detach()

    leave()
    shown = checked("product", {"product": right}, labs=[lab])
    assert "pass" in str(shown)


def test_an_answer_that_changes_one_changes_it_for_itself(threads: None) -> None:
    def right(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        assert torch.get_default_dtype() is torch.float32
        torch.set_default_dtype(torch.float64)
        return x @ w

    assert ask(product, LocalStudent({"product": right}), seed=1).points == 1
    assert torch.get_default_dtype() is torch.float32


def test_a_notebooks_check_asks_with_one_thread_and_leaves_the_students_own(threads: None) -> None:
    def right(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return x @ w

    seen: list[int] = []
    torch.set_num_threads(3)
    assert "pass" in str(checked("product", {"product": right}, labs=[lab]))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 3


def test_one_thread_and_then_as_many_as_before(threads: None) -> None:
    torch.set_num_threads(2)
    with one_thread():
        assert torch.get_num_threads() == 1
        with as_started():
            assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
