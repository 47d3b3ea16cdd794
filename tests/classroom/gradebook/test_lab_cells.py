"""The cells of a lab in the gradebook, and what nbgrader's Validate button tells a student."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.validator import Validator

from autograder.attacks.sample_class import NAME, filled
from autograder.classroom.gradebook.course import prepare
from autograder.classroom.intake.release import graded
from tests.classroom.made_class import FREE_TEXT, RELEASE


def validated(folder, answers):
    """What Validate finds when every check passes: cells are not run here."""
    path = folder / f"{NAME}.ipynb"
    path.write_text(json.dumps(filled(answers)), encoding="utf-8")
    button = Validator()
    button.preprocessors = []
    return button.validate(str(path))


@pytest.mark.parametrize("answers", [{}, {FREE_TEXT: "Because both share floats."}])
def test_a_free_text_is_no_failure_whether_it_is_written_or_not(tmp_path, answers):
    assert validated(tmp_path, answers) == {}


def test_a_check_that_somebody_changed_is_found_all_the_same(tmp_path):
    """The planted fault."""
    found = validated(tmp_path, {"address_check": 'print("passed")'})
    assert [cell["source"] for cell in found["changed"]] == ['print("passed")']


def test_the_gradebook_knows_every_cell_by_a_checksum(tmp_path):
    prepare(tmp_path, RELEASE)
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as book:
        cells = book.find_notebook(NAME, NAME).source_cells
        assert all(cell.checksum for cell in cells)
        told = {cell.name: cell.checksum for cell in cells}
    theirs = [cell for cell in RELEASE.cells if "checksum" in graded(cell)]
    assert len(theirs) > 20
    assert all(told[cell["id"]] == graded(cell)["checksum"] for cell in theirs)
    given_out = nbformat.reads(RELEASE.notebook.decode(), as_version=4)
    (free,) = [cell for cell in given_out.cells if cell.id == FREE_TEXT]
    assert "checksum" not in free.metadata.nbgrader
