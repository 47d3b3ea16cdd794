"""The head as a C++ kernel, for any strides."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from autograder.judge import Draw, Student

from . import lab
from .bench import BUILD_S, explained, needs_compiler, room_for
from .heads import (
    OF_LOOPS,
    READINGS,
    as_if_contiguous,
    as_if_transposed,
    cases,
    columns_written,
    expect_logits,
    head,
    list_readings,
)

_RAISED = {
    "IndexError": "Your kernel wrote outside of y, whose N * V elements lie one after the other.",
}


@lab.question(
    "cpu_head",
    points=4,
    minutes=10,
    difficulty=2,
    hints=(
        "Three loops: over n, over v, and inside them over d. Which of them has the sum, and where "
        "does the sum begin?",
        "The element x[n, d] is x[n * x_n + d * x_d]; nothing else in C++ knows about strides. The "
        "sum begins with the bias, and is written once: y is full of NaN, so do not add to it.",
        "sum += x[n * x_n + d * x_d] * w[v * w_v + d * w_d];",
    ),
    function="run_cpp",
    budget_s=BUILD_S,
    host="Its C++ reads the memory of the CPU.",
)
def cpu_head(student: Student, draw: Draw) -> None:
    """The head in C++: y[n, v] = b[v] + sum over d of x[n, d] * w[v, d], any strides, any N.

    Text with an extern "C" function cpu_head; x (N, D), w (V, D), b (V,) -> y (N, V), contiguous.
    """
    needs_compiler()
    with room_for(student, "cpu_head") as room:
        for x, w, b in cases(draw, roomy=True):
            with explained(_RAISED):
                y = room.call("run_cpp", "cpu_head", x, w, b)
            expect_logits(y, x, w, b)


@cpu_head.wrong(
    "strides_ignored",
    "Right where the rows lie one after the other, wrong where they do not: x[n * D + d] assumes a "
    "contiguous tensor. The strides say where an element is.",
)
def _(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return head(as_if_contiguous(x), as_if_contiguous(w), as_if_contiguous(b))


cpu_head.wrong(
    "weight_transposed",
    "w was read as (D, V). nn.Linear keeps its weight as (out, in): a row for each word.",
    run_cpp=lambda name, x, w, b: head(x, as_if_transposed(w), b),
)
cpu_head.wrong(
    "bias_in_every_term",
    "The bias was added D times: it belongs to the sum, not into the loop over d.",
    run_cpp=lambda name, x, w, b: head(x, w, b * w.shape[1]),
)
cpu_head.wrong(
    "added_to_what_was_there",
    "All of y is NaN. New memory holds anything: begin each sum in a variable of your own, and "
    "write it once.",
    run_cpp=lambda name, x, w, b: torch.full_like(head(x, w, b), math.nan),
)
cpu_head.wrong(
    "written_by_columns",
    "The right numbers stand in the wrong places: y[n, v] is at n * V + v, not at v * N + n.",
    run_cpp=lambda name, x, w, b: columns_written(head(x, w, b)),
)
list_readings(cpu_head, "run_cpp", READINGS | OF_LOOPS)
cpu_head.wrong(
    "by_a_library",
    "This kernel is to be yours from the first load to the last store: no library in it.",
    run_cpp=lambda name, x, w, b: head(x, w, b),
    cpu_head=lambda: 'extern "C" void cpu_head(...) { at::linear_out(y, x, w, b); }',
)


@cpu_head.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 32, 600, 64
    x, w, b = draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)
    with room_for(student, "cpu_head") as room:
        y = room.call("run_cpp", "cpu_head", x, w, b)
    moved = sum(t.nbytes for t in (x, w, b, y))
    return (
        f"the head at batch {n}: {2 * n * v * d:,} FLOP over {moved:,} bytes, and loops that keep "
        f"each sum in a register ask for {4 * (2 * d + 1) * n * v:,}: the cache answers for the "
        "rest"
    )
