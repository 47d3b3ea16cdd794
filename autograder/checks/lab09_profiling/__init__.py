"""Lab 09, profiling: one file per question, named after it; the others hold what several share.

A question that reads gives a trace that no machine made: a drawn training step (`draw_step.py`)
runs on a host and a device that are a model (`machine.py`), which writes the events that
torch.profiler writes. The model knows what happened, so the truth is never read from the trace. A
test compares the form of its traces with torch's own. A question that repairs takes the repair as
data, and runs it here (`played.py`).
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("09_profiling", "A trace that you can act on", next_lines())

from . import busy_us
from . import host_waits
from . import time_without_waits
from . import pageable_copies
from . import launches
from . import mended_loop
from . import tidy
from . import late_rank
from . import dealt_out
from . import self_times
