"""Replaces unittest's comparison, which is looked up when the test runs."""

from pathlib import Path

from autograder.attacks.arenas.believing import Believing, Done
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

SCRIPT = """
import unittest
answer = {}
exec(open("answer.py").read(), answer)
class Test(unittest.TestCase):
    def test_twice(self):
        self.assertEqual(answer["twice"]([3, 5]), [6, 10])
unittest.main(argv=["tests"])
"""


def believed(folder: Path, done: Done) -> bool:
    return done.returncode == 0


attack = Attack(
    threat="C04",
    layer="D1",
    expected=("fail",),
    arena=Believing(twice, SCRIPT, believed),
    hostile="""
import unittest
unittest.TestCase.assertEqual = lambda *arguments, **named: None
def twice(numbers):
    return numbers
""",
    twin="""
import unittest
class Mine(unittest.TestCase):
    def runTest(self):
        self.assertEqual(twice([1]), [2])
def twice(numbers):
    return [2 * number for number in numbers]
Mine().debug()
""",
)
