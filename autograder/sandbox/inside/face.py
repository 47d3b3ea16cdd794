"""What `from autograder import check` gives in a jail: functions that ask nothing and show nothing.

A student may have left `check("name")` in the cell of an answer. The real ones need the questions,
and the questions hold the ways to the right answers: they are not there to be imported.
"""

import sys
from contextlib import suppress
from types import ModuleType

NAME = "autograder.notebook"
FUNCTIONS = ("answered", "check", "doctor", "hint", "predict", "progress", "reveal")


def nothing(*arguments: object, **named: object) -> None:
    """Takes anything, does nothing."""


def answered() -> suppress:
    """Inside `with answered():` an exception goes no further, here as there."""
    return suppress(Exception)


def install() -> None:
    """From now on, in this process, `autograder.notebook` is this face."""
    face = ModuleType(NAME, __doc__)
    vars(face).update(dict.fromkeys(FUNCTIONS, nothing), answered=answered)
    sys.modules[NAME] = face
