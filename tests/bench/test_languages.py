"""`python -m bench.languages`: what it finds in a course that was run in another language."""

from __future__ import annotations

import shutil
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner

from autograder.judge import say
from bench import languages

pytestmark = pytest.mark.kernel


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(languages.main, list(arguments))
    return done.exit_code, done.output


def test_a_lab_as_given_out_runs_in_spanish() -> None:
    code, said = run(*["es", "labs/00_open"])
    assert (code, said.splitlines()[-1]) == (0, "1 notebooks, 0 faults.")


def test_what_raises_and_what_is_in_english_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that passes in a lab as given out, a sentence of ours in English, an error."""
    path = Path("es", "labs", "01_strides", "01_strides.ipynb")
    (tmp_path / path).parent.mkdir(parents=True)
    shutil.copy(languages.ROOT / path, tmp_path / path)
    made = nbformat.read(tmp_path / path, as_version=4)  # type: ignore[no-untyped-call]
    cells = {cell.id: cell for cell in made.cells}
    made.cells = [cells[name] for name in ("bring-the-course", "address_check", "address")]
    cells["address_check"].source = "print('address   bien')"
    cells["address"].source = f"print({say('all_done')!r})\n1 / 0"
    nbformat.write(made, tmp_path / path)  # type: ignore[no-untyped-call]
    monkeypatch.setattr(languages, "ROOT", tmp_path)
    code, said = run("es")
    assert code == 1
    assert "raised: ZeroDivisionError: division by zero" in said
    assert "address_check: address   bien" in said
    assert f"address is in English: {say('all_done')!r}" in said
    assert "1 notebooks, 3 faults." in said


def test_a_name_that_no_notebook_has_is_a_sentence() -> None:
    code, said = run("es", "13_nothing")
    assert (code, said.count("\n")) == (1, 1)
    assert "There is no notebook of 'es'" in said
