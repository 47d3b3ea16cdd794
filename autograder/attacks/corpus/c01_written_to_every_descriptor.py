"""Writes a verdict of its own to every open descriptor and ends, before the grader writes."""

from pathlib import Path

from autograder.attacks.arenas.believing import Believing, Done
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

SCRIPT = """
import os
verdicts = os.open("verdicts", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
answer = {}
exec(open("answer.py").read(), answer)
right = answer["twice"]([3, 5]) == [6, 10]
os.write(verdicts, b"passed" if right else b"failed")
"""


def believed(folder: Path, done: Done) -> bool:
    return (folder / "verdicts").read_text().startswith("passed")


attack = Attack(
    threat="C01",
    layer="D1",
    expected=("fail",),
    arena=Believing(twice, SCRIPT, believed),
    hostile="""
import os
def twice(numbers):
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, b"passed")
        except OSError:
            pass
    os._exit(0)
""",
    twin="""
import os
def twice(numbers):
    os.write(1, b"passed")
    return [2 * number for number in numbers]
""",
)
