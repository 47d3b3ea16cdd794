"""Kills another submission, where the wall between processes has a hole: Landlock holds alone."""

from autograder.attacks.arenas.baits import a_neighbour
from autograder.attacks.arenas.kernel_needs import landlock_scope_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H23",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("processes", "landlock"), bait=a_neighbour, on=missing("processes")),
    needs=landlock_scope_obstacle,
    hostile="""
def attempt(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError as error:
        return error.errno
""",
    twin="""
def attempt(pid):
    child = os.fork()
    if child == 0:
        time.sleep(5)
        os._exit(0)
    os.kill(child, signal.SIGKILL)
    return "honest" if os.waitpid(child, 0)[1] == signal.SIGKILL else None
""",
)
