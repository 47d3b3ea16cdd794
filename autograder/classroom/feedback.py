"""The page that a student gets back: nbgrader's own, made to open without a network and to run
nothing.

This module imports nbconvert. Import it where it is used.
"""

from __future__ import annotations

from typing import Any

from nbconvert.exporters import HTMLExporter
from traitlets import default

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"


class FeedbackPage(HTMLExporter):
    """`HTMLExporter` without MathJax from elsewhere, and with a policy that forbids every script,
    whatever an answer contains."""

    @default("mathjax_url")
    def _no_mathjax(self) -> str:
        return ""

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> Any:
        page, resources = super().from_notebook_node(nb, resources, **kw)
        policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        return page.replace("<head>", f"<head>\n{policy}", 1), resources
