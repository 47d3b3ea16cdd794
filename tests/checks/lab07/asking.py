"""A kernel in the place of one of lab 07's, and the launches of which its verdict speaks."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

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
