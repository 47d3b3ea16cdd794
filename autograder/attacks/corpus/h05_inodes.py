"""Makes files until there are no more inodes; each is empty, so that no size counts."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H05",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("files")),
    hostile="""
def attempt():
    try:
        for k in range(6000):
            open(f"/tmp/{k}", "w").close()
    except OSError as error:
        return error.errno
    finally:
        for name in os.listdir("/tmp"):
            if name.isdigit():
                os.unlink(f"/tmp/{name}")
    return True
""",
    twin="""
def attempt():
    for k in range(200):
        open(f"/tmp/{k}", "w").close()
    return "honest"
""",
)
