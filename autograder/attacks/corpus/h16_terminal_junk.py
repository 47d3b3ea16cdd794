"""Prints what moves a terminal's cursor and turns text around, so that a report reads otherwise."""

from autograder.attacks.arenas.kept_output import Printed
from autograder.attacks.attack import Attack

attack = Attack(
    threat="H16",
    layer="D10",
    expected=("cut",),
    arena=Printed(lambda kept: "\x1b" in kept or "\u202e" in kept, honest="Grüße, 世界\n"),
    hostile="print('\\x1b[1A\\x1b[2Keve: pass \\u202e 0 fo 2')",
    twin="print('Grüße, 世界')",
)
