"""Leaves its answers in `/tmp`, where the next submission finds them."""

from autograder.attacks.arenas.next_student import NextStudent
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="B15",
    layer="D6",
    expected=("refused",),
    arena=NextStudent(missing("files")),
    hostile="""
def attempt():
    found = os.path.exists("/tmp/answers")
    open("/tmp/answers", "w").write("42")
    return found
""",
    twin="""
def attempt():
    open("/tmp/answers", "x").write("honest")
    return open("/tmp/answers").read()
""",
)
