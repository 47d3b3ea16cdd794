"""Writes a link that runs a script when followed, and an image that runs one when it fails."""

from autograder.attacks.arenas.shown_page import Page, page_obstacle
from autograder.attacks.attack import Attack

attack = Attack(
    threat="A23",
    layer="D10",
    expected=("disarmed",),
    arena=Page("stolen"),
    needs=page_obstacle,
    hostile='[source](javascript:stolen()) <img src=x onerror="stolen()">',
    twin="See [the source](https://pytorch.org) and $x < y$.",
)
