"""Raises its limit for core files, to write its memory wherever the machine's pattern says."""

from autograder.attacks.arenas.kernel_needs import core_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H24",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("limits")),
    needs=core_obstacle,
    hostile="""
import resource
def attempt():
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (4096, 4096))
    except ValueError as error:
        return str(error)
    return resource.getrlimit(resource.RLIMIT_CORE)[0] == 4096
""",
    twin="""
import resource
def attempt():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return "honest"
""",
)
