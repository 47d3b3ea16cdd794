"""Lab 12, ship it: one file per question, named after it; the others hold what several share.

All that is judged here is a value: names, versions, runs, bounds, losses and gradients; and a wheel
that is built of texts, and installed, where no Python of the student's ever ran (`wheel_room`).
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("12_ship_it", "A kernel becomes software", next_lines())

from . import wheel_fits
from . import pairs_covered
from . import tolerance
from . import next_version
from . import loss_options
from . import options_backward
from . import sharded_loss
from . import head_wheel
from . import broken_release
