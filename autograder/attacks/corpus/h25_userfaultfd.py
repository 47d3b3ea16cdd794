"""Opens a descriptor that holds the kernel up wherever a page is missing."""

from autograder.attacks.arenas.kernel_needs import call_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing


def obstacle() -> str:
    return call_obstacle(323, 1)


attack = Attack(
    threat="H25",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    needs=obstacle,
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)

def attempt():
    return libc.syscall(323, 1) >= 0
""",
    twin="""
def attempt():
    import mmap
    with mmap.mmap(-1, 4096) as page:
        page[:6] = b"honest"
        return page[:6].decode()
""",
)
