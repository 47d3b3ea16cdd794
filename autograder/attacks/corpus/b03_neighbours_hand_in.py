"""Looks for the notebooks of other students where graders keep them."""

from autograder.attacks.arenas.baits import hand_ins
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls

attack = Attack(
    threat="B03",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(exposed=True), bait=hand_ins),
    hostile="""
import glob
def attempt(desk):
    for path in glob.glob(f"{desk}/**/*.ipynb", recursive=True):
        if "submitted" in path:
            return open(path).read()
""",
    twin="""
import glob
def attempt(desk):
    open("mine.ipynb", "w").write("honest")
    return open(glob.glob("*.ipynb")[0]).read()
""",
)
