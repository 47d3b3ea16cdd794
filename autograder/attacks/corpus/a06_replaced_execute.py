"""Replaces the kernel's own `do_execute`: from then on every cell is answered with "ok"."""

from autograder.attacks.arenas.jupyter_kernel import InKernel, kernel_obstacle
from autograder.attacks.attack import Attack
from autograder.attacks.questions import TWICE_CELL, twice

attack = Attack(
    threat="A06",
    layer="D1",
    expected=("fail",),
    arena=InKernel(twice, TWICE_CELL),
    needs=kernel_obstacle,
    hostile="""
from IPython import get_ipython
def twice(numbers):
    return numbers
async def do_execute(*arguments, **named):
    return {"status": "ok", "execution_count": 0, "payload": [], "user_expressions": {}}
get_ipython().kernel.do_execute = do_execute
""",
    twin="""
import asyncio
async def one(number):
    await asyncio.sleep(0)
    return 2 * number
def twice(numbers):
    loop = asyncio.new_event_loop()
    return [loop.run_until_complete(one(number)) for number in numbers]
""",
)
