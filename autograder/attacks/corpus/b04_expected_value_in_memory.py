"""Takes the expected tensor out of the memory of the process that is about to compare with it."""

from autograder.attacks.arenas.beside import Beside
from autograder.attacks.attack import Attack
from autograder.attacks.questions import DOUBLE_CELL, double

attack = Attack(
    threat="B04",
    layer="D1",
    expected=("fail",),
    arena=Beside(double, DOUBLE_CELL),
    hostile="""
import sys
def double(x):
    frame = sys._getframe(1)
    while frame is not None:
        if "want" in frame.f_globals:
            return frame.f_globals["want"]
        frame = frame.f_back
""",
    twin="""
import sys
want = None
def double(x):
    assert sys._getframe(0).f_globals["want"] is None
    return 2 * x
""",
)
