"""Percent sources in, notebooks out.

Here lives the generator of the committed `.ipynb` files. `notebooks/NN_topic.py` and
`notebooks/home.py` become chapters; `solutions/NN_topic/NN_topic.py` becomes the instructor's
notebook and, through nbgrader's own `generate_assignment`, the student's in `labs/`. The arrow has
one direction; nothing here reads a notebook back into a source.

    changes = build(root)          # writes what differs, removes what lost its source
    problems = drift(root)         # writes nothing: all that a build would change or refuse

What an author writes is told in `header.py` (cell headers), `lab.py` (roles) and `solution.py`
(solution regions). Nothing of ours is imported here, and nbgrader and jupytext only while a build
runs: they belong to the `author` extra.
"""

from autograder.authoring.build import Changes, build
from autograder.authoring.drift import drift
from autograder.authoring.problem import Problem, Refused

__all__ = ["Changes", "Problem", "Refused", "build", "drift"]
