"""Lab 01, strides: one file per question, named after it; the others hold what several questions
share.

Every truth comes from the installed torch (its strides, its `view`, its `gather`) or from a slow
definition; none is a pasted number.
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("01_strides", "Strides", next_lines())

from . import contiguous_strides
from . import address
from . import is_contiguous
from . import view_strides
from . import sliding_windows
from . import broadcast_strides
from . import overlaps
from . import copied_bytes
from . import gather_flat
from . import centre_windows
