"""The page that a student gets back: nbgrader's own, made to open without a network and to run
nothing.

This module imports nbconvert. Import it where it is used.
"""

import re
from typing import Any

from nbconvert.exporters import HTMLExporter

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_FONT = re.compile(r"@font-face\s*\{[^}]*\}")
"""The template asks for icons in files that nobody has."""
_OURS = "<style>.anchor-link { display: none } img, svg { max-width: 100% }</style>"


class FeedbackPage(HTMLExporter):
    """`HTMLExporter` without a script (the template's only one fetches MathJax from elsewhere), and
    with a policy that forbids every other, whatever an answer contains."""

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> Any:
        page, resources = super().from_notebook_node(nb, resources, **kw)
        policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        page = _FONT.sub("", _SCRIPT.sub("", page))
        page = page.replace("<head>", f"<head>\n{policy}", 1)
        return page.replace("</head>", f"{_OURS}\n</head>", 1), resources
