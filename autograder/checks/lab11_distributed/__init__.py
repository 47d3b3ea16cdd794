"""Lab 11, many ranks: one file per question, named after it; the others hold truths that several
questions share.

Where the moment of sending is the lesson, the answer runs on real processes in a clean room, whose
harness records what crosses the group; the numbers are compared here with one process in float64.
Elsewhere the question is asked of one rank after the other, and this side plays the network between
them.
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab(
    "11_distributed", "Many ranks, one model", next_lines(), preloads=("torch._dynamo",)
)  # every rank of every call would import it anew

from . import bucket_order
from . import ddp_step
from . import every_word
from . import shard_rows
from . import fsdp_step
from . import parallel_head
from . import vocab_loss
from . import stage_order
from . import step_bytes
