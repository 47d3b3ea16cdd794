"""Traces another process with `ptrace`, here a child of its own: the call itself is refused."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H23",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)

def attempt():
    child = os.fork()
    if child == 0:
        time.sleep(5)
        os._exit(0)
    attach, detach = 16, 17
    traced = libc.ptrace(attach, child, 0, 0) == 0
    if traced:
        os.waitpid(child, 0)
        libc.ptrace(detach, child, 0, 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return traced
""",
    twin="""
def attempt():
    child = os.fork()
    if child == 0:
        os._exit(7)
    return "honest" if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7 else None
""",
)
