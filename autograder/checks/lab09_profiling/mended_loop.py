"""The repair of three loops at once: it reads each loss, copies from pageable memory, and steps
each parameter. The answer is a tape, which is run here: nobody's word counts for a wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_close, expect_tuple, within
from onelayer.profiling.tape import Tape

from . import lab
from .played import LISTED, Played, played

Names = list[str]
Answer = tuple[list[Any], Any, Names]
_FORM = "(tape.rows, losses, weights)"
_RAISED = {
    "AttributeError": "A tape's names are strings. What is to happen to a value is asked of the "
    "tape: `tape.op`, `tape.read`.",
}
READS = (
    "Several numbers are read, as inside the loop, and each read waits for all that was "
    "launched before it. The host needs none of them before the loop has ended."
)
ONE_BY_ONE = (
    "There is more than one read, as where the losses are read one by one, and each "
    "waits. Stack them, and read once: the host needs no more."
)
BLOCKING = "A copy from pinned memory waits as well, unless it is asked not to: `non_blocking`."
PAGEABLE = (
    "A batch is copied from pageable memory. Such a copy waits, whatever it was asked: pin the "
    "batch first."
)
PIN_DROPPED = (
    "A batch is copied under its old name, from pageable memory. `tape.pin` does not change it: it "
    "gives a new name, and that one is pinned."
)
EACH = (
    "There are more operators than the loop needs, as where each parameter has some of its "
    "own. `aten._foreach_...` takes the list in one call."
)
DROPPED = (
    "What a `_foreach_` operator made was dropped. It writes into nothing: it gives new names, and "
    "from then on these are the values."
)
ROUNDED = (
    "Not the same bits. `add` with `alpha` multiplies and adds with one rounding, a `mul` and an "
    "`add` round twice: take over the operators as they are."
)

OTHER_NUMBERS = (
    "These numbers are further from those of the loop as found than rounding takes them: a row "
    "is missing or another one, or reads another value or number than there, or other names are "
    "returned."
)
TURNED = "These are the losses, and not in the order of the steps."
KEPT = (
    "The tape holds the rows of the call before as well. A loop has a tape of its own: make it in "
    "the function, and not as a default value, which is made once for all calls."
)
NOT_READ = "The names of the losses are those that `tape.read` gave: what it read is on the host."
NOT_THERE = "A name among the weights is none that the tape has on the device."
MEAN_LOSS = "The mean of the losses is read. Asked for is the loss of each step."
LAST_LOSS = "Only the last loss is read. Asked for is the loss of each step."
NOT_EACH = "One loss for each step was asked for: each batch has one, and nothing is added up."


@lab.question(
    "mended_loop",
    points=6,
    minutes=15,
    difficulty=3,
    hints=(
        "Three things cost time here, and none is needed: who waits for each loss, what does a "
        "copy wait for, and how many calls does the optimizer take?",
        "Keep the losses as names and read them together behind the loop. Pin each batch and copy "
        "it with `non_blocking=True`. Give the optimizer's three operators the whole lists.",
        "moments = tape.op('aten._foreach_mul.Scalar', moments, 0.9)",
    ),
    by_effect=True,
)
def mended_loop(student: Student, draw: Draw) -> None:
    """The loop as found, without its waits and its small launches: the same losses and weights, bit
    for bit, one wait in all, and one call for each operator of the optimizer.

    batches (names on the host), weights, moments (names on the device)
    -> (rows of a tape, the losses: a name or names on the host, names of the last weights).
    """
    before = ""  # the rows of the call before
    for steps, layers in ((3, 3), (draw.integer(4, 6), draw.integer(4, 6)), (1, 2), (2, 1)):
        host, device, (batches, *others) = _drawn(draw, steps, layers)
        batches[2:3] = batches[:1] if steps > 3 else batches[2:3]  # one comes twice
        names = batches, *others
        with explaining(_RAISED):
            got = student.call("mended_loop", *names)
        found = _run(as_found(*names), host, device)
        mine = _run(got, host, device)
        rows = str([*got[0]])
        try:
            _expect_same(mine, found, _of_batches(got[0], batches))
            _expect_lean(mine[0], lean=steps * (2 * layers + 4) + 1, steps=steps)
        except Wrong as wrong:
            wrong.why = KEPT if before[1:] and rows.startswith(before) else wrong.why
            raise
        before = rows[:-1]


def _drawn(
    draw: Draw, steps: int, layers: int
) -> tuple[dict[str, Tensor], dict[str, Tensor], tuple[Names, Names, Names]]:
    """Batches, weights with their momentum, and the three lists of names. Widths differ, so that no
    two parameters can change places."""
    widths = draw.shuffled(range(5, 5 + layers + 1))
    rows = draw.integer(13, 19)
    host = {f"batch{k}": draw.tensor(rows, widths[0]) for k in range(steps)}
    device = {}
    for k, (wide, out) in enumerate(pairwise(widths)):
        device[f"w{k}"] = (draw.tensor(wide, out) / 2).requires_grad_()
        device[f"m{k}"] = draw.tensor(wide, out) / 8
    weights = [f"w{k}" for k in range(layers)]
    return host, device, (list(host), weights, [f"m{k}" for k in range(layers)])


def _run(
    got: Any, host: dict[str, Tensor], device: dict[str, Tensor]
) -> tuple[Played, list[Tensor], list[Tensor]]:
    """The tape as it went, its losses in one row, and its last weights."""
    rows, losses, weights = expect_tuple(got, 3, _FORM)
    state = played(rows, host, device)
    listed = losses if isinstance(losses, (list, tuple)) else [losses]
    read = {n: t for n, t in state.host.items() if n not in host}
    values = _named(listed, read, "the losses", NOT_READ)
    kept = _named(weights, state.device, "the weights", NOT_THERE)
    return state, [t.flatten() for t in values], kept


def _named(names: Any, place: dict[str, Tensor], what: str, why: str) -> list[Tensor]:
    """The values of these names. Raises Wrong for others."""
    each = expect_tuple(names, None, "names", where=what)
    for name in each:
        if not isinstance(name, str) or name not in place:
            told = "names of what was read" if what == "the losses" else "names on the device"
            raise Wrong(expected=told, got=describe(name), where=what, why=why)
    return [place[name] for name in each]


def _of_batches(rows: Any, batches: Names) -> str:
    """What the steps read, one batch each, if those are others than `batches` in their order."""
    batch_of: dict[str, str] = {}
    read = []
    for names, call, args, _ in rows:
        if call in ("pin", "copy"):
            batch_of[names[0]] = batch_of.get(args[0], args[0])
        elif call == "aten.mm.default" and args[0] in batch_of:
            read.append(batch_of[args[0]])
    if len(read) != len(batches) or read == batches:
        return ""
    return (
        f"The steps read the batches in this order: {', '.join(read)}. Each is read in its own "
        f"step, also one that was copied ahead: {', '.join(batches)}."
    )


def _expect_same(mine: Any, found: Any, of_batches: str) -> None:
    """of_batches: why the numbers are others, if that is known."""
    _, losses, weights = mine
    want = torch.cat(found[1])
    got = torch.cat(losses) if losses else torch.empty(0)
    alike = torch.equal(got.sort()[0], want.sort()[0])
    why = TURNED if alike else of_batches or _apart(got, want)
    why = why if got.shape == want.shape else _not_each(got, want)
    with within("the losses,", why=why):
        expect_close(got.detach(), want, tolerance=0.0)
    if len(weights) != len(found[2]):
        raise Wrong(expected=f"{len(found[2])} weights", got=f"{len(weights)} weights")
    for k, (came, wanted) in enumerate(zip(weights, found[2], strict=True)):
        with within(f"weight {k} after the last step,", why=_apart(came, wanted)):
            expect_close(came.detach(), wanted.detach(), tolerance=0.0)


def _not_each(got: Tensor, want: Tensor) -> str:
    """What one loss is, where each step has one. want: of each step."""
    alone = got.shape == (1,)
    mean, last = (alone and torch.allclose(got.to(t), t) for t in (want.mean(), want[-1]))
    return MEAN_LOSS if mean else LAST_LOSS if last else NOT_EACH


def _apart(got: Tensor, want: Tensor) -> str:
    """Why two tensors are not the same: they are further apart than rounding takes them, or not."""
    if got.shape != want.shape:
        return ""
    far = float((got.detach() - want.detach()).abs().max())
    return ROUNDED if far < 1e-4 * float(want.detach().abs().max()) else OTHER_NUMBERS


def _expect_lean(state: Played, *, lean: int, steps: int) -> None:
    """One wait, no pageable copy, and no more calls than the loop has with lists."""
    if state.pageable:
        copied = {told.split()[1] for told in state.pageable}
        why = PIN_DROPPED if copied & state.pinned_from else PAGEABLE
        raise Wrong(expected="copies from pinned memory", got=_some(state.pageable), why=why)
    if any(wait.startswith("copy") for wait in state.waits):
        copies = [wait for wait in state.waits if wait.startswith("copy")]
        raise Wrong(expected="copies that do not wait", got=_some(copies), why=BLOCKING)
    if len(state.waits) > 1:
        rows = [int(wait.rpartition(" ")[2][:-1]) for wait in state.waits]
        behind = rows[-1] - rows[0] < 2 * steps
        why = ONE_BY_ONE if behind else READS
        raise Wrong(expected="one wait, behind the steps", got=_some(state.waits), why=why)
    if state.launches > lean:
        raise Wrong(
            expected=f"at most {lean} operators", got=f"{state.launches} operators", why=EACH
        )


def _some(waits: Sequence[str]) -> str:
    shown = ", ".join(waits[:2])
    return f"{len(waits)}: {shown}" + (", ..." if len(waits) > 2 else "")


def as_found(batches: Names, weights: Names, moments: Names) -> Answer:
    """The slow loop, as the page has it."""
    return _loop(batches, weights, moments, copy=lambda tape, batch: tape.copy(batch), reads="each",
                 lists=False)  # fmt: skip


def _lean_copy(tape: Tape, batch: str) -> str:
    return tape.copy(tape.pin(batch), non_blocking=True)


def _loop(
    batches: Names,
    weights: Names,
    moments: Names,
    *,
    copy: Callable[[Tape, str], str] = _lean_copy,
    reads: str = "once",
    lists: bool = True,
    alpha: bool = False,
    stale_by: Callable[[Tape, Names], Names] | None = None,
    stale: bool = False,
    moments_of: Callable[[Tape, Names, Names], Names] | None = None,
    weights_of: Callable[[Tape, Names, Names, Names], Names] | None = None,
) -> Answer:
    """The repaired loop, and the ways to get it wrong. reads: "once", "each" step, "behind" the
    loop one by one, the "last" alone, their "mean", "none", "stacked" and not read, as a "list".
    alpha: momentum with one rounding. stale_by: what the weights move by, of the old momentum.
    stale: all steps take the first weights. moments_of: of the old ones and the gradients.
    weights_of: of the old ones, the moments and the gradients."""
    tape, losses = Tape(), []
    now, moved = list(weights), list(moments)
    for batch in batches:
        given = list(weights) if stale else now
        loss = _forward(tape, copy(tape, batch), given)
        losses.append(tape.read(loss) if reads == "each" else loss)
        old, grads = moved, tape.gradients(loss, given)
        made = moments_of or (lambda tape, old, grads: _moments(tape, old, grads, lists, alpha))
        moved = made(tape, old, grads)
        if weights_of:
            now = weights_of(tape, now, moved, grads)
        else:
            now = _step(tape, now, stale_by(tape, old) if stale_by else moved, lists)
    if reads == "behind":
        losses = [tape.read(loss) for loss in losses]
    elif reads == "last":
        losses = [tape.read(losses[-1])]
    elif reads == "stacked":
        losses = [tape.op("aten.stack.default", losses)]
    elif reads == "list":
        losses = [tape.read(losses)]  # type: ignore[arg-type]
    elif reads not in ("each", "none"):
        stacked = tape.op("aten.stack.default", losses)
        losses = [tape.read(tape.op("aten.mean.default", stacked) if reads == "mean" else stacked)]
    return tape.rows, losses, now


def _forward(tape: Tape, x: str, weights: Names) -> str:
    """2 L + 1 operators for L weights."""
    for w in weights[:-1]:
        x = tape.op("aten.tanh.default", tape.op("aten.mm.default", x, w))
    z = tape.op("aten.mm.default", x, weights[-1])
    loss: str = tape.op("aten.mean.default", tape.op("aten.mul.Tensor", z, z))
    return loss


def _moments(tape: Tape, old: Names, grads: Names, lists: bool, alpha: bool) -> Names:
    if lists and alpha:
        fused: Names = tape.op("aten._foreach_add.List", grads, old, alpha=0.9)
        return fused
    if lists:
        made: Names = tape.op("aten._foreach_mul.Scalar", old, 0.9)
        added: Names = tape.op("aten._foreach_add.List", made, grads)
        return added
    return [
        tape.op("aten.add.Tensor", tape.op("aten.mul.Tensor", m, 0.9), g)
        for m, g in zip(old, grads, strict=True)
    ]


def _step(tape: Tape, weights: Names, moments: Names, lists: bool) -> Names:
    if lists:
        made: Names = tape.op("aten._foreach_add.List", weights, moments, alpha=-0.1)
        return made
    return [
        tape.op("aten.add.Tensor", w, m, alpha=-0.1) for w, m in zip(weights, moments, strict=True)
    ]


def _pin_dropped(tape: Tape, batch: str) -> str:
    tape.pin(batch)
    return tape.copy(batch, non_blocking=True)


def _wrong(name: str, sentence: str, **how: Any) -> None:
    mended_loop.wrong(name, sentence, mended_loop=lambda *names: _loop(*names, **how))


_wrong("as_found", PAGEABLE, copy=lambda tape, batch: tape.copy(batch), reads="each", lists=False)
_wrong("reads_each_loss", READS, reads="each")
_wrong("reads_behind", ONE_BY_ONE, reads="behind")
_wrong("pinned_and_blocking", BLOCKING, copy=lambda tape, batch: tape.copy(tape.pin(batch)))
_wrong("not_pinned", PAGEABLE, copy=lambda tape, batch: tape.copy(batch, non_blocking=True))
_wrong("pin_dropped", PIN_DROPPED, copy=_pin_dropped)
_wrong("each_parameter", EACH, lists=False)
_wrong("one_rounding", ROUNDED, alpha=True)
_wrong(
    "last_loss",
    LAST_LOSS,
    reads="last",
)
_wrong(
    "mean_loss",
    MEAN_LOSS,
    reads="mean",
)
OLD_MOMENTUM = (
    "The weights moved by the old momentum. The loop as found adds the gradient to it first, and "
    "moves them by the sum."
)
_wrong("old_momentum", OLD_MOMENTUM, stale_by=lambda tape, old: old)
_wrong("old_momentum_scaled", OLD_MOMENTUM, stale_by=lambda tape, old: _scaled(tape, old))
_wrong(
    "first_weights",
    "Every step reads the weights that the loop began with. A tape's names stand for values: a "
    "step makes new ones, and the next step reads those.",
    stale=True,
)


for _name, _reads in (("none_read", "none"), ("stacked_and_not_read", "stacked")):
    _wrong(
        _name,
        "The losses are still on the device. `tape.read` brings them to the host, in one wait.",
        reads=_reads,
    )
_wrong("list_read", LISTED, reads="list")
_wrong(
    "pinned_too_late",
    "The batch is pinned after its copy. Pinned memory is the host's: pin first, then copy.",
    copy=lambda tape, batch: tape.pin(tape.copy(batch, non_blocking=True)),
)


def _add(tape: Tape, to: Names, what: Names, **alpha: float) -> Names:
    made: Names = tape.op("aten._foreach_add.List", to, what, **alpha)
    return made


def _scaled(tape: Tape, values: Names) -> Names:
    made: Names = tape.op("aten._foreach_mul.Scalar", values, 0.9)
    return made


_wrong(
    "upwards",
    "The weights go up the gradient. The loop as found adds with `alpha=-0.1`.",
    weights_of=lambda tape, now, moved, grads: _add(tape, now, moved, alpha=0.1),
)
_wrong(
    "no_step_size",
    "All of the momentum is added to the weights. `alpha=-0.1` is missing.",
    weights_of=lambda tape, now, moved, grads: _add(tape, now, moved),
)
_wrong(
    "without_momentum",
    "The weights move by the gradient alone. The loop as found moves them by the momentum.",
    weights_of=lambda tape, now, moved, grads: _add(tape, now, grads, alpha=-0.1),
)
_wrong(
    "gradient_scaled",
    "The gradient is multiplied by 0.9 as well. Only the old momentum is.",
    moments_of=lambda tape, old, grads: _scaled(tape, _add(tape, old, grads)),
)
_wrong(
    "momentum_not_scaled",
    "The old momentum is added as it was. It is multiplied by 0.9 first.",
    moments_of=lambda tape, old, grads: _add(tape, old, grads),
)


def _weights_dropped(tape: Tape, now: Names, moved: Names, grads: Names) -> Names:
    _add(tape, now, moved, alpha=-0.1)
    return now


def _product_dropped(tape: Tape, old: Names, grads: Names) -> Names:
    _scaled(tape, old)
    return _add(tape, old, grads)


_wrong("weights_dropped", DROPPED, weights_of=_weights_dropped)
_wrong("product_dropped", DROPPED, moments_of=_product_dropped)
_wrong(
    "weights_one_by_one",
    EACH,
    weights_of=lambda tape, now, moved, grads: _step(tape, now, moved, lists=False),
)
_wrong(
    "moments_one_by_one",
    EACH,
    moments_of=lambda tape, old, grads: _moments(tape, old, grads, lists=False, alpha=False),
)


def _changed(name: str, sentence: str, answer: Callable[[Answer], Any]) -> None:
    mended_loop.wrong(name, sentence, mended_loop=lambda *names: answer(_loop(*names)))


_changed(
    "rows_missing",
    "The rows are missing: (tape.rows, losses, weights).",
    lambda answer: answer[1:],
)
_changed(
    "tape_itself",
    "The tape itself came back. Its rows were asked for: `tape.rows`.",
    lambda answer: (Tape(answer[0]), *answer[1:]),
)


@mended_loop.wrong(
    "weights_read",
    "The weights are read as well. They stay on the device: asked for are their names.",
)
def _(batches: Names, weights: Names, moments: Names) -> Answer:
    rows, losses, last = _loop(batches, weights, moments)
    tape = Tape(rows)
    return rows, losses, [tape.read(name) for name in last]


@mended_loop.wrong(
    "last_step_left_out",
    "The last step does not move the weights. The loop as found moves them in each step.",
)
def _(batches: Names, weights: Names, moments: Names) -> Answer:
    left = iter(batches[1:])

    def unless_last(tape: Tape, now: Names, moved: Names, grads: Names) -> Names:
        return now if next(left, None) is None else _step(tape, now, moved, lists=True)

    return _loop(batches, weights, moments, weights_of=unless_last)


@mended_loop.wrong(
    "begun_anew",
    "The momentum begins at the first gradient. It begins at the `moments` that are passed in.",
)
def _(batches: Names, weights: Names, moments: Names) -> Answer:
    def made(tape: Tape, old: Names, grads: Names) -> Names:
        return grads if old == moments else _moments(tape, old, grads, lists=True, alpha=False)

    return _loop(batches, weights, moments, moments_of=made)


@mended_loop.wrong(
    "momentum_not_carried_on",
    "The momentum of the step before is not carried on: each step begins with the `moments` that "
    "are passed in.",
)
def _(batches: Names, weights: Names, moments: Names) -> Answer:
    def made(tape: Tape, old: Names, grads: Names) -> Names:
        return _moments(tape, moments, grads, lists=True, alpha=False)

    return _loop(batches, weights, moments, moments_of=made)


@mended_loop.cost
def _(student: Student, draw: Draw) -> str:
    host, device, names = _drawn(draw, 6, 6)
    before, after = (
        _run(got, host, device)[0]
        for got in (as_found(*names), student.call("mended_loop", *names))
    )
    return (
        f"{len(before.waits)} waits and {before.launches} operators before, {len(after.waits)} and "
        f"{after.launches} now; {before.took_us:.0f} and {after.took_us:.0f} us of a modelled "
        f"device"
    )
