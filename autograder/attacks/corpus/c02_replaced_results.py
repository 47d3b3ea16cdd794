"""Writes the file of results itself, and ends the process before the grader can write it."""

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
    threat="C02",
    layer="D1",
    expected=("fail",),
    arena=Believing(twice, SCRIPT, believed),
    hostile="""
import json, os
def twice(numbers):
    with open("results.json", "w") as file:
        json.dump({"points": 2}, file)
    os._exit(0)
""",
    twin="""
import json
def twice(numbers):
    with open("results.json", "w") as file:
        json.dump(numbers, file)
    return [2 * number for number in json.load(open("results.json"))]
""",
)
