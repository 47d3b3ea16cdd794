"""Reads every open descriptor of its process: one of them is the file of expected values."""

import subprocess
from pathlib import Path

from autograder.attacks.arenas.believing import Believing
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

SCRIPT = """
import json, os
with open("expected.json", "w") as file:
    json.dump([6, 10], file)
expected = open("expected.json")
answer = {}
exec(open("answer.py").read(), answer)
assert answer["twice"]([3, 5]) == json.load(expected)
"""


def no_error(folder: Path, done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 0


attack = Attack(
    threat="B09",
    layer="D5",
    expected=("fail",),
    arena=Believing(twice, SCRIPT, no_error),
    hostile="""
import json, os
def twice(numbers):
    for descriptor in range(3, 32):
        try:
            return json.loads(os.pread(descriptor, 1000, 0))
        except (OSError, ValueError):
            pass
""",
    twin="""
import os
descriptor = os.open("/tmp/two", os.O_RDWR | os.O_CREAT)
os.write(descriptor, b"2")
def twice(numbers):
    return [int(os.pread(descriptor, 1, 0)) * number for number in numbers]
""",
)
