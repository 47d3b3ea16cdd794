"""Lab 06, an operator of one's own: one file per question, named after it; the others hold truths
and misreadings that several questions share.

No answer is asked in the process that ran the student's cells. C++ is text, and so is an admitted
cell of Python: `harness` builds and runs them in a clean room, on tensors that are drawn here, and
what comes back is compared here, with torch in float64. The known wrong answers are Python that
misreads memory as the C++ would, so that a diagnosis compiles nothing.
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("06_custom_op", "An operator of your own", next_lines(), preloads=("torch._dynamo",))

from . import cpu_head
from . import declare_head
from . import head_operator
from . import naive_head
from . import tiled_head
from . import fake_head
from . import teach_head
from . import clean_temper
from . import repair
