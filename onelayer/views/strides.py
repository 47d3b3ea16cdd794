"""`show_strides`: sizes, strides and an offset to play with, over a row of floats.

All arithmetic and drawing is in `strides.js`, so that the same view runs in a notebook, where it
is an anywidget, and on a page without a kernel.
"""

import json
import math
import secrets
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from onelayer.layout import Layout, grid_text
from onelayer.views.display import Shown

_HERE = Path(__file__).parent
_LIMIT = 100_000  # elements, as in strides.js


class StridesView(Shown):
    """The stride visualizer. `shape`, `stride` and `offset` follow what the reader does with it."""

    def __init__(self, view: dict[str, Any]) -> None:
        self._view = view
        self.widget = _widget(view)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._now["shape"])

    @property
    def stride(self) -> tuple[int, ...]:
        return tuple(self._now["stride"])

    @property
    def offset(self) -> int:
        return int(self._now["offset"])

    def html(self) -> str:
        """The view as a piece of a page that needs no kernel, no network and no other file.

        Put as many on one page as you like. Where scripts may not run, its text is left.
        """
        place = f"onelayer-strides-{secrets.token_hex(6)}"
        state = json.dumps(self._now).replace("<", "\\u003c")
        script = (
            f"{_source('strides.js')}\n"
            f'const place = document.getElementById("{place}");\n'
            f"if (place) {{ place.replaceChildren(); "
            f"render({{ model: standalone({state}), el: place }}); }}"
        )
        return (
            f"<style>{_source('strides.css')}</style>"
            f'<div id="{place}"><pre>{escape(repr(self))}</pre></div>'
            f'<script type="module">{script}</script>'
        )

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        layout = Layout("x", "float32", self.shape, self.stride, self.offset, 0, "")
        title = f"x: shape {self.shape}, strides {self.stride}, offset {self.offset}"
        return "\n".join([f"{title}, over {self._now['size']} floats", *grid_text(layout)])

    def bundle(self) -> dict[str, Any]:
        return {**_widget_bundle(self.widget), "text/html": self.html(), "text/plain": repr(self)}

    @property
    def _now(self) -> dict[str, Any]:
        return self._view if self.widget is None else dict(self.widget.view)


def show_strides(
    shape: Sequence[int] = (3, 4), stride: Sequence[int] | None = None, *, offset: int = 0
) -> StridesView:
    """The stride visualizer: change sizes, strides and offset, apply views, see which float each
    element reads.

        show_strides((3, 4))
        show_strides((2, 3), stride=(1, 1), offset=4)

    `stride` is row-major unless given; strides and offset count elements. The storage is just long
    enough for the start. In a notebook with anywidget the view answers to the kernel; elsewhere it
    is the same view as HTML.

    Raises ValueError for negative numbers, for strides that do not match the sizes in number, and
    for more than 100,000 elements.
    """
    sizes = [int(n) for n in shape]
    if min([*sizes, *(stride or ()), offset, 0]) < 0:
        raise ValueError(f"a negative number in {sizes}, strides {stride} or offset {offset}")
    if (numel := math.prod(sizes)) > _LIMIT:
        raise ValueError(f"{numel:,} elements are too many to walk over: at most {_LIMIT:,}")
    steps = _row_major(sizes) if stride is None else [int(s) for s in stride]
    if len(steps) != len(sizes):
        raise ValueError(f"{len(sizes)} sizes {sizes}, but {len(steps)} strides {steps}")
    reach = 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True)) if numel else 0
    view = {"shape": sizes, "stride": steps, "offset": int(offset), "size": int(offset) + reach}
    shown = StridesView(view)
    shown.show()
    return shown


def _row_major(sizes: list[int]) -> list[int]:
    import torch  # here, as a page with strides of its own does not need it

    return list(torch.empty(sizes, device="meta").stride())


def _source(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _widget(view: dict[str, Any]) -> Any:
    try:
        return _widget_class()(view=view)
    except ImportError:
        return None


@cache
def _widget_class() -> Any:
    anywidget, traitlets = import_module("anywidget"), import_module("traitlets")
    members = {
        "_esm": _source("strides.js"),
        "_css": _source("strides.css"),
        "view": traitlets.Dict().tag(sync=True),
        "__module__": __name__,
    }
    return type("StridesWidget", (anywidget.AnyWidget,), members)


def _widget_bundle(widget: Any) -> dict[str, Any]:
    bundle = None if widget is None else widget._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle or {})
