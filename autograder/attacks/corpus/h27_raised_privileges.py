"""Keeps the capabilities with which its process was furnished."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H27",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("privileges", "landlock", "seccomp")),
    hostile="""
def attempt():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(status["CapEff"], 16) != 0
""",
    twin="""
def attempt():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return "honest" if int(status["NoNewPrivs"]) == 1 else None
""",
)
