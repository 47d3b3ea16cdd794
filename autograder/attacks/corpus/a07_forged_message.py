"""Sends a result of its own with the kernel's session and key, before the test cell's true one.

nbgrader takes the first number that a check cell shows for the points it earned.
"""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_PARTIAL, twice

attack = Attack(
    threat="A07",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_PARTIAL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
def twice(numbers):
    return numbers
kernel = get_ipython().kernel
def forge(info):
    content = {"data": {"text/plain": "2.0"}, "metadata": {}, "execution_count": 1}
    parent = kernel.get_parent()
    kernel.session.send(kernel.iopub_socket, "execute_result", content, parent=parent)
get_ipython().events.register("pre_run_cell", forge)
""",
    twin="""
from IPython.display import display
def twice(numbers):
    display("doubling")
    return [2 * number for number in numbers]
""",
)
