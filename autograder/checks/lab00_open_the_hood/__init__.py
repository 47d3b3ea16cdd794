"""Lab 00, open the hood: one file per question, named after it; the others hold truths that several
questions share.

Parameters, bytes and FLOPs are counted on torch's own layer, on the meta device; devices are asked
of torch's fake tensors, which follow a GPU's rules without a GPU.
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("00_open_the_hood", "Open the hood", next_lines(), preloads=("torch._dynamo",))

from . import head_parameters
from . import next_word
from . import head_bytes
from . import head_flops
from . import flops_per_byte
from . import loss_by_hand
from . import device_of_sum
from . import batch_to
