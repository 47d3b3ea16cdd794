"""Detective case: a batch in parts, and the step of the whole."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student

from . import lab
from .head_gradients import Batch, Pair, whole_batches
from .several_tensors import expect_each

_STEP = (
    "Each batch makes one step: lr times the gradient of the mean over all its rows, taken away. "
    "It begins where the step before it ended."
)


@lab.question(
    "train_in_parts",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "Print w.grad right before each step. What is in it that should not be? And what is "
        "missing when parts have 2 and 6 rows?",
        "Two faults. Nobody empties .grad between two steps. And each part's loss is a mean over "
        "its own rows, so the sum over the parts is no mean over the batch: weigh each part by its "
        "share of the rows.",
        "loss = F.cross_entropy(F.linear(x, w, b), target) * len(x) / total",
    ),
)
def train_in_parts(student: Student, draw: Draw) -> None:
    """Detective case: one SGD step per batch, the batch in parts that fit into memory. The code
    below looks right; make its steps those of the whole batches.

    w (V, D), b (V,), batches: lists of parts (x (n, D), target (n,)) of any n, lr -> (w, b) after
    all steps; the arguments stay as they are.
    """
    drawn = [(_drawn_sizes(draw), 0.5) for _ in draw.cases(2)]
    for sizes, lr in [([[2, 6], [3, 4, 2]], 0.5), *drawn, ([[1], [4, 1, 2], [3, 3], [5]], 0.1)]:
        v, d = draw.integer(3, 9), draw.integer(2, 6)
        w, b = draw.tensor(v, d), draw.tensor(v)
        batches = [
            [(draw.tensor(n, d), draw.integers(n, low=0, high=v - 1)) for n in parts]
            for parts in sizes
        ]
        got = student.call("train_in_parts", w, b, batches, lr)
        with saying(_STEP):
            expect_each(got, whole_batches(w, b, batches, lr), "w b")


def _drawn_sizes(draw: Draw) -> list[list[int]]:
    return [
        [draw.integer(1, 6) for _ in range(draw.integer(1, 3))] for _ in range(draw.integer(2, 3))
    ]


def _in_parts(
    w: Tensor, b: Tensor, batches: list[Batch], lr: float, *, zero: str, weigh: str
) -> Pair:
    """The loop of the case, with `zero` ("batch", "part", "never") and `weigh` as asked."""
    params = [t.detach().clone().requires_grad_() for t in (w, b)]
    for batch in batches:
        total, so_far = sum(len(x) for x, _ in batch), 0
        if zero == "batch":
            _empty(params)
        for k, (x, target) in enumerate(batch):
            if zero == "part":
                _empty(params)
            so_far += len(x)
            share = {
                "rows so far": len(x) / so_far,
                "rows": len(x) / total,
                "parts": 1 / len(batch),
                "rows twice": 1 / total,
                "rows over parts": len(x) / len(batch),
                "halves": 0.5 ** min(len(batch) - 1, len(batch) - k),
                "sum": float(len(x)),
                "none": 1.0,
            }[weigh]
            (F.cross_entropy(F.linear(x, *params), target) * share).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for p in params:
                p -= lr * (0.0 if p.grad is None else p.grad)
    return params[0].detach(), params[1].detach()


def _empty(params: list[Tensor]) -> None:
    for p in params:
        p.grad = None


@train_in_parts.wrong(
    "as_found",
    "This is what the code as found computes. Each step still holds the gradients of the batches "
    "before, and the parts' means are added as if they were one mean.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="never", weigh="none")


@train_in_parts.wrong(
    "never_emptied",
    "The parts are weighed right. But each step takes the gradients of the batches before once "
    "more. Nothing of them may be left after it, in .grad or in a sum of your own.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="never", weigh="rows")


@train_in_parts.wrong(
    "sum_of_means",
    "Each step takes the gradients of its own batch alone. But each part's loss is a mean over its "
    "own rows, and a sum of means is no mean.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="none")


@train_in_parts.wrong(
    "mean_of_means",
    "All parts of a batch weigh alike here, as if each loss were divided by the number of parts. "
    "A part of 2 rows and one of 6 do not weigh the same.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="parts")


@train_in_parts.wrong(
    "half_for_the_last_part",
    "The last of several parts has half of the weight, the one before it a quarter, and so on, as "
    "by `(so_far + new) / 2`. A part weighs as much as its rows: len(x) / total.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="halves")


@train_in_parts.wrong(
    "emptied_between_parts",
    "Only the last part of each batch counts. Each part needs a backward of its own, and .grad "
    "has to accumulate: it is not emptied between them.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="part", weigh="rows")


@train_in_parts.wrong(
    "summed_over_rows",
    "The sum over the rows is in .grad, not the mean: divide by the number of rows in the whole "
    "batch.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="sum")


@train_in_parts.wrong(
    "rows_over_parts",
    "The rows of a part were divided by the number of parts. len(batch) counts the parts; the "
    "rows of the batch are the sum of their lengths.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="rows over parts")


@train_in_parts.wrong(
    "a_step_for_each_part",
    "The parameters moved after every part. One step for each batch: the step stands behind the "
    "inner loop, when all parts have accumulated.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    for batch in batches:
        total = sum(len(x) for x, _ in batch)
        for x, target in batch:
            w, b = whole_batches(w, b, [[(x, target)]], lr * len(x) / total)
    return w, b


@train_in_parts.wrong(
    "emptied_before_the_first",
    "Before the first backward `.grad` is None: there is nothing to call zero_() on. Set "
    "`w.grad = None`, or empty it after the step.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    leaf = w.clone().requires_grad_()
    leaf.grad.zero_()  # type: ignore[union-attr]
    return leaf, b


@train_in_parts.wrong(
    "parameters_replaced",
    "The loss of a batch has no graph, as after `w = w - lr * w.grad` under no_grad: that makes a "
    "new tensor, and it requires no gradient. Write into the leaf: `w -= lr * w.grad`.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    params = [t.clone().requires_grad_() for t in (w, b)]
    for batch in batches:
        total = sum(len(x) for x, _ in batch)
        for x, target in batch:
            (F.cross_entropy(F.linear(x, *params), target) * len(x) / total).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            params = [p - lr * p.grad for p in params]  # type: ignore[operator]
    return params[0], params[1]


@train_in_parts.wrong(
    "step_recorded",
    "Outside of no_grad torch refuses to write into a leaf that requires a gradient. The step is "
    "no part of the model: put `with torch.no_grad():` around it.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    leaf = w.clone().requires_grad_()
    leaf -= lr * leaf
    return leaf, b


@train_in_parts.wrong(
    "bias_never_emptied",
    "The bias's steps take the gradients of the batches before once more, and the weight's do "
    "not. Nothing of them may be left after a step, for either.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    params = [t.detach().clone().requires_grad_() for t in (w, b)]
    for batch in batches:
        params[0].grad = None
        total = sum(len(x) for x, _ in batch)
        for x, target in batch:
            (F.cross_entropy(F.linear(x, *params), target) * len(x) / total).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for p in params:
                p -= lr * p.grad  # type: ignore[operator]
    return params[0].detach(), params[1].detach()


@train_in_parts.wrong(
    "rows_of_all_batches",
    "Each batch was divided by the rows of all batches. A step is on the mean over the rows of its "
    "own batch.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    total = sum(len(x) for batch in batches for x, _ in batch)
    for batch in batches:
        share = sum(len(x) for x, _ in batch) / total
        w, b = whole_batches(w, b, [batch], lr * share)
    return w, b


@train_in_parts.wrong(
    "rows_of_the_last_part",
    "The sum was divided by the rows of the batch's last part: behind the inner loop, len(x) is "
    "that part's. Divide by the rows of all parts.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    for batch in batches:
        total = sum(len(x) for x, _ in batch)
        w, b = whole_batches(w, b, [batch], lr * total / len(batch[-1][0]))
    return w, b


@train_in_parts.wrong(
    "first_part_times_parts",
    "The rows of the batch were taken for those of its first part, times the parts. Parts may "
    "differ in length: add up their rows.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    for batch in batches:
        rows = sum(len(x) for x, _ in batch)
        w, b = whole_batches(w, b, [batch], lr * rows / (len(batch[0][0]) * len(batch)))
    return w, b


@train_in_parts.wrong(
    "divided_by_the_parts_too",
    "The weight's step is divided by the number of parts as well. The parts' shares of the rows "
    "are all the weighing that is needed.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    for batch in batches:
        moved, b_moved = whole_batches(w, b, [batch], lr)
        w, b = w + (moved - w) / len(batch), b_moved
    return w, b


@train_in_parts.wrong(
    "first_batch_only",
    "Only the first batch has made a step. There is one for each batch.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return whole_batches(w, b, batches[:1], lr)


@train_in_parts.wrong(
    "bias_stands_still",
    "The weight made its steps, the bias did not. It is a parameter as well.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    for batch in batches:
        w = whole_batches(w, b, [batch], lr)[0]
    return w, b


@train_in_parts.wrong(
    "uphill",
    "The steps go up: the gradient points to where the loss grows. Take it away.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return whole_batches(w, b, batches, -lr)


@train_in_parts.wrong(
    "rows_so_far",
    "Each part was divided by the rows that had come so far, so the first ones weigh too much. "
    "Count the rows of the whole batch before its first part.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="rows so far")


@train_in_parts.wrong(
    "mean_of_means_never_emptied",
    "Two faults: dividing by the number of parts is right only when all are equally long, and "
    "each step takes the gradients of the batches before once more.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="never", weigh="parts")


@train_in_parts.wrong(
    "last_part_unweighed",
    "Only the last part of each batch counts, as if it were the whole. Each part needs a "
    "backward of its own, and .grad has to accumulate: it is not emptied between them.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="part", weigh="none")


@train_in_parts.wrong(
    "each_part_a_batch",
    "The parameters moved after every part, as if each were a batch. The step stands behind the "
    "inner loop, when all parts have accumulated.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return whole_batches(w, b, [[part] for batch in batches for part in batch], lr)


@train_in_parts.wrong(
    "rows_of_the_first_batch",
    "Each batch was divided by the rows of the first one. Batches may differ in length: count the "
    "rows of each.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    first = sum(len(x) for x, _ in batches[0])
    for batch in batches:
        w, b = whole_batches(w, b, [batch], lr * sum(len(x) for x, _ in batch) / first)
    return w, b


@train_in_parts.wrong(
    "rows_divided_twice",
    "Each part's loss is a mean over its rows already, and was divided by the rows of the batch "
    "on top of that. Its share is len(x) / total.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return _in_parts(w, b, batches, lr, zero="batch", weigh="rows twice")


@train_in_parts.wrong(
    "first_part_only",
    "Only the first part of each batch was used. All its parts accumulate before the step.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    firsts = [[(batch[0], sum(len(x) for x, _ in batch))] for batch in batches]
    for (((x, target), rows),) in firsts:
        w, b = whole_batches(w, b, [[(x, target)]], lr * len(x) / rows)
    return w, b


@train_in_parts.wrong(
    "one_step_for_all_batches",
    "There is one step for all batches together, at the end. Each batch makes one, and the next "
    "one starts from there.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    moved = [whole_batches(w, b, [batch], lr) for batch in batches]
    return w + sum(m - w for m, _ in moved), b + sum(m - b for _, m in moved)


@train_in_parts.wrong(
    "learning_rate_forgotten",
    "The whole gradient was taken away. How far to walk along it is what lr says.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return whole_batches(w, b, batches, 1.0)


@train_in_parts.wrong(
    "bias_not_returned",
    "Only the weight was returned. (w, b) was asked for.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Tensor:
    return whole_batches(w, b, batches, lr)[0]


@train_in_parts.wrong(
    "gradients_returned",
    "These are the gradients of the last batch. The parameters after all steps were asked for.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    before = whole_batches(w, b, batches[:-1], lr)
    after = whole_batches(*before, batches[-1:], lr)
    return (before[0] - after[0]) / lr, (before[1] - after[1]) / lr


@train_in_parts.wrong(
    "momentum",
    "A step reaches further than its own gradient: it carries the ones before along. Plain SGD "
    "knows no momentum.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    carried = [torch.zeros_like(w), torch.zeros_like(b)]
    for batch in batches:
        moved = whole_batches(w, b, [batch], lr)
        carried = [0.9 * c + (p - m) for c, p, m in zip(carried, (w, b), moved, strict=True)]
        w, b = w - carried[0], b - carried[1]
    return w, b


@train_in_parts.wrong(
    "arguments_stepped_on",
    "The w and b that were passed in have changed. Clone them first, as the stub does, and step "
    "on the clones.",
)
def _(w: Tensor, b: Tensor, batches: list[Batch], lr: float) -> Pair:
    return w.requires_grad_(), b.requires_grad_()


@train_in_parts.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64), draw.tensor(600)
    parts = [(draw.tensor(8, 64), draw.integers(8, low=0, high=599)) for _ in range(4)]
    student.call("train_in_parts", w, b, [parts], 0.1)
    whole, part = 32 * 600 * 4, 8 * 600 * 4
    return f"four parts: logits of {part:,} bytes at a time; in one piece: {whole:,}; the same step"
