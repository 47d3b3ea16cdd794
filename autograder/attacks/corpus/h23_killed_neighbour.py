"""Kills every process that it can name, a neighbour's first."""

from autograder.attacks.arenas.baits import a_neighbour
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H23",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("processes", "landlock"), bait=a_neighbour),
    hostile="""
def attempt(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError as error:
        return error.errno
""",
    twin="""
def attempt(pid):
    os.kill(os.getpid(), 0)
    return "honest"
""",
)
