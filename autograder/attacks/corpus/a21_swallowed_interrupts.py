"""Never returns, and swallows the interrupt by which a notebook grader would end it."""

import signal

from autograder.attacks.arenas.patience import Patience
from autograder.attacks.attack import Attack
from autograder.attacks.questions import twice

attack = Attack(
    threat="A21",
    layer="D6",
    expected=("fail",),
    arena=Patience(twice, signal.SIGINT, "twice([1])"),
    hostile="""
import time
def twice(numbers):
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:
            pass
""",
    twin="""
def twice(numbers):
    answer = []
    while len(answer) < len(numbers):
        try:
            answer.append(2 * numbers[len(answer)])
        except IndexError:
            pass
    return answer
""",
)
