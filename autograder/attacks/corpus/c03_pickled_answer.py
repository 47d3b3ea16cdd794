"""Answers with a pickle that makes a folder where it is opened; it could do anything else."""

from pathlib import Path

from autograder.attacks.arenas.believed_wire import OnTheWire
from autograder.attacks.arenas.credulous import Seen
from autograder.attacks.attack import Attack


def fooled(seen: Seen, folder: Path) -> bool:
    return (folder / "opened").exists()


attack = Attack(
    threat="C03",
    layer="D2",
    expected=("unsendable",),
    arena=OnTheWire(fooled),
    hostile="""
import pickle
class Payload:
    def __reduce__(self):
        return os.mkdir, (os.path.join(PLACE, "opened"),)
def attempt(folder):
    global PLACE
    PLACE = folder
    data = pickle.dumps(Payload())
    header = {"nonce": "NONCE", "pickle": True, "tree": 1, "sizes": [len(data)]}
    forge(json.dumps(header), data)
    return 1  # the next answer is forged
""",
    twin="""
import pickle
def attempt(folder):
    return pickle.loads(pickle.dumps(1))
""",
)
