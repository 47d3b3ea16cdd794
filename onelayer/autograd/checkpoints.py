"""`show_checkpoints`: what a chain of layers keeps for backward, and what it makes again.

The schedule, its bytes and the drawing are in `checkpoints.js`, so that the same view runs in a
notebook, where it is an anywidget, and on a page without a kernel.
"""

from collections.abc import Sequence

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

_MOST = 64  # layers that can still be told apart


class CheckpointsView(Played):
    """What `show_checkpoints` shows; `view` follows what the reader keeps."""

    name = "checkpoints"

    def __repr__(self) -> str:
        layers, kept = self.view["layers"], self.view["kept"]
        saved = sum(layer["entry"] + layer["inside"] for layer in layers)
        starts = [str(i) for i, keep in enumerate(kept, start=1) if keep]
        plan = say("no checkpoint")
        if not self.view["all"]:
            plan = say("checkpoints at layers {layers}", layers=", ".join(starts))
        return say(
            "{n} layers that save {saved:,} bytes for backward, {plan}",
            n=len(layers),
            saved=saved,
            plan=plan,
        )


def show_checkpoints(
    layers: Sequence[tuple[int, int]], *, every: int | None = None
) -> CheckpointsView:
    """A chain of layers to play with: keep bytes for backward, or make them again.

        show_checkpoints([(x.nbytes, saved.bytes)] * 16, every=4)

    For each layer two numbers: bytes of the tensor that enters it, and bytes that it saves besides.
    A checkpoint begins at every `every`-th layer and keeps what enters it; without `every` all is
    kept. Click an entry to keep it or to make it again, and play forward and backward by steps.
    Counted are bytes saved for backward alone: no parameters, gradients or what is in flight.

    Raises ValueError for no or more than 64 layers, for negative bytes, and for `every` below 1.
    """
    if not 1 <= len(layers) <= _MOST:
        raise ValueError(
            say("show_checkpoints draws 1 to {most} layers, got {n}", most=_MOST, n=len(layers))
        )
    if min(min(pair) for pair in layers) < 0:
        raise ValueError(
            say("a layer cannot save a negative number of bytes: {layers}", layers=list(layers))
        )
    if every is not None and every < 1:
        raise ValueError(say("a checkpoint has at least one layer, got every={every}", every=every))
    chain = [{"entry": int(entry), "inside": int(inside)} for entry, inside in layers]
    kept = [i % (every or 1) == 0 for i in range(len(chain))]
    return CheckpointsView({"layers": chain, "kept": kept, "all": every is None, "at": 0}).show()
