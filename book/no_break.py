"""A number and its unit stand in one line: "4.1 s" is no "4.1" above an "s"."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

UNIT = r"[num\u00b5]?s|[kMGT]i?B|[kMGT]?FLOPs?|[kMG]?Hz|px|x|%"
APART = re.compile(rf"(?<=\d) (?=(?:{UNIT})(?![\w-]))")
NOT_PROSE = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)


def joined(text: str) -> str:
    """`text` with a no-break space between each number and its unit."""
    return APART.sub("\u00a0", text)


class NumbersWithTheirUnits(SphinxPostTransform):
    """Joins them on every page. Code keeps its spaces, and so does what the search is told."""

    default_priority = 900

    def run(self, **_: object) -> None:
        for text in list(self.document.findall(nodes.Text)):
            if (said := joined(text)) != text and not isinstance(text.parent, NOT_PROSE):
                text.parent.replace(text, nodes.Text(said))
