"""Lab 06, an operator of one's own: one file per question, named after it; the others hold truths
and misreadings that several questions share.

An answer in C++ is text. The lab's bench, cells that are ours, compiles it beside the student's
code and runs it on tensors that are drawn here; what comes back is compared here, with torch in
float64. Faults of a kernel, loads from memory and what opcheck says are told by that process:
those questions are `witnessed`. The known wrong answers are Python that misreads memory as the C++
would, so that a diagnosis compiles nothing.
"""

from autograder.judge import Lab

lab = Lab("06_custom_op", "An operator of your own")

from . import cpu_head
from . import declare_head
from . import head_operator
from . import naive_head
from . import tiled_head
from . import fake_head
from . import teach_head
from . import clean_temper
from . import repair
