"""Starts forty processes, and would go on."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H01",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("limits")),
    hostile="""
def attempt():
    children = []
    try:
        for _ in range(40):
            child = os.fork()
            if child == 0:
                time.sleep(5)
                os._exit(0)
            children.append(child)
    except OSError as error:
        return error.errno
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
    return True
""",
    twin="""
def attempt():
    children = [os.fork() for _ in range(1)]
    if children == [0]:
        os._exit(0)
    os.waitpid(children[0], 0)
    return "honest"
""",
)
