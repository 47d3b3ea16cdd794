"""Imports the lab's own checks, and asks them what is true.

A check computes the right answer to compare with it: whoever can call it need not answer.
"""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls
from autograder.sandbox.bubblewrap import package_root

CHECKS = str(package_root() / "autograder" / "checks")

attack = Attack(
    threat="B06",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(readable=(CHECKS,))),
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
