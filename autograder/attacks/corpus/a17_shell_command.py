"""Runs a shell command from a cell, that writes where the grader keeps its files."""

from autograder.attacks.arenas.baits import a_place_outside
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls

attack = Attack(
    threat="A17",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(plain=True), bait=a_place_outside),
    hostile="""
from IPython import get_ipython
def attempt(path):
    get_ipython().system(f"touch {path}")
""",
    twin="""
from IPython import get_ipython
def attempt(path):
    return get_ipython().getoutput("echo honest")[0]
""",
)
