"""What `from autograder import check` gives in a jail: functions that ask nothing and show nothing.

A student may have left `check("name")` in the cell of an answer. The real ones need the questions,
and the questions hold the ways to the right answers: they are not there to be imported.
"""

import sys
from types import ModuleType

NAME = "autograder.notebook"
FUNCTIONS = ("check", "doctor", "hint", "predict", "progress", "reveal")


def nothing(*arguments: object, **named: object) -> None:
    """Takes anything, does nothing."""


def install() -> None:
    """From now on, in this process, `autograder.notebook` is this face."""
    face = ModuleType(NAME, __doc__)
    for name in FUNCTIONS:
        setattr(face, name, nothing)
    sys.modules[NAME] = face
