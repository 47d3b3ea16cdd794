"""Lab 08, compile: one file per question, named after it; the others hold what several questions
need: drawn programs, graphs as plain data, and Inductor's files.

Every truth comes from the installed torch: what its Dynamo, its partitioner and its Inductor do
with the drawn program on our side of the wire.
"""

from autograder.checks.next_lines import next_lines
from autograder.judge import Lab

lab = Lab("08_compile", "Compile", next_lines(), preloads=("torch._dynamo",))

from . import given_to_backend
from . import where_it_breaks
from . import one_graph
from . import which_calls_compile
from . import bias_into_product
from . import merge_twins
from . import what_is_saved
from . import opaque_step
from . import read_wrapper
from . import bytes_moved
