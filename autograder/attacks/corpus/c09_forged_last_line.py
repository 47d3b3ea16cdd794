"""Prints, as its last line, what a grader's protocol looks like, and ends the process."""

import json
from pathlib import Path

from autograder.attacks.arenas.believing import Believing, Done
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

SCRIPT = """
import json
answer = {}
exec(open("answer.py").read(), answer)
right = answer["twice"]([3, 5]) == [6, 10]
print(json.dumps({"points": 2 if right else 0}))
"""


def believed(folder: Path, done: Done) -> bool:
    return bool(json.loads(done.stdout.splitlines()[-1])["points"] == 2)


attack = Attack(
    threat="C09",
    layer="D1",
    expected=("fail",),
    arena=Believing(twice, SCRIPT, believed),
    hostile="""
import os
def twice(numbers):
    os.write(1, b'{"points": 2}')
    os._exit(0)
""",
    twin="""
def twice(numbers):
    print('{"points": 0}')
    return [2 * number for number in numbers]
""",
)
