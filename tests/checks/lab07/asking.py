"""A kernel in the place of one of lab 07's, and the launches of which its verdict speaks."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from autograder.checks.lab07_triton import lab
from autograder.checks.lab07_triton.kernels import Case
from autograder.judge import Draw, LocalStudent, Verdict, ask

ROOT = Path(__file__).resolve().parents[3]
SOLUTION = ROOT / "solutions" / "07_triton" / "07_triton.ipynb"
KERNELS = ("softmax_kernel", "linear_kernel", "fused_loss_kernel", "fused_backward_kernel")


def cases_of(question: str, seed: int = 1) -> list[Case]:
    module = import_module(f"autograder.checks.lab07_triton.{question}")
    beyond = getattr(module, "_beyond", None)
    return [*module._cases(Draw(seed)), *(beyond(Draw(seed)) if beyond else ())]


def asked(question: str, source: str, seed: int = 7) -> Verdict:
    return ask(lab.questions[question], LocalStudent({"written": lambda name: source}), seed=seed)


def edited(solved: Mapping[str, Any], question: str, old: str, new: str, seed: int = 7) -> Verdict:
    """The verdict on our own kernel with `new` in the place of `old`."""
    source = solved["written"](question)
    assert old in source
    return asked(question, source.replace(old, new), seed)
