"""Asks the questions of the labs, judges the answers, and grades a class.

What a student's notebook uses stands here: `check`, `hint`, `predict`, `reveal`, `progress`,
`answered`. They are imported when they are first used, so that a process that only judges never
loads them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autograder.notebook import answered as answered
    from autograder.notebook import check as check
    from autograder.notebook import hint as hint
    from autograder.notebook import predict as predict
    from autograder.notebook import progress as progress
    from autograder.notebook import reveal as reveal

__all__ = ["answered", "check", "hint", "predict", "progress", "reveal"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'autograder' has no attribute {name!r}")
    value: object = getattr(import_module("autograder.notebook"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
