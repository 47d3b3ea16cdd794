"""`show_call`: the way of one call from Python to the kernel, to walk along.

What each stop says was asked of the installed torch; `call_view.js` only shows it, so that the same
view runs in a notebook, where it is an anywidget, and on a page without a kernel.
"""

import json
from dataclasses import asdict
from typing import Any

import torch

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

from .call_path import MODES, path_of_linear


class CallView(Played):
    """The path of one `F.linear` call. `routes` holds its stops as "device, mode" -> list."""

    name = "call"

    @property
    def routes(self) -> dict[str, list[dict[str, Any]]]:
        return dict(self._view["routes"])

    def __repr__(self) -> str:
        """The first route: one line per stop."""
        route = next(iter(self.routes.values()))
        stops = (f"{say(s['layer']):<11} {s['name']:<18} {s['file']}" for s in route)
        return "\n".join([self._view["call"], *(f"  {line}" for line in stops)])


def show_call(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> CallView:
    """The way of `F.linear(x, weight, bias)` from Python to the kernel and back, stop by stop.

        show_call(h, head.weight, head.bias)

    x (N, in), weight (out, in), bias (out,). The call is made with gradients recorded, under
    no_grad and under inference_mode, on the CPU, on the meta device, and on a GPU where there is
    one; the page switches between them. Nothing of it is written down beforehand: keys, tables and
    files are what this torch reports.

    Raises ValueError for an x that is not a matrix.
    """
    if x.dim() != 2:
        raise ValueError(
            say("show_call follows a matrix x (N, in), got {shape}", shape=tuple(x.shape))
        )
    devices = ["cpu", "meta", *(["cuda"] if torch.cuda.is_available() else [])]
    given = [t for t in (x, weight, bias) if t is not None]
    routes = {}
    for device in devices:
        moved = [t.detach().to(device).requires_grad_(t.requires_grad) for t in given]
        for mode in MODES:
            routes[f"{device}, {mode}"] = [asdict(s) for s in path_of_linear(*moved, mode=mode)]
    shapes = ", ".join(str(tuple(t.shape)) for t in given)
    # Through JSON, so that a tuple here is the list that the page sees.
    call = say("F.linear of {shapes}", shapes=shapes)
    view = {"call": call, "devices": devices, "modes": list(MODES)}
    return CallView(json.loads(json.dumps(view | {"routes": routes}))).show()
