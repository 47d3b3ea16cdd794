"""Lab 03, autograd: what is asked, what is true, what goes wrong.

One file per question, numbered as the page numbers them: importing them in this order is what
numbers the questions. Beside them the truths that several questions share. Every truth comes from
the installed torch (its graph, its gradients, its engine) or from a slow definition; none is a
pasted number.
"""

from . import (
    q01_walk_graph,
    q02_linear_backward,
    q03_cross_entropy_backward,
    q04_embedding_backward,
    q05_run_backward,
    q06_train_in_parts,
    q07_edit_outcome,
    q08_clip_in_hooks,
    q09_numeric_gradient,
    q10_raise_the_words,
)
from .about import lab

__all__ = [
    "lab",
    "q01_walk_graph",
    "q02_linear_backward",
    "q03_cross_entropy_backward",
    "q04_embedding_backward",
    "q05_run_backward",
    "q06_train_in_parts",
    "q07_edit_outcome",
    "q08_clip_in_hooks",
    "q09_numeric_gradient",
    "q10_raise_the_words",
]
