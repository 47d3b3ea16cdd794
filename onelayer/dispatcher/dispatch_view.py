"""`play_dispatch`: change a tensor and a thread, and see the way of a call through a table.

The rules and the drawing are in `dispatch_view.js`, so that the same view runs in a notebook,
where it is an anywidget, and on a page without a kernel. The tables come from the torch that is
installed.
"""

from typing import Any

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

from .dispatch import MEANING, dispatch_table, ends_the_way, in_order

OPERATORS = ("aten::linear", "aten::addmm", "aten::t", "aten::relu", "aten::add_.Tensor")
_KEYS = (
    *("PythonTLSSnapshot", "AutocastCPU", "AutogradCPU", "AutogradMeta", "ADInplaceOrView"),
    *("Negative", "Python", "BackendSelect", "SparseCPU", "SparseMeta", "Meta", "CPU"),
)
START = {
    "device": "cpu",
    "layout": "strided",
    "negative": False,
    "made": False,
    "needs": True,
    "autocast": False,
    "grad": "enabled",
    "mode": False,
}


class DispatchView(Played):
    """The dispatch table to play with. `view` follows what the reader does with it."""

    name = "dispatch"

    def __repr__(self) -> str:
        table = self.view["tables"][self.view["op"]]
        lines = [f"  {key:18} {entry['kind']} ({entry['where']})" for key, entry in table.items()]
        return "\n".join([say("{op}: some keys of its table", op=self.view["op"]), *lines])


def play_dispatch(op: str = OPERATORS[0]) -> DispatchView:
    """The dispatch table to play with: choose what the tensor is and what the thread is doing, and
    see which kernels of `op` run.

        play_dispatch("aten::addmm")

    In a notebook with anywidget the view answers to the kernel; elsewhere it is the same view as
    HTML. Raises RuntimeError for an operator that does not exist.
    """
    operators = dict.fromkeys([op, *OPERATORS])
    tables = {name: _rows(name) for name in operators}
    ends = [key for key in _KEYS if ends_the_way(key)]
    order = list(in_order(_KEYS))
    meaning = {kind: say(words) for kind, words in MEANING.items()}
    view = {"op": op, "tables": tables, "order": order, "ends": ends, "meaning": meaning, **START}
    return DispatchView(view).show()


def _rows(op: str) -> dict[str, dict[str, Any]]:
    table = dispatch_table(op)
    return {
        key: {"kind": entry.kind, "where": entry.where, "falls": entry.falls_through}
        for key in in_order(_KEYS)
        if (entry := table.get(key))
    }
