"""A checkpoint by hand, dropout and all."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import onelayer
from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_close, expect_tensors, within

from . import lab
from .answers import Answers, expect_answers, expect_named, parts
from .dropout_block import (
    Given,
    Saved,
    block,
    checkpointed,
    first_draws,
    recomputed,
    torchs_block,
)
from .faulty_checkpoint import (
    another_mask,
    another_mask_and_back,
    answering,
    back_to_the_seed,
    back_to_then,
    copying,
    from_its_own_seed,
    from_the_seed,
    from_the_side,
    keeping_inside,
    keeping_mask,
    keeping_more,
    keeping_the_graph,
    left_in_the_past,
    on_from_its_own_seed,
    rewinding,
    run_twice,
    seed_kept,
    seeding,
    state_aside,
    state_too_late,
    stateless,
    through_the_graph,
    unrecorded,
    weights_swapped,
    without_dropout,
    without_dy,
)
from .two_halves import expect_few_bytes, handed_on, new_bytes

_GRADIENTS = (
    "The gradients are not those of the y that forward returned. The second run is `block` itself "
    "on the same x, w1 and w2, with the mask of the first, and dy goes back through it."
)

_FORMS = "Each of the three has a gradient, in this order and in its shape: (dx, dw1, dw2)."


@lab.question(
    "checkpoint_block",
    points=5,
    minutes=15,
    difficulty=4,
    hints=(
        "When does the generator have to be read so that a second run draws the same numbers? And "
        "in backward: where was it before you set it, and who wants it there again?",
        "forward: read the state, then run the block; save x, w1, w2 and the state. "
        "backward: note the state of now, set the saved one, run the block on fresh leaves under "
        "torch.enable_grad(), set the state of now again, then torch.autograd.grad(y, leaves, dy).",
        "now = torch.get_rng_state(); torch.set_rng_state(then)",
    ),
    host="It keeps the state of the CPU's generator.",
)
def checkpoint_block(student: Student, draw: Draw) -> None:
    """A checkpoint by hand: the block's inside is computed again, with the same dropout, and the
    global generator is left as an unchecked run leaves it.

    checkpoint_forward: x (N, D), w1 (H, D), w2 (D, H), seed -> (y (N, D), list of tensors to save,
    the next two numbers of the generator). checkpoint_backward: that list, dy (N, D), another seed
    -> ((dx, dw1, dw2), the next two numbers).
    """
    with student.afresh() as other:  # which has seen no forward
        for dtype in [*(torch.float32 for _ in draw.cases(2)), torch.float64]:
            asked = [_drawn_block(draw, dtype) for _ in range(2)]
            kept = [_ask_checkpoint(student, *drawn) for drawn in asked]
            for (given, seed), saved in zip(asked, kept, strict=True):
                dy, later = draw.tensor(*given[0].shape, dtype=dtype), seed + 1
                answer = other.call("checkpoint_backward", saved, dy, later)
                grads, after = parts(answer, "gradients, what the next one draws")
                _, _, want = torchs_block(given, seed, dy)
                with saying(_rule(grads, want)):
                    expect_answers(grads, want, "dx dw1 dw2")
                _expect_draws(after, first_draws(later), "after backward")


def _rule(grads: Any, want: Answers) -> str:
    shapes = [getattr(g, "shape", None) for g in grads] if isinstance(grads, (list, tuple)) else []
    return _GRADIENTS if shapes == [getattr(g, "shape", None) for g in want] else _FORMS


def _drawn_block(draw: Draw, dtype: torch.dtype) -> tuple[Given, int]:
    """More hidden numbers than a generator's state has bytes, so that no mask fits in its place. In
    float64 x is transposed: `contiguous` would copy it. A row of x is 0, and one of w1, and so is
    what gelu makes of them: a 0 behind the dropout need not have been dropped."""
    n, d, h = draw.integer(48, 64), draw.integer(8, 16), draw.integer(144, 160)
    layout = "transposed" if dtype is torch.float64 else "contiguous"
    x = draw.tensor(n, d, dtype=dtype, layout=layout)
    given = x, draw.tensor(h, d, dtype=dtype), draw.tensor(d, h, dtype=dtype)
    given[0][3] = given[1][5] = 0.0
    return given, draw.integer(0, 2**31)


def _ask_checkpoint(student: Student, given: Given, seed: int) -> Saved:
    answer = student.call("checkpoint_forward", *given, seed)
    y, kept, after = parts(answer, "y, saved, what the next one draws")
    want, draws, _ = torchs_block(given, seed, torch.zeros_like(given[0]))
    why = "y is not what `block` gives here. Run it once, with the generator as you found it."
    expect_named("y", y, want, why=why)
    _expect_draws(after, draws, "after forward")
    saved = expect_tensors(kept, "a list of tensors to save")
    why = "Too much was saved: beside the inputs a checkpoint keeps one state of the generator."
    expect_few_bytes(saved, given, torch.get_rng_state().nbytes + 64, why)
    return handed_on(saved, given)


def _expect_draws(got: Any, want: Tensor, when: str) -> None:
    why = "The generator is not where a run without a checkpoint leaves it."
    with within(f"in what the next one draws {when}", why=why):
        expect_close(got, want, tolerance=0.0)


checkpoint_block.otherwise(checkpoint_forward=checkpointed, checkpoint_backward=recomputed)
checkpoint_block.wrong(
    "inside_kept",
    "The inside of the block was saved, so nothing was won: a checkpoint keeps the inputs and runs "
    "the block again.",
    checkpoint_forward=keeping_inside,
)
checkpoint_block.wrong(
    "mask_kept",
    "The mask was saved: one byte for each hidden number. The state of the generator is smaller, "
    "and does not grow with the batch.",
    checkpoint_forward=keeping_mask,
)
checkpoint_block.wrong(
    "state_too_late",
    "The state was read after the block had drawn its mask: the second run draws the numbers that "
    "follow. Read it first.",
    checkpoint_forward=state_too_late,
)
checkpoint_block.wrong(
    "rewound_after_forward",
    "forward set the generator back to where it began, so the next layer draws the numbers that "
    "this block has used. Read the state in forward; set it in backward.",
    checkpoint_forward=rewinding,
)
checkpoint_block.wrong(
    "another_mask",
    "The second run drew another mask: these are the gradients of a forward that never was. Set "
    "the saved state before you run the block again.",
    checkpoint_backward=another_mask,
)
checkpoint_block.wrong(
    "left_in_the_past",
    "The gradients are right, but backward left the generator in the past: the next dropout draws "
    "old numbers once more. Note the state on entry and set it again.",
    checkpoint_backward=left_in_the_past,
)
checkpoint_block.wrong(
    "without_dropout",
    "The second run had no dropout. It must be the same function as the first, mask and all.",
    checkpoint_backward=without_dropout,
)
checkpoint_block.wrong(
    "unrecorded",
    "What you differentiate has no graph. The block has to run on leaves that require a gradient, "
    "and where torch records: inside a Function it does not, so `with torch.enable_grad():` "
    "belongs around the block, and around whatever you make of its y.",
    checkpoint_backward=unrecorded,
)
checkpoint_block.wrong(
    "no_state",
    "No state was saved, so the second run draws another mask: these are the gradients of a "
    "forward that never was. Save torch.get_rng_state() as it is before the block runs.",
    checkpoint_forward=stateless,
    checkpoint_backward=another_mask,
)
checkpoint_block.wrong(
    "seed_saved",
    "The seed was saved in place of the state. Others have drawn since it was set, so it does not "
    "say where the block began: torch.get_rng_state() does.",
    checkpoint_forward=seed_kept,
    checkpoint_backward=from_the_seed,
)
checkpoint_block.wrong(
    "back_to_then",
    "After backward the generator is where it was before forward, at the saved state. Whoever "
    "draws next wants the one that backward found: note it on entry, and set it again.",
    checkpoint_backward=back_to_then,
)
checkpoint_block.wrong(
    "back_to_the_seed",
    "backward set the seed again. But others have drawn since it was set, and a net has no seed "
    "for each layer: note the state on entry, and set that.",
    checkpoint_backward=back_to_the_seed,
)
checkpoint_block.wrong(
    "dy_ignored",
    "dy was not used: these are the gradients of y.sum(). What arrives at the block goes into the "
    "second run's backward: torch.autograd.grad(y, leaves, dy).",
    checkpoint_backward=without_dy,
)
checkpoint_block.wrong(
    "graph_kept",
    "y was saved with its graph, for backward to go through. That graph holds all of the inside, "
    "and does not reach the second half: tensors do, histories do not. Run the block again.",
    checkpoint_forward=keeping_the_graph,
    checkpoint_backward=through_the_graph,
)


checkpoint_block.wrong(
    "another_mask_and_back",
    "Backward left the generator as it was, and that is right. But the second run drew another "
    "mask. Set the saved state before you run the block, and the present one after it.",
    checkpoint_backward=another_mask_and_back,
)
checkpoint_block.wrong(
    "no_state_and_back",
    "Backward left the generator as it was, but no state was saved, so the second run drew another "
    "mask. Save torch.get_rng_state() as it is before the block runs.",
    checkpoint_forward=stateless,
    checkpoint_backward=another_mask_and_back,
)
for _name, _first in (("own_seed", checkpointed), ("own_seed_and_no_state", stateless)):
    checkpoint_block.wrong(
        _name,
        "The second run began at a seed that backward was given. It is not the one of forward, and "
        "others had drawn since: only the saved state says where the block began.",
        checkpoint_forward=_first,
        checkpoint_backward=from_its_own_seed,
    )
for _name, _first in (("own_seed_left", checkpointed), ("own_seed_left_and_no_state", stateless)):
    checkpoint_block.wrong(
        _name,
        "The second run began at a seed that backward was given, and the generator went on from "
        "there. Only the saved state says where the block began; the present one is set again "
        "after it.",
        checkpoint_forward=_first,
        checkpoint_backward=on_from_its_own_seed,
    )
checkpoint_block.wrong(
    "state_on_the_side",
    "Backward used the state that the last forward left behind, not one that was saved. Two blocks "
    "may run before the first backward: all that a call needs travels in its own list.",
    checkpoint_forward=state_aside,
    checkpoint_backward=from_the_side,
)
checkpoint_block.wrong(
    "dropped_and_not_scaled",
    "dx and dw1 are 0.9 times what they should be. Dropout divides what it keeps by 0.9, and "
    "multiplies the gradient on its way back by the same numbers: 0, or 1 / 0.9.",
    checkpoint_backward=answering(lambda grads: (0.9 * grads[0], 0.9 * grads[1], grads[2])),
)
checkpoint_block.wrong(
    "weights_swapped",
    "dw2 came before dw1. The order is that of the arguments: (dx, dw1, dw2).",
    checkpoint_backward=weights_swapped,
)
checkpoint_block.wrong(
    "run_twice",
    "Forward ran the block twice, so y has the second mask, and the next one draws what comes "
    "after both. Run it once.",
    checkpoint_forward=run_twice,
)


checkpoint_block.wrong(
    "output_saved",
    "y was saved besides. Backward needs the inputs and the state: y comes of running the block "
    "again.",
    checkpoint_forward=keeping_more(output=True),
)
checkpoint_block.wrong(
    "two_states",
    "Two states were saved. The one before the block is enough: where the generator is in "
    "backward, backward can ask.",
    checkpoint_forward=keeping_more(output=False),
)
checkpoint_block.wrong(
    "inputs_copied",
    "The inputs were copied before they were saved. Saving them as they are costs nothing.",
    checkpoint_forward=copying,
)
for _name, _kept in (
    ("seeded", lambda state, seed: []),
    ("seeded_and_seed_saved", lambda state, seed: [torch.tensor(seed)]),
    ("seeded_and_state_saved", lambda state, seed: [state]),
    ("seeded_and_read_behind_it", lambda state, seed: [torch.get_rng_state()]),
):
    checkpoint_block.wrong(
        _name,
        "forward set the generator to the seed once more, so the block draws what others have "
        "drawn already. Leave the generator as you found it, and save its state.",
        checkpoint_forward=seeding(_kept),
    )
checkpoint_block.wrong(
    "reversed",
    "The gradients came in reverse. The order is that of the arguments: (dx, dw1, dw2).",
    checkpoint_backward=answering(lambda grads: grads[::-1]),
)
checkpoint_block.wrong(
    "dx_alone",
    "Only dx came. w1 and w2 learn as well: (dx, dw1, dw2).",
    checkpoint_backward=answering(lambda grads: grads[:1]),
)
checkpoint_block.wrong(
    "nothing_returned",
    "No gradients came, as where what `y.backward(dy)` returns is handed on: it is None, and they "
    "lie in `leaf.grad`.",
    checkpoint_backward=answering(lambda grads: None),
)


@checkpoint_block.cost
def _(student: Student, draw: Draw) -> str:
    n, d, h = 256, 64, 256
    given = draw.tensor(n, d), draw.tensor(h, d), draw.tensor(d, h)
    mine = new_bytes(student.call("checkpoint_forward", *given, 1)[1], given)
    with torch.random.fork_rng(devices=[]), onelayer.count_saved(ignore=given) as saved:
        block(*(t.requires_grad_() for t in given))
    return (
        f"{n} tokens: {mine:,} bytes saved beside the inputs, where the block itself saves "
        f"{saved.bytes:,}; run again for it: {4 * n * d * h:,} FLOP"
    )
