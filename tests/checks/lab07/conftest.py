"""Lab 07's own answers."""

from __future__ import annotations

from typing import Any

import pytest

from autograder.selftest import alternatives, execute
from tests.checks.lab07.asking import SOLUTION


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    return execute(SOLUTION)


@pytest.fixture(scope="module")
def others() -> dict[str, list[dict[str, Any]]]:
    return alternatives(SOLUTION)
