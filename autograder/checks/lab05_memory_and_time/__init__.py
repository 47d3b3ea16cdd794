"""Lab 05, memory and time: one file per question, named after it; the others hold truths that
several questions share.

No question needs a GPU. What the allocator does is asked of allocator_model.py, of which a
test shows that it is torch's own allocator block for block; what a step holds is measured of torch
itself.
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("05_memory_and_time", "Memory and time", next_lines(), preloads=("torch._dynamo",))

from . import block_bytes
from . import replay
from . import how_served
from . import recorded_streams
from . import bytes_held
from . import plan_that_fits
from . import queue_times
from . import waiting_lines
from . import overlap_plan
from . import honest_timing
