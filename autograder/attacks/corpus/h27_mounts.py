"""Mounts a file system over a folder that others read."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H27",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("privileges", "landlock", "seccomp")),
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)

def attempt():
    return libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
""",
    twin="""
def attempt():
    os.makedirs("/tmp/a/b")
    return "honest" if os.path.isdir("/tmp/a/b") else None
""",
)
