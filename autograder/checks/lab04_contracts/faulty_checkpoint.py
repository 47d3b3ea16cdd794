"""Halves of a checkpoint with one fault each, as people write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .answers import Triple
from .dropout_block import (
    Backward,
    Forward,
    Saved,
    begin,
    block,
    checkpointed,
    hidden,
    recomputed,
    rerun,
)


def keeping_inside(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Saves the hidden layer besides."""
    y, saved, draws = checkpointed(x, w1, w2, seed)
    return y, [*saved, hidden(x, w1)], draws


@torch.random.fork_rng(devices=[])
def keeping_mask(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Saves the mask in place of the state."""
    y, _, draws = checkpointed(x, w1, w2, seed)
    begin(seed)
    return y, [x, w1, w2, F.dropout(torch.ones(len(x), len(w1)), 0.1) > 0], draws


@torch.random.fork_rng(devices=[])
def state_too_late(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Reads the state after the block."""
    begin(seed)
    y = block(x, w1, w2)
    return y, [x, w1, w2, torch.get_rng_state()], torch.rand(2)


@torch.random.fork_rng(devices=[])
def rewinding(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Sets the generator back in forward."""
    begin(seed)
    state = torch.get_rng_state()
    y = block(x, w1, w2)
    torch.set_rng_state(state)
    return y, [x, w1, w2, state], torch.rand(2)


@torch.random.fork_rng(devices=[])
def another_mask(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Runs the block with the generator as it is."""
    begin(seed)
    return rerun(saved, dy), torch.rand(2)


@torch.random.fork_rng(devices=[])
def left_in_the_past(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Leaves the generator where the second run ended."""
    begin(seed)
    torch.set_rng_state(saved[3])
    return rerun(saved, dy), torch.rand(2)


@torch.random.fork_rng(devices=[])
def without_dropout(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Runs another function."""
    begin(seed)
    x, w1, w2 = (t.detach().clone().requires_grad_() for t in saved[:3])
    dx, dw1, dw2 = torch.autograd.grad(F.linear(hidden(x, w1), w2), (x, w1, w2), dy)
    return (dx, dw1, dw2), torch.rand(2)


@torch.no_grad()
def unrecorded(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Runs the block where nothing is recorded."""
    return recomputed(saved, dy, seed)


def stateless(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Saves no state."""
    y, saved, draws = checkpointed(x, w1, w2, seed)
    return y, saved[:3], draws


@torch.random.fork_rng(devices=[])
def back_to_then(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Ends with the saved state in place of the present one."""
    torch.set_rng_state(saved[3])
    grads = rerun(saved, dy)
    torch.set_rng_state(saved[3])
    return grads, torch.rand(2)


@torch.random.fork_rng(devices=[])
def back_to_the_seed(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Ends with the seed in place of the present state."""
    torch.set_rng_state(saved[3])
    grads = rerun(saved, dy)
    torch.manual_seed(seed)
    return grads, torch.rand(2)


def without_dy(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Differentiates the sum."""
    return recomputed(saved, torch.ones_like(dy), seed)


def keeping_the_graph(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Saves y, hoping that its graph comes along."""
    y, _, draws = checkpointed(x, w1, w2, seed)
    return y, [y, x, w1, w2], draws


def through_the_graph(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Asks for a graph that did not come along."""
    y, *leaves = (t.detach().requires_grad_() for t in saved)
    dx, dw1, dw2 = torch.autograd.grad(y, leaves, dy)
    return (dx, dw1, dw2), torch.rand(2)


def seed_kept(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Saves the seed in place of the state."""
    y, saved, draws = checkpointed(x, w1, w2, seed)
    return y, [*saved[:3], torch.tensor(seed)], draws


@torch.random.fork_rng(devices=[])
def from_the_seed(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Runs the block from the saved seed, and leaves the generator as it was."""
    begin(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(saved[3]))
        grads = rerun(saved, dy)
    return grads, torch.rand(2)


@torch.random.fork_rng(devices=[])
def another_mask_and_back(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Runs the block with the generator as it is, and leaves no trace of that."""
    begin(seed)
    with torch.random.fork_rng(devices=[]):
        grads = rerun(saved, dy)
    return grads, torch.rand(2)


@torch.random.fork_rng(devices=[])
def from_its_own_seed(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Runs the block from backward's own seed."""
    begin(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        grads = rerun(saved, dy)
    return grads, torch.rand(2)


@torch.random.fork_rng(devices=[])
def on_from_its_own_seed(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Runs the block from backward's own seed, and goes on from there."""
    torch.manual_seed(seed)
    return rerun(saved, dy), torch.rand(2)


def weights_swapped(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Answers w2 before w1."""
    (dx, dw1, dw2), draws = recomputed(saved, dy, seed)
    return (dx, dw2, dw1), draws


@torch.random.fork_rng(devices=[])
def run_twice(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Runs the block once more than it should."""
    begin(seed)
    block(x, w1, w2)
    state = torch.get_rng_state()
    return block(x, w1, w2), [x, w1, w2, state], torch.rand(2)


left_behind: list[Tensor] = []


def state_aside(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Leaves the state where the next call overwrites it."""
    y, saved, draws = checkpointed(x, w1, w2, seed)
    left_behind[:] = saved[3:]
    return y, saved[:3], draws


def from_the_side(saved: Saved, dy: Tensor, seed: int) -> Backward:
    """Runs the block from the state that the last forward left."""
    return recomputed([*saved[:3], *left_behind], dy, seed)


def keeping_more(*, output: bool) -> Callable[..., Forward]:
    """Saves y besides, or the state behind the block."""

    @torch.random.fork_rng(devices=[])
    def forward(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
        y, saved, draws = checkpointed(x, w1, w2, seed)
        begin(seed)
        block(x, w1, w2)
        return y, [*saved, y if output else torch.get_rng_state()], draws

    return forward


def copying(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
    """Saves copies of the arguments."""
    y, saved, draws = checkpointed(x, w1, w2, seed)
    return y, [*(t.clone() for t in saved[:3]), saved[3]], draws


def seeding(kept: Callable[[Tensor, int], list[Tensor]]) -> Callable[..., Forward]:
    """Sets the generator to the seed before the block, and saves `kept` of the state before that
    and the seed."""

    @torch.random.fork_rng(devices=[])
    def forward(x: Tensor, w1: Tensor, w2: Tensor, seed: int) -> Forward:
        begin(seed)
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        return block(x, w1, w2), [x, w1, w2, *kept(state, seed)], torch.rand(2)

    return forward


def answering(change: Callable[[Triple], Any]) -> Callable[..., Any]:
    """The right second half, with `change` of its gradients."""

    def backward(saved: Saved, dy: Tensor, seed: int) -> Any:
        grads, draws = recomputed(saved, dy, seed)
        return change(grads), draws

    return backward
