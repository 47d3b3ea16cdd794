"""Sets up the kernel's old asynchronous input and output, which no lab needs."""

from autograder.attacks.arenas.kernel_needs import aio_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H25",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    needs=aio_obstacle,
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)
IO_SETUP = {"x86_64": 206}.get(os.uname().machine, 0)
def attempt():
    return libc.syscall(IO_SETUP, 1, ctypes.byref(ctypes.c_ulong(0))) == 0
""",
    twin="""
import asyncio
async def soon():
    await asyncio.sleep(0.01)
    return "honest"
def attempt():
    return asyncio.new_event_loop().run_until_complete(soon())
""",
)
