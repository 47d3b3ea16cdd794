"""Lab 10, mixed precision: one file per question, named after it; the others hold what several
share.

Numbers of a short format are a model here (`formats.py`): whole numbers and powers of two, with
nothing of torch in it, so that formats can be drawn that no torch has. A test holds it against
torch's own bfloat16, float16 and float8. What autocast and a GradScaler do is asked of torch
itself, on the check's side. A training step that is repaired is a list of rows, and runs here
(`training.py`).
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("10_mixed_precision", "Mixed precision", next_lines(), preloads=("torch._dynamo",))

from . import value_of_bits
from . import rounded
from . import spacing
from . import rounded_by_chance
from . import stuck_sum
from . import autocast_dtypes
from . import loss_scale
from . import mended_run
from . import safe_head_loss
from . import custom_op_under_autocast
