"""Walks through all folders that it can see, and reads whatever a folder of solutions holds."""

from autograder.attacks.arenas.baits import solutions
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import Walls

attack = Attack(
    threat="B01",
    layer="D5",
    expected=("refused",),
    arena=Reach(Walls(exposed=True), bait=solutions),
    hostile="""
def attempt(desk):
    for place in (desk, os.getcwd(), os.path.expanduser("~")):
        for folder, _, names in os.walk(place):
            for name in names:
                if "solutions" in folder:
                    return open(os.path.join(folder, name)).read()
""",
    twin="""
def attempt(desk):
    with open("solutions.txt", "w") as file:
        file.write("honest")
    return open("solutions.txt").read()
""",
)
