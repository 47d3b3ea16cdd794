"""Lab 04, contracts: one file per question, named after it; the others hold truths that several
questions share.

Where the lesson is what to save, a question takes the two halves of a Function: the first says what
it saves, this side counts the bytes, and the second gets that and nothing else. Every truth comes
from the installed torch (its gradients, its nodes, its generator) or from a slow definition.
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("04_contracts", "Contracts", next_lines())

from . import linear_fn
from . import head_loss
from . import cap_in_place
from . import linear_double_backward
from . import loss_curvature
from . import checkpoint_block
from . import schedule_cost
from . import best_schedule
