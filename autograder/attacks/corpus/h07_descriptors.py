"""Opens a thousand files and closes none."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H07",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("limits")),
    hostile="""
def attempt():
    opened = []
    try:
        for _ in range(1000):
            opened.append(open("/dev/null"))
    except OSError as error:
        return error.errno
    return True
""",
    twin="""
def attempt():
    opened = [open("/dev/null") for _ in range(100)]
    return "honest" if len(opened) == 100 else None
""",
)
