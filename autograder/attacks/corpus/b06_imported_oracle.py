"""Imports the lab's own checks, and asks them what is true.

A check computes the right answer to compare with it: whoever can call it need not answer.
"""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls

attack = Attack(
    threat="B06",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(exposed=True)),
    hostile="""
def attempt():
    try:
        from autograder.checks import find
        return callable(find("address").check)
    except ImportError as error:
        return str(error)
""",
    twin="""
from autograder import check, hint
def attempt():
    check("address")
    hint("address")
    return "honest"
""",
)
