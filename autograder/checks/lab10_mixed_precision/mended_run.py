"""The repair of a training step that dies in float16, as rows, which are run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from autograder.judge import Draw, Student, Wrong

from . import lab
from .broken_rows import broken_rule
from .training import NO_WEIGHTS, SCALE, Rows, Task, Trained, drawn_task, trained

FAULTS = (
    "half_weights",
    "plain_backward",
    "late_unscale",
    "no_unscale",
    "early_unscale",
    "step_always",
    "early_update",
    "update_each",
    "no_update",
    "one_plain",
    "late_clip",
    "no_step",
    "no_forward",
    "no_backward",
    "backward_twice",
    "forward_twice",
    "early_backward",
    "unscale_twice",
    "no_weights",
    "plain_too",
    "step_always_too",
    "weights_twice",
    "clip_twice",
    "step_twice",
)
Choose = Callable[[Sequence[int]], int]
"""Which of the rows with the same verb a fault is in, of their places: min is the first."""
_NAMES = ("adam", "body", "dense", "embed", "head", "inner", "lion", "muon", "outer", "sparse")
NOT_FINITE = (
    "An optimizer stepped with gradients that were not finite. `step` asks the scaler first, "
    "`step_always` does not."
)
SCALES = (
    "The weights may be right, the scale is not: `update` belongs behind the last `step`, once. "
    "It looks at what all of them found, and then forgets it."
)
ROUNDED = (
    "Every weight is a number of float16 after each step, so small updates were rounded away. The "
    "optimizer keeps its weights in float32."
)
TOO_SMALL = (
    "The weights moved too little: gradients were clipped while they were still scaled, or divided "
    "by a scale that they did not carry."
)
TOO_FAR = (
    "The weights moved too far: a gradient was applied while it carried the scale, or was not "
    "clipped."
)


@lab.question(
    "mended_run",
    points=6,
    minutes=14,
    difficulty=4,
    hints=(
        "For each row ask: do the gradients carry the scale here, and are all of them there yet?",
        "Every backward scaled, and all of them before the first `unscale`; then for each "
        "optimizer `unscale`, `clip`, `step`; and `update` once, behind the last step. The "
        "weights stay in float32.",
        "for name, norm in clips: rows += [('unscale', name), ('clip', name, norm), "
        "('step', name)]",
    ),
    by_effect=True,
)
def mended_run(student: Student, draw: Draw) -> None:
    """The rows of a training step without the faults in them: the losses, weights and scales of the
    step as it should be.

    rows (tuples: a verb, and its arguments) -> rows.
    """
    together = ("half_weights", "plain_backward", "late_unscale", "step_always", "early_update")
    asked: list[tuple[Sequence[str], Choose]] = [(together, draw.choice), ((), draw.choice)]
    asked += [((fault,), choose) for fault in FAULTS for choose in (min, max)]  # first, and last
    asked += [(draw.shuffled(FAULTS[:6])[:3], draw.choice) for _ in draw.cases(1)]
    for faults, choose in asked:
        right, task = _drawn(draw)
        got = student.call("mended_run", _spoilt(right, faults, choose))
        if _is(got, right):
            continue
        try:
            _expect_as(trained(got, task), trained(right, task))
        except Wrong as wrong:
            wrong.why = broken_rule(got, right) or wrong.why
            raise


def _is(got: Any, right: Rows) -> bool:
    """Whether these are the rows of the step as it should be, so that running them shows nothing
    more."""
    rows = got if isinstance(got, (list, tuple)) else []
    plain = all(
        isinstance(row, (list, tuple)) and all(isinstance(one, (str, float)) for one in row)
        for row in rows
    )
    return plain and [tuple(row) for row in rows] == right


def _drawn(draw: Draw) -> tuple[Rows, Task]:
    """The step as it should be, with names, batches and norms of its own, and what it trains."""
    body, head, *others = draw.shuffled(_NAMES)
    batches = [f"{name}_tokens" for name in others[: draw.integer(2, 3)]]
    norms = {name: draw.integer(2, 5) / 2.0**20 for name in (body, head)}
    rows: Rows = [("weights", "float32")]
    for batch in batches:
        rows += [("forward", batch), ("backward", batch, "scaled")]
    for name in draw.shuffled((body, head)):
        rows += [("unscale", name), ("clip", name, norms[name]), ("step", name)]
    return [*rows, ("update",)], drawn_task(draw, (body, head), batches)


def _spoilt(right: Rows, faults: Sequence[str], choose: Choose) -> Rows:
    rows = list(right)
    for fault in faults:
        rows = _SPOIL[fault](rows, choose)
    return rows


def _half_weights(rows: Rows, choose: Choose) -> Rows:
    return [("weights", "float16") if row[0] == "weights" else row for row in rows]


def _plain_backward(rows: Rows, choose: Choose) -> Rows:
    return [(*row[:2], "plain") if row[0] == "backward" else row for row in rows]


def _one(rows: Rows, verb: str, choose: Choose) -> int:
    """The place of one of the rows with this verb, or -1."""
    return choose([k for k, row in enumerate(rows) if row[0] == verb] or [-1])


def _moved(rows: Rows, place: int, to: int) -> Rows:
    """With one row at another place of those that are left."""
    left = rows[:place] + rows[place + 1 :]
    return [*left[:to], rows[place], *left[to:]]


def _late_unscale(rows: Rows, choose: Choose) -> Rows:
    place = _one(rows, "unscale", choose)
    return rows if place < 0 else _moved(rows, place, place + 1)


def _no_unscale(rows: Rows, choose: Choose) -> Rows:
    place = _one(rows, "unscale", choose)
    return rows if place < 0 else rows[:place] + rows[place + 1 :]


def _early_unscale(rows: Rows, choose: Choose) -> Rows:
    place, last = _one(rows, "unscale", choose), max(_places(rows, "forward"))
    return rows if place < 0 else _moved(rows, place, last)


def _step_always(rows: Rows, choose: Choose) -> Rows:
    place = _one(rows, "step", choose)
    return [("step_always", row[1]) if k == place else row for k, row in enumerate(rows)]


def _places(rows: Rows, verb: str) -> list[int]:
    return [k for k, row in enumerate(rows) if row[0] == verb]


def _early_update(rows: Rows, choose: Choose) -> Rows:
    ends = _places(rows, "step") + _places(rows, "step_always")
    return _moved(rows, _places(rows, "update")[0], min(ends) + 1)


def _update_each(rows: Rows, choose: Choose) -> Rows:
    place = min(_places(rows, "step") + _places(rows, "step_always"))
    return [*rows[: place + 1], ("update",), *rows[place + 1 :]]


def _one_plain(rows: Rows, choose: Choose) -> Rows:
    place = _one(rows, "backward", choose)
    return [(*row[:2], "plain") if k == place else row for k, row in enumerate(rows)]


def _late_clip(rows: Rows, choose: Choose) -> Rows:
    """Behind all steps: the norms are then in another order than the steps."""
    return _moved(rows, _one(rows, "clip", choose), max(_places(rows, "step")))


def _without(verb: str) -> Callable[[Rows, Choose], Rows]:
    def spoil(rows: Rows, choose: Choose) -> Rows:
        place = _one(rows, verb, choose)
        return rows[:place] + rows[place + 1 :]

    return spoil


def _twice(verb: str) -> Callable[[Rows, Choose], Rows]:
    def spoil(rows: Rows, choose: Choose) -> Rows:
        place = _one(rows, verb, choose)
        return [*rows[: place + 1], *rows[place:]]

    return spoil


def _plain_too(rows: Rows, choose: Choose) -> Rows:
    """One backward too many, which is not equal to the right one, nor always beside it."""
    batch, last = rows[_one(rows, "backward", choose)][1], _places(rows, "backward")[-1]
    return [*rows[: last + 1], ("backward", batch, "plain"), *rows[last + 1 :]]


def _step_always_too(rows: Rows, choose: Choose) -> Rows:
    """As _plain_too: an optimizer steps once more, and without asking."""
    name, last = rows[_one(rows, "step", choose)][1], _places(rows, "step")[-1]
    return [*rows[: last + 1], ("step_always", name), *rows[last + 1 :]]


def _weights_twice(rows: Rows, choose: Choose) -> Rows:
    """A second row says float16, which then holds."""
    place = _one(rows, "weights", choose)
    return [*rows[: place + 1], ("weights", "float16"), *rows[place + 1 :]]


def _early_backward(rows: Rows, choose: Choose) -> Rows:
    """A backward before the forward that makes its loss."""
    place = _one(rows, "backward", choose)
    forward = rows.index(("forward", rows[place][1]))
    return _moved(rows, place, forward)


def _no_update(rows: Rows, choose: Choose) -> Rows:
    return [row for row in rows if row[0] != "update"]


_SPOIL: dict[str, Callable[[Rows, Choose], Rows]] = {
    "half_weights": _half_weights,
    "plain_backward": _plain_backward,
    "late_unscale": _late_unscale,
    "no_unscale": _no_unscale,
    "early_unscale": _early_unscale,
    "step_always": _step_always,
    "early_update": _early_update,
    "update_each": _update_each,
    "no_update": _no_update,
    "one_plain": _one_plain,
    "late_clip": _late_clip,
    "no_step": _without("step"),
    "no_forward": _without("forward"),
    "no_backward": _without("backward"),
    "backward_twice": _twice("backward"),
    "forward_twice": _twice("forward"),
    "early_backward": _early_backward,
    "unscale_twice": _twice("unscale"),
    "no_weights": _without("weights"),
    "plain_too": _plain_too,
    "step_always_too": _step_always_too,
    "weights_twice": _weights_twice,
    "clip_twice": _twice("clip"),
    "step_twice": _twice("step"),
}


def _expect_as(got: Trained, want: Trained) -> None:
    """The same losses, weights and scales, step by step. The weights within what another order of
    the same sums would cost, far below a rounding of float16."""
    for k, (mine, true) in enumerate(zip(got.weights, want.weights, strict=True)):
        for name, weight in true.items():
            off = float((mine[name] - weight).abs().max())
            if not off <= 1e-6 * float(weight.abs().max()):
                raise Wrong(
                    expected=f"a change of {_change(want, k, name):.8g}",
                    got=f"{_change(got, k, name):.8g}",
                    where=f"the weight of {name!r} in step {k}",
                    why=_why(got, want, k, name),
                )
    if got.scales != want.scales:
        raise Wrong(expected=_powers(want), got=_powers(got), where="the scales", why=SCALES)
    if len(got.losses) != len(want.losses):
        raise Wrong(expected=f"{len(want.losses)} forwards", got=f"{len(got.losses)}")


def _powers(run: Trained) -> str:
    return ", ".join(f"{scale:g}" for scale in run.scales)


def _change(run: Trained, k: int, name: str) -> float:
    """How far the weight moved in step k: the norm; in step 0, how large it is."""
    before = run.weights[k - 1][name] if k else torch.zeros(())
    return float((run.weights[k][name] - before).norm())


def _why(got: Trained, want: Trained, k: int, name: str) -> str:
    mine = got.weights[k][name]
    if not bool(mine.isfinite().all()):
        return NOT_FINITE
    if bool((mine == mine.half().float()).all()):
        return ROUNDED
    if k == 0:
        return ""
    ratio = _change(got, k, name) / max(_change(want, k, name), 1e-30)
    return TOO_SMALL if ratio < 0.9 else TOO_FAR if ratio > 1.1 else ""


def _mended(
    rows: Rows,
    *,
    weights: bool = True,
    scaled: bool = True,
    unscale: str = "before_clip",
    steps: bool = True,
    update: str = "last",
    clips: bool = True,
    batches: slice = slice(None),
    groups: slice = slice(None),
    norm_of: Callable[[Any, list[Any]], Any] = lambda norm, norms: norm,
) -> Rows:
    """The repaired step, and the ways to leave something in it. unscale: "before_clip",
    "after_clip", "as_found", "missing" (where it was), "twice", "none", "first". update: "last",
    "as_found", "each", "if_missing" (it stays so), "none", "before". batches, groups: which of
    their rows are left."""
    head = [("weights", "float32") if weights else row for row in rows if row[0] == "weights"]
    given = [row for row in rows if row[0] in ("forward", "backward")][batches]
    body = [(*row[:2], "scaled") if row[0] == "backward" and scaled else row for row in given]
    tail: Rows = [("update",)] if update == "before" else []
    clipped = [row for row in rows if row[0] == "clip"][groups]
    for place, (verb, name, *norm) in enumerate(clipped):
        norm = [norm_of(one, [row[2] for row in clipped]) for one in norm]
        found = next(row for row in rows if row[0].startswith("step") and row[1] == name)
        clip: Rows = [(verb, name, *norm)] if clips else []
        kind = {"first": "none" if place else "before_clip"}.get(unscale, unscale)
        tail += _around(clip, name, rows, kind)
        tail.append(("step", name) if steps else found)
        tail += [("update",)] if update == "each" else []
    return _updated([*head, *body, *tail], rows, update)


def _around(clip: Rows, name: str, rows: Rows, unscale: str) -> Rows:
    has, clipped = ("unscale", name) in rows, [*clip]
    if unscale == "after_clip":
        return [*clipped, ("unscale", name)]
    if unscale == "none" or (unscale == "missing" and not has):
        return clipped
    if unscale == "as_found" and has and rows.index(("unscale", name)) > _clip_of(rows, name):
        return [*clipped, ("unscale", name)]
    again: Rows = [("unscale", name)] if unscale == "twice" and has else []
    return [*again, ("unscale", name), *clipped]


def _clip_of(rows: Rows, name: str) -> int:
    return next(k for k, row in enumerate(rows) if row[:2] == ("clip", name))


def _updated(mended: Rows, rows: Rows, update: str) -> Rows:
    if update == "last":
        return [*mended, ("update",)]
    if update == "as_found":
        found = _places(rows, "update")
        if not found:
            return mended
        early = found[0] < len(rows) - 1
        return _update_each(mended, min) if early else [*mended, ("update",)]
    if update == "if_missing":
        return mended if not _places(rows, "update") else [*mended, ("update",)]
    return mended


def _wrong(name: str, sentence: str, **how: Any) -> None:
    mended_run.wrong(name, sentence, mended_run=lambda rows: _mended(rows, **how))


@mended_run.wrong(
    "as_found",
    "These rows go wrong where the rows as they came do: a fault is still there. What is wrong at "
    "that place?",
)
def _(rows: Rows) -> Rows:
    return rows


_wrong("half_weights_left", ROUNDED, weights=False)
_wrong(
    "plain_backward_left",
    "A backward of the plain loss is still there. In float16 small gradients become zero there, "
    "and all of them are without the scale by which `unscale` divides. Where no loss was scaled, "
    "torch refuses it.",
    scaled=False,
)
_wrong(
    "unscaled_after_clip",
    "The gradients are clipped before they are unscaled: the norm that is compared is `scale` "
    "times too large.",
    unscale="after_clip",
)
_wrong(
    "order_left",
    "Where `unscale` came behind `clip`, it is still there. The norm that is compared is then "
    "`scale` times too large.",
    unscale="as_found",
)
_wrong(
    "missing_unscale_left",
    "Where `unscale` was missing before `clip`, it still is. `step` unscales by itself, but only "
    "after the clip.",
    unscale="missing",
)
_wrong(
    "unscaled_twice",
    "A second `unscale` of one optimizer in one step: torch refuses it, for the gradients would be "
    "divided twice.",
    unscale="twice",
)
_wrong("step_always_left", NOT_FINITE, steps=False)
_wrong(
    "update_left",
    "An `update` is still between two steps. The scale can change there, while the gradients of "
    "the other optimizer still carry the old one.",
    update="as_found",
)
_wrong(
    "update_missing",
    "Where `update` was missing it still is: the scale never changes, and the scaler never forgets "
    "what it found.",
    update="if_missing",
)
_wrong(
    "update_for_each",
    "There is an `update` for each optimizer. It is one for the step: the scaler counts a good "
    "step with each of them.",
    update="each",
)
_wrong(
    "no_clip",
    "The clipping is gone. It is no fault: each optimizer clips, between its `unscale` and its "
    "`step`.",
    clips=False,
)
_wrong(
    "last_batch_only",
    "Only the last batch is left. The gradients of all of them are added up before the step.",
    batches=slice(-2, None),
)
_wrong(
    "batch_missing",
    "A batch is missing. The gradients of all of them are added up before the step.",
    batches=slice(4),
)
_wrong(
    "one_group_only",
    "Only one optimizer is left. Both of them clip and step.",
    groups=slice(1),
)
_wrong(
    "never_unscaled",
    "There is no `unscale`. `step` divides by itself, but only after the clip: the norm that is "
    "compared is `scale` times too large.",
    unscale="none",
)
_wrong(
    "unscaled_for_one",
    "Only the first optimizer is unscaled before its clip. The other one needs it too.",
    unscale="first",
)
_wrong(
    "never_updated",
    "There is no `update`: the scale never changes, and the scaler never forgets what it found.",
    update="none",
)
_wrong(
    "updated_before_the_steps",
    "`update` is before the steps. It looks at what all of them found, and then forgets it: it "
    "comes last.",
    update="before",
)
_wrong(
    "norms_scaled",
    "The norms were multiplied by the scale. They are those of gradients without it: each norm "
    "stays, and `unscale` comes before `clip`.",
    norm_of=lambda norm, norms: norm * SCALE,
)
_wrong(
    "one_norm",
    "Both optimizers clip to the same norm. Each has one of its own.",
    norm_of=lambda norm, norms: norms[0],
)


def _rewritten(name: str, sentence: str, change: Callable[[tuple[Any, ...]], Rows]) -> None:
    """The repaired step, of which each row was changed."""
    mended_run.wrong(
        name,
        sentence,
        mended_run=lambda rows: [new for row in _mended(rows) for new in change(row)],
    )


_rewritten(
    "always_steps",
    NOT_FINITE,
    lambda row: [("step_always", row[1]) if row[0] == "step" else row],
)
_rewritten(
    "never_scaled",
    "No backward is scaled. In float16 small gradients become zero, and `unscale` has no scale by "
    "which to divide: torch refuses it.",
    lambda row: [(*row[:2], "plain") if row[0] == "backward" else row],
)
_rewritten(
    "weights_in_bfloat16",
    "The optimizers keep their weights in float32, not in 16 bits.",
    lambda row: [("weights", "bfloat16") if row[0] == "weights" else row],
)
_rewritten(
    "weights_in_float16",
    "The optimizers keep their weights in float32, not in 16 bits.",
    lambda row: [("weights", "float16") if row[0] == "weights" else row],
)
_rewritten("no_weights", NO_WEIGHTS, lambda row: [row] if row[0] != "weights" else [])
_rewritten(
    "stepped_twice",
    "Each optimizer steps twice. It steps once in a step, and torch refuses a second time.",
    lambda row: [row, row] if row[0] == "step" else [row],
)


@mended_run.wrong(
    "scaler_gone",
    "The scaler is gone: no scaled backward, no `unscale`, no `update`. In float16 small gradients "
    "become zero without it.",
)
def _(rows: Rows) -> Rows:
    mended = [row for row in _mended(rows) if row[0] not in ("unscale", "update")]
    mended = [(*row[:2], "plain") if row[0] == "backward" else row for row in mended]
    return [("step_always", row[1]) if row[0] == "step" else row for row in mended]


@mended_run.wrong(
    "only_the_last_scaled",
    "Only the last backward is scaled. The gradients of the others are added to it unscaled.",
)
def _(rows: Rows) -> Rows:
    mended = _mended(rows)
    last = max(_places(mended, "backward"))
    return [
        (*row[:2], "plain") if row[0] == "backward" and k != last else row
        for k, row in enumerate(mended)
    ]


@mended_run.wrong(
    "step_for_each_batch",
    "The optimizers step after each batch. The gradients of all batches are added up first, for "
    "one step.",
)
def _(rows: Rows) -> Rows:
    tail = [row for row in _mended(rows) if row[0] in ("unscale", "clip", "step")]
    return [
        new
        for row in _mended(rows)
        if row[0] not in ("unscale", "clip", "step")
        for new in ([row, *tail] if row[0] == "backward" else [row])
    ]


@mended_run.wrong("rows_changed", "The rows that came were changed themselves. Return new ones.")
def _(rows: Rows) -> Rows:
    rows[:] = _mended(rows)[::-1]
    return rows[::-1]


@mended_run.wrong(
    "early_unscale_left",
    "An `unscale` is still before the last backward: the gradients of that backward are added "
    "scaled to others that are not.",
)
def _(rows: Rows) -> Rows:
    mended = _mended(rows)
    last = max(_places(rows, "forward"))
    for name in [row[1] for row in rows[:last] if row[0] == "unscale"]:
        place = mended.index(("unscale", name))
        mended = _moved(mended, place, max(_places(mended, "forward")))
    return mended


@mended_run.cost
def _(student: Student, draw: Draw) -> str:
    right, task = _drawn(draw)
    got = trained(student.call("mended_run", _spoilt(right, ("step_always",), draw.choice)), task)
    return f"{len(task.steps)} steps, one of them left out; the scale goes {_powers(got)}"
