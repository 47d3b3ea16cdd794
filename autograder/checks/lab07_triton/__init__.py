"""Lab 07, Triton: one file per question, named after it; the others hold what several share.

A kernel is text. The student's process only says it; what it computes is found here, by a reader
of the few words that such a kernel consists of (`admitted.py`, `programs.py`): no line of a
student's is run by Python, so nothing rests on what a student's process says. The reader also sees
what Triton's own interpreter lets pass: loads and stores outside of a tensor, lanes that a mask
left without a value, and two programs that meet in one element.
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("07_triton", "Kernels in Triton", next_lines())

from . import softmax_kernel
from . import linear_kernel
from . import running_lse
from . import fused_loss_kernel
from . import fused_backward_kernel
from . import fused_bytes
from . import roofline_time
from . import sectors
from . import occupancy
from . import broken_kernel
from . import read_ptx
