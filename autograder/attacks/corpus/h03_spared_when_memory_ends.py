"""Takes back what makes it the first to go when memory ends: the grader would go instead."""

from autograder.attacks.arenas.kernel_needs import landlock_obstacle
from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H03",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("landlock")),
    needs=landlock_obstacle,
    hostile="""
def attempt():
    try:
        open("/proc/self/oom_score_adj", "w").write("0")
    except OSError as error:
        return error.errno
    return open("/proc/self/oom_score_adj").read().strip() == "0"
""",
    twin="""
def attempt():
    return "honest" if open("/proc/self/oom_score_adj").read() == "1000\\n" else None
""",
)
