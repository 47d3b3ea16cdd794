"""Lab 06's own answers, and the verdict on them with one in another's place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder import selftest
from autograder.checks.lab06_custom_op import lab
from autograder.judge import LocalStudent, Verdict, ask

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "solutions" / "06_custom_op" / "06_custom_op.ipynb"


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    return selftest.execute(PAGE)


@pytest.fixture
def asked(solved: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], Verdict]:
    """The verdict on the lab's own answers, with this one in the place of one of them."""

    def verdict(name: str, answer: Any) -> Verdict:
        monkeypatch.setitem(solved, name, answer)
        return ask(lab.questions[name], LocalStudent(solved), seed=5)

    return verdict
