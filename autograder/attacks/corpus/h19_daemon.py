"""Leaves a process behind that has a session of its own and outlives its parent."""

from autograder.attacks.arenas.next_student import NextStudent
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H19",
    layer="D6",
    expected=("refused",),
    arena=NextStudent(missing("processes", "limits")),
    hostile="""
NAME = b"lingering"
def named():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            yield open(f"/proc/{pid}/comm", "rb").read().strip() == NAME
        except OSError:
            pass
def attempt():
    found = any(named())
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, NAME, 0, 0, 0)
            os.closerange(0, 64)
            time.sleep(20)
        os._exit(0)
    os.wait()
    time.sleep(0.2)
    return found
""",
    twin="""
def attempt():
    child = subprocess.run(["true"])
    return "honest" if child.returncode == 0 else None
""",
)
