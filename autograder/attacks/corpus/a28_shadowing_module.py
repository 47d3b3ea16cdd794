"""Writes a module beside the notebook that bears the name of one which the grader imports later."""

from pathlib import Path

from autograder.attacks.arenas.believing import Believing, Done
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

SCRIPT = """
import sys
sys.path.insert(0, "")
answer = {}
exec(open("answer.py").read(), answer)
import colorsys as comparing  # any module that a grader imports late
same = getattr(comparing, "same", lambda got, want: got == want)
assert same(answer["twice"]([3, 5]), [6, 10])
"""


def believed(folder: Path, done: Done) -> bool:
    return done.returncode == 0


attack = Attack(
    threat="A28",
    layer="D1",
    expected=("fail",),
    arena=Believing(twice, SCRIPT, believed),
    hostile="""
with open("colorsys.py", "w") as file:
    file.write("same = lambda got, want: True")
def twice(numbers):
    return numbers
""",
    twin="""
with open("mine.py", "w") as file:
    file.write("factor = 2")
import mine
def twice(numbers):
    return [mine.factor * number for number in numbers]
""",
)
