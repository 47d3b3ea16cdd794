"""Makes a file of a terabyte that holds nothing: whoever copies it has a terabyte to copy."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H06",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("limits")),
    hostile="""
def attempt():
    try:
        with open("/tmp/sparse", "wb") as file:
            file.truncate(2**40)
        return os.path.getsize("/tmp/sparse") == 2**40
    except OSError as error:
        return error.errno
""",
    twin="""
def attempt():
    with open("/tmp/sparse", "wb") as file:
        file.truncate(2**20)
    return "honest"
""",
)
