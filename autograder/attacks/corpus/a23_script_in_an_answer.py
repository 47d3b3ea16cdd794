"""Writes a script into a free answer, for the browser of whoever grades it."""

from autograder.attacks.arenas.shown_page import Page, page_obstacle
from autograder.attacks.attack import Attack

attack = Attack(
    threat="A23",
    layer="D10",
    expected=("disarmed",),
    arena=Page("stolen"),
    needs=page_obstacle,
    hostile="Because. <script>document.title = 'stolen'</script>",
    twin="Because 1 < 2, and 3 > 2 & so on; `<b>` is a tag.",
)
