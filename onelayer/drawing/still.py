"""A picture that does not move: drawn for a light page and for a dark one, and said in words."""

from base64 import b64encode
from functools import cached_property
from html import escape
from io import BytesIO
from typing import Any

from .display import Shown
from .sketch import DARK, LIGHT, Ink


class Still(Shown):
    """Something that shows itself as a picture; its repr is its text twin."""

    @property
    def alt(self) -> str:
        """The picture in words."""
        return repr(self)

    def drawn(self, ink: Ink) -> bytes:
        """The picture as a PNG on a transparent ground, for the page that `ink` is for."""
        raise NotImplementedError

    @cached_property
    def images(self) -> tuple[bytes, bytes]:
        """For a light page, for a dark one."""
        return self.drawn(LIGHT), self.drawn(DARK)

    def html(self) -> str:
        """Both images as HTML; the page's theme decides which is seen."""
        light, dark = self.images
        shown = _img(light, "light", self.alt)
        # The inline style holds where a sanitizer drops the rules.
        hidden = _img(dark, "dark", self.alt).replace("<img ", '<img style="display:none" ', 1)
        # It shrinks to the page; with focus, by a tap or the keyboard, it is large and scrolls.
        opened = '<figure class="onelayer-sketch" tabindex="0">'
        return f"{opened}<style>{_CSS}</style>{shown}{hidden}</figure>"

    def with_text(self) -> str:
        """The same, and under it the text twin, for a picture that gives no numbers."""
        return f"{self.html()}<pre>{escape(repr(self))}</pre>"

    def bundle(self) -> dict[str, Any]:
        png = b64encode(self.images[0]).decode()
        return {"text/plain": repr(self), "text/html": self.html(), "image/png": png}

    def _repr_png_(self) -> bytes:
        return self.images[0]

    def _repr_html_(self) -> str:
        return self.html()


def _img(png: bytes, theme: str, alt: str) -> str:
    width = int.from_bytes(png[16:20]) // 2  # from the PNG's header
    data = b64encode(_webp(png)).decode()
    return (
        f'<img class="onelayer-{theme}" alt="{escape(alt)}" width="{width}" '
        f'src="data:image/webp;base64,{data}">'
    )


def _webp(png: bytes) -> bytes:
    """The picture in 256 colours, of which no drawing of ours needs more: a quarter of the bytes.
    Every browser since 2020 reads it."""
    from PIL import Image  # matplotlib has it

    file = BytesIO()
    few = Image.open(BytesIO(png)).convert("RGBA").quantize(method=Image.Quantize.FASTOCTREE)
    few.convert("RGBA").save(file, format="webp", lossless=True)
    return file.getvalue()


# First what the system prefers, then what JupyterLab, Sphinx, Colab or VS Code say of this page.
_CSS = """
.onelayer-sketch { margin: .4em 0; overflow-x: auto }
.onelayer-sketch img { max-width: 100%; height: auto; background: none }
.onelayer-sketch:focus img { max-width: none }
@media (prefers-color-scheme: dark) {
.onelayer-sketch .onelayer-light { display: none !important }
.onelayer-sketch .onelayer-dark { display: inline !important } }
:is([data-jp-theme-light=false],[data-theme=dark],[theme=dark],.vscode-dark) .onelayer-light
{ display: none !important }
:is([data-jp-theme-light=false],[data-theme=dark],[theme=dark],.vscode-dark) .onelayer-dark
{ display: inline !important }
:is([data-jp-theme-light=true],[data-theme=light],[theme=light],.vscode-light) .onelayer-light
{ display: inline !important }
:is([data-jp-theme-light=true],[data-theme=light],[theme=light],.vscode-light) .onelayer-dark
{ display: none !important }
"""
