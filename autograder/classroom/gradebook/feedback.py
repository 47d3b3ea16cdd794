"""The page that a student gets back: nbgrader's own, made to open without a network and to run
nothing.

This module imports nbconvert. Import it where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
REMEMBERED = 512
"""Cells: a lab has fifty, and nine in ten of a page's are the same on all pages."""
_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_FONT = re.compile(r"@font-face\s*\{[^}]*\}")
"""The template asks for icons in files that nobody has."""
_OURS = "<style>.anchor-link { display: none } img, svg { max-width: 100% }</style>"


class FeedbackPage(HTMLExporter):
    """`HTMLExporter` without a script (the template's only one fetches MathJax from elsewhere), and
    with a policy that forbids every other, whatever an answer contains.

    It renders the cells that all pages share once, and leaves out the pass over the finished page
    that gives pictures in outputs a text: ours have none, and it takes half of the time.
    """

    def __init__(self, **kw: Any) -> None:
        super().__init__(**kw)  # type: ignore[no-untyped-call]
        self._markdown = lru_cache(REMEMBERED)(self._plain_markdown)
        self._highlighters: dict[str, Callable[..., str]] = {}

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> Any:
        language = nb.metadata.get("language_info", {})
        lexer = language.get("pygments_lexer", language.get("name"))
        resources = self._init_resources(resources)  # type: ignore[no-untyped-call]
        data_type = WidgetsDataTypeFilter(
            notebook_metadata=self._nb_metadata, parent=self, resources=resources
        )
        filters: Any = {"highlight_code": self._highlighter(lexer), "filter_data_type": data_type}
        for name, made in filters.items():
            self.register_filter(name, made)  # type: ignore[no-untyped-call]
        page, resources = super(HTMLExporter, self).from_notebook_node(nb, resources, **kw)
        policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        page = _FONT.sub("", _SCRIPT.sub("", page))
        page = page.replace("<head>", f"<head>\n{policy}", 1)
        return page.replace("</head>", f"{_OURS}\n</head>", 1), resources

    def _preprocess(self, nb: Any, resources: Any) -> Any:
        """The steps before the page, on the copy made for it. nbconvert makes another, and
        validates the notebook after each step."""
        for step in self._preprocessors:
            nb, resources = step(nb, resources)
        return nb, resources

    def _highlighter(self, lexer: str | None) -> Callable[..., str]:
        """nbconvert's, which remembers what it made of a source."""
        if (lexer or "") not in self._highlighters:
            highlight = Highlight2HTML(pygments_lexer=lexer, parent=self)

            @lru_cache(REMEMBERED)
            def remembered(source: str, language: str | None) -> str:
                return str(highlight(source, language))

            def either(source: str, language: str | None = None, metadata: Any = None) -> str:
                if metadata and "magics_language" in metadata:
                    return str(highlight(source, language, metadata))
                return remembered(source, language)

            self._highlighters[lexer or ""] = either
        return self._highlighters[lexer or ""]

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """nbconvert's, which remembers what it made of a source; pictures in cells it does not."""
        if context.get("cell", {}).get("attachments"):
            return str(super().markdown2html(context, source))
        return self._markdown(source)

    def _plain_markdown(self, source: str) -> str:
        return str(super().markdown2html({}, source))
