"""What is wrong in the rows of a training step, seen in the rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .training import Rows


def broken_rule(got: Any, right: Rows) -> str:
    """A sentence about `got` that is true whoever wrote it; "" where its rows have another form, or
    break no rule of these."""
    if not isinstance(got, (list, tuple)) or not all(isinstance(row, (list, tuple)) for row in got):
        return ""
    rows = [tuple(row) for row in got]
    return next(_broken(rows, right), "")


def _places(rows: Rows, *begin: Any) -> list[int]:
    """Where the rows are that begin so."""
    return [k for k, row in enumerate(rows) if row[: len(begin)] == begin]


def _broken(rows: Rows, right: Rows) -> Iterator[str]:
    kept = [row[1:] for row in rows if row[:1] == ("weights",)]
    if not kept:
        return
    named = [row[1] for row in right if len(row) > 1]  # a name that came may be unhashable
    for row in rows:
        if row[:1] != ("weights",) and len(row) > 1 and row[1] not in named:
            yield (
                f"{row[1]} names no batch and no optimizer of the rows that came: each run has "
                "names of its own."
            )
    for dtype in kept:
        if dtype and dtype != ("float32",):
            yield f"A row keeps the weights in {dtype[0]}. They belong in float32."
    for batch in dict.fromkeys(row[1] for row in right if row[0] == "backward"):
        yield from _of_a_batch(rows, batch)
    backwards = _places(rows, "backward")
    for name in dict.fromkeys(row[1] for row in right if row[0] == "step"):
        norm = next(row[2] for row in right if row[:2] == ("clip", name))
        yield from _of_an_optimizer(rows, name, norm, backwards[-1])
    updates = _places(rows, "update")
    if len(updates) != 1:
        yield f"`update` comes once in a step, and here it comes {len(updates)} times."
    if updates[0] < _places(rows, "step")[-1]:
        yield "`update` comes before a `step`. It is the last row: the scaler asks all of them."


def _of_a_batch(rows: Rows, batch: str) -> Iterator[str]:
    forward, backward = _places(rows, "forward", batch), _places(rows, "backward", batch)
    if not (forward or backward):
        yield f"The batch {batch} is in none of the rows returned, and every batch counts."
    elif not (forward and backward):
        lost = "backward" if forward else "forward"
        yield f"The batch {batch} has no {lost} in the rows returned, and every batch counts."
    elif len(forward) + len(backward) > 2:
        yield (
            f"Of the batch {batch} there are {len(forward)} forward and {len(backward)} backward "
            "in the rows returned, and each belongs there once."
        )
    elif backward[0] < forward[0]:
        yield f"The backward of the batch {batch} comes before its forward."
    elif rows[backward[0]][2:] != ("scaled",):
        yield f"The backward of the batch {batch} is not scaled."


def _of_an_optimizer(rows: Rows, name: str, norm: float, last: int) -> Iterator[str]:
    """last: where the last backward is."""
    if _places(rows, "step_always", name):
        yield f"{name} steps by `step_always`, which does not ask the scaler."
        return
    steps, clips = _places(rows, "step", name), _places(rows, "clip", name)
    unscales = _places(rows, "unscale", name)
    if len(steps) != 1:
        yield f"{name} steps once in a step, and here it steps {len(steps)} times."
    elif len(clips) != 1:
        yield f"{name} is clipped once in a step, and here it is clipped {len(clips)} times."
    elif rows[clips[0]][2:] != (norm,):
        yield f"{name} is clipped to another norm than in the rows that came."
    elif steps[0] < clips[0]:
        yield f"{name} steps before it is clipped."
    elif clips[0] < last:
        yield f"{name} is clipped before the last backward: its gradients are not all there yet."
    elif len(unscales) != 1:
        yield (
            f"`unscale` comes once for {name}, and here it comes {len(unscales)} times. Without it "
            "`step` divides, after the clip."
        )
    elif unscales[0] < last:
        yield (
            f"{name} is unscaled before the last backward, which adds gradients that carry the "
            "scale to others that do not."
        )
    elif unscales[0] > clips[0]:
        yield f"{name} is unscaled after its clip, so the norm is compared with scaled gradients."
