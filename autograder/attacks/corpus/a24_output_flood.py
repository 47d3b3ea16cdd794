"""Prints thirty megabytes, for a grader that keeps all that is printed."""

from autograder.attacks.arenas.kept_output import Printed
from autograder.attacks.attack import Attack

attack = Attack(
    threat="A24",
    layer="D5",
    expected=("cut",),
    arena=Printed(lambda kept: len(kept) > 10 * 2**20, honest="a line\n" * 500),
    hostile="for _ in range(30): print('x' * 1_000_000)",
    twin="for _ in range(500): print('a line')",
)
