"""Rewrites the file of results when the interpreter ends, after the grader has written it."""

import json
from pathlib import Path

from autograder.attacks.arenas.believing import Believing, Done
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

SCRIPT = """
import json
answer = {}
exec(open("answer.py").read(), answer)
points = 2 if answer["twice"]([3, 5]) == [6, 10] else 0
with open("results.json", "w") as file:
    json.dump({"points": points}, file)
"""


def believed(folder: Path, done: Done) -> bool:
    path = folder / "results.json"
    return path.exists() and json.loads(path.read_text())["points"] == 2


attack = Attack(
    threat="C06",
    layer="D4",
    expected=("fail",),
    arena=Believing(twice, SCRIPT, believed),
    hostile="""
import atexit, json
def rewrite():
    with open("results.json", "w") as file:
        json.dump({"points": 2}, file)
atexit.register(rewrite)
def twice(numbers):
    return numbers
""",
    twin="""
import atexit
atexit.register(print, "done")
def twice(numbers):
    return [2 * number for number in numbers]
""",
)
