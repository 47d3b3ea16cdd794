"""Ignores every signal that can be ignored, and never returns."""

import signal

from autograder.attacks.arenas.patience import Patience
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

attack = Attack(
    threat="H18",
    layer="D6",
    expected=("fail",),
    arena=Patience(twice, signal.SIGTERM, "twice([1])"),
    hostile="""
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
def twice(numbers):
    while True:
        time.sleep(0.01)
""",
    twin="""
import signal
signal.signal(signal.SIGTERM, lambda number, frame: None)
def twice(numbers):
    return [2 * number for number in numbers]
""",
)
