"""Reads the environment of the process that started it, where graders keep passwords."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls

attack = Attack(
    threat="B08",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(plain=True)),
    hostile="""
def attempt():
    try:
        return len(open(f"/proc/{os.getppid()}/environ", "rb").read()) > 0
    except OSError as error:
        return error.errno
""",
    twin="""
def attempt():
    return "honest" if "HOME" in os.environ else os.environ
""",
)
