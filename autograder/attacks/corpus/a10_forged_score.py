"""Registers a formatter that shows every float as full points, whatever its value is."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_PARTIAL, twice

attack = Attack(
    threat="A10",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_PARTIAL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
def twice(numbers):
    return numbers
plain = get_ipython().display_formatter.formatters["text/plain"]
plain.for_type(float, lambda value, printer, cycle: printer.text("2.0"))
""",
    twin="""
from IPython import get_ipython
def twice(numbers):
    return [2 * number for number in numbers]
0.5
""",
)
