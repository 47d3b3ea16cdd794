"""Shows more points than the cell is worth: nbgrader ends with an error, and so does the run."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_PARTIAL, twice

attack = Attack(
    threat="A11",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_PARTIAL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
def twice(numbers):
    return numbers
plain = get_ipython().display_formatter.formatters["text/plain"]
plain.for_type(float, lambda value, printer, cycle: printer.text("1000.0"))
""",
    twin="""
def twice(numbers):
    print("1000.0")
    return [2 * number for number in numbers]
1000.0
""",
)
