"""Lab 12, ship it: one file per question, named after it; the others hold what several share.

All that is judged here is a value: names, versions, runs, bounds, losses and gradients. Nothing is
taken from what happened where the student's code ran.
"""

from autograder.judge import Lab

lab = Lab("12_ship_it", "A kernel becomes software")

from . import wheel_fits
from . import pairs_covered
from . import tolerance
from . import next_version
from . import loss_options
from . import options_backward
from . import sharded_loss
from . import broken_release
