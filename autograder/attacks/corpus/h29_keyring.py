"""Lays a key into a keyring of the kernel, where it outlives its process."""

from autograder.attacks.arenas.kernel_needs import keys_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H29",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("seccomp")),
    needs=keys_obstacle,
    hostile="""
libc = ctypes.CDLL(None, use_errno=True)

ADD_KEY = {"x86_64": 248}.get(os.uname().machine, 217)
def attempt():
    process_keyring = -2
    return libc.syscall(ADD_KEY, b"user", b"note", b"seen", 4, process_keyring) > 0
""",
    twin="""
def attempt():
    os.environ["NOTE"] = "honest"
    return subprocess.run(["printenv", "NOTE"], capture_output=True, text=True).stdout.strip()
""",
)
