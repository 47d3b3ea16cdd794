"""Starts sixty threads, and would go on."""

from autograder.attacks.arenas.reach import Reach
from autograder.attacks.attack import Attack
from autograder.attacks.ground import missing

attack = Attack(
    threat="H02",
    layer="D5",
    expected=("refused",),
    arena=Reach(missing("limits")),
    hostile="""
def attempt():
    done = threading.Event()
    try:
        for _ in range(60):
            threading.Thread(target=done.wait, args=(5,), daemon=True).start()
    except RuntimeError as error:
        return str(error)
    finally:
        done.set()
    return True
""",
    twin="""
def attempt():
    threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "honest"
""",
)
