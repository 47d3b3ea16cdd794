"""A page shows the card of a guess, and of its answer, without the lines that made it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from autograder.authoring.guess_answers import ASKING, called, statements


def without_guesses(sources: Sequence[str]) -> list[str]:
    """The code of a page's cells without its calls of `predict` and `reveal`, and without the names
    for a choice's words that only these calls read."""
    cells = [list(statements(source)) for source in sources]
    asking = [[line for line in cell if called(line) in ASKING] for cell in cells]
    kept = [line for cell in cells for line in cell if called(line) not in ASKING]
    for cell, gone in zip(cells, asking, strict=True):
        for line in reversed(cell):
            named = _named_words(line)
            elsewhere = {name for other in kept if other is not line for name in _names(other)}
            if named and named <= {name for one in gone for name in _names(one)} - elsewhere:
                gone.append(line)
                kept.remove(line)
    return [_without(source, gone) for source, gone in zip(sources, asking, strict=True)]


def _without(source: str, gone: Sequence[ast.stmt]) -> str:
    out = {row for line in gone for row in range(line.lineno, (line.end_lineno or 0) + 1)}
    rows = enumerate(source.split("\n"), start=1)
    return "\n".join(row for number, row in rows if number not in out).strip("\n")


def _named_words(line: ast.stmt) -> set[str]:
    """What the statement gives a name, where words are in it. A call may be the experiment, and the
    word between brackets is a key."""
    if not isinstance(line, ast.Assign) or any(isinstance(n, ast.Call) for n in ast.walk(line)):
        return set()
    keys = [node.slice for node in ast.walk(line.value) if isinstance(node, ast.Subscript)]
    words = [n for n in ast.walk(line.value) if isinstance(n, ast.Constant) and n not in keys]
    if not any(isinstance(word.value, str) for word in words):
        return set()
    return {name for target in line.targets for name in _names(target)}


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class CodeWithoutGuesses(SphinxPostTransform):
    """Takes them off the code that a page shows; the cell has run with them, and the notebook that
    a reader downloads keeps them."""

    default_priority = 900

    def run(self, **_: object) -> None:
        boxes = [one for one in self.document.findall(nodes.container) if _is_input(one)]
        blocks = [next(iter(box.findall(nodes.literal_block))) for box in boxes]
        shown = without_guesses([block.astext() for block in blocks])
        for box, block, code in zip(boxes, blocks, shown, strict=True):
            if not code:
                box.parent.remove(box)
            block.rawsource, block.children = code, [nodes.Text(code)]


def _is_input(box: nodes.container) -> bool:
    return "cell_input" in box.get("classes", ()) and any(box.findall(nodes.literal_block))
