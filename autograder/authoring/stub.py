"""The step of `generate_assignment` that puts each question's own stub where its solution stood.

nbgrader has one stub per course. Ours differ by question, so the generator leaves each stub in its
cell's metadata, and this preprocessor hands it to nbgrader's own `ClearSolutions`, which indents
and inserts it as it does any stub.

This module imports nbgrader, which takes a second. Import it where it is used.
"""

from __future__ import annotations

from typing import Any

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions

from autograder.authoring.notebook import OURS

TEXT_STUB = "*Your answer here.*"


class ClearToStub(ClearSolutions):  # type: ignore[misc]
    """`ClearSolutions` with the stub of the cell at hand. A cell without one gets nbgrader's."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        stub = cell.metadata.pop(OURS, {}).get("stub")
        self.text_stub = TEXT_STUB
        self.code_stub = self.traits()["code_stub"].default() | ({"python": stub} if stub else {})
        answer: tuple[Any, Any] = super().preprocess_cell(cell, resources, cell_index)
        return answer


def preprocessors() -> list[type]:
    """For `GenerateAssignment.preprocessors`: nbgrader's own list, with `ClearToStub` in the place
    of `ClearSolutions`.

    Whoever releases a lab into a real gradebook needs the same list; with nbgrader's the stubs
    would say less.
    """
    ordinary = GenerateAssignment.preprocessors.default()
    return [ClearToStub if step is ClearSolutions else step for step in ordinary]
