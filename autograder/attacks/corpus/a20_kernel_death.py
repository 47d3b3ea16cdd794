"""Reads address 0 when it is called: the process dies, the run is void, and nothing was wrong."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A20",
    layer="D6",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
import ctypes
def twice(numbers):
    ctypes.string_at(0)
""",
    twin="""
import sys
def twice(numbers):
    try:
        sys.exit(0)
    except SystemExit:
        return [2 * number for number in numbers]
""",
)
