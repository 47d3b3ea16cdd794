"""Ends the process with status 0 before a test has run: no failure was reported."""

from pathlib import Path

from autograder.attacks.arenas.believing import Believing, Done
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

SCRIPT = """
answer = {}
exec(open("answer.py").read(), answer)
assert answer["twice"]([3, 5]) == [6, 10]
"""


def believed(folder: Path, done: Done) -> bool:
    return done.returncode == 0


attack = Attack(
    threat="C05",
    layer="D1",
    expected=("fail",),
    arena=Believing(twice, SCRIPT, believed),
    hostile="""
import sys
sys.exit(0)
""",
    twin="""
import sys
def twice(numbers):
    try:
        sys.exit(1)
    except SystemExit:
        return [2 * number for number in numbers]
""",
)
