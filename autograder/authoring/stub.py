"""The steps of `generate_assignment` that are ours: drop the alternatives, put in the stubs, and
let an empty free text be no failure.

nbgrader has one stub per course. Ours differ by question, so the generator leaves each stub in its
cell's metadata, and this preprocessor hands it to nbgrader's own `ClearSolutions`, which indents
and inserts it as it does any stub.

This module imports nbgrader, which takes a second. Import it where it is used.
"""

from typing import Any

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from nbgrader.utils import is_grade, is_solution

from autograder.authoring.language import ENGLISH
from autograder.authoring.notebook import OURS

TEXT_STUB = ENGLISH.answer_here


class DropAlternatives(NbGraderPreprocessor):  # type: ignore[misc]
    """Leaves out the other right answers, which only the instructor's version shows."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        nb.cells = [c for c in nb.cells if c.metadata.get(OURS, {}).get("role") != "alternative"]
        return nb, resources


class ClearToStub(ClearSolutions):  # type: ignore[misc]
    """`ClearSolutions` with the stub of the cell at hand. A cell without one gets nbgrader's."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        stub = cell.metadata.pop(OURS, {}).get("stub")
        self.text_stub = stub or TEXT_STUB
        self.code_stub = self.traits()["code_stub"].default() | ({"python": stub} if stub else {})
        answer: tuple[Any, Any] = super().preprocess_cell(cell, resources, cell_index)
        return answer


class ExpectNoWords(NbGraderPreprocessor):  # type: ignore[misc]
    """Takes the checksum from each free text. By it nbgrader's Validate button knows that nothing
    is written there yet, and tells a student whose answers all pass that validation has failed.
    The gradebook makes the checksum itself: nobody's empty text waits for a person."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        if is_grade(cell) and is_solution(cell):
            del cell.metadata.nbgrader["checksum"]
        return cell, resources


def preprocessors() -> list[type]:
    """For `GenerateAssignment.preprocessors`: nbgrader's own list, with `DropAlternatives` in
    front, `ClearToStub` in the place of `ClearSolutions` and `ExpectNoWords` at the end.

    Whoever releases a lab into a real gradebook needs the same list; with nbgrader's the stubs
    would say less.
    """
    ordinary = GenerateAssignment.preprocessors.default()
    ours = [ClearToStub if step is ClearSolutions else step for step in ordinary]
    return [DropAlternatives, *ours, ExpectNoWords]
