"""Sets up a ring through which the kernel takes orders that no filter sees."""

import ctypes

from autograder.attacks.arenas.kernel_needs import call_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

_PARAMETERS = ctypes.create_string_buffer(120)


def obstacle() -> str:
    return call_obstacle(425, 1, ctypes.addressof(_PARAMETERS))


attack = Attack(
    threat="H25",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    needs=obstacle,
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)
def attempt():
    parameters = ctypes.create_string_buffer(120)
    return libc.syscall(425, 1, parameters) >= 0
""",
    twin="""
import select
def attempt():
    reading, writing = os.pipe()
    os.write(writing, b"honest")
    return os.read(reading, 6).decode() if select.select([reading], [], [], 1)[0] else None
""",
)
