"""A student's own copy of a lab: other numbers where the text says them, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.utils import compute_checksum

import autograder.checks
from autograder.attacks.sample_class import ROOT
from autograder.classroom.errors import UserError
from autograder.classroom.intake.personal import personal, prose
from autograder.classroom.intake.rebuild import rebuild
from autograder.classroom.intake.release import Release, releases
from autograder.judge import Draw, Lab, Student

ALL = releases(ROOT)
KNOWN = {
    name: release
    for name, release in ALL.items()
    if any(question.variant for question in release.lab)
}
SPANISH = "es"
BF16 = {"step_bytes": {"itemsize": 2}}
ELEVEN = KNOWN["11_distributed"]


def every() -> Iterator[Any]:
    for name, release in KNOWN.items():
        for question in release.lab:
            for numbers in question.variants if question.variant else ():
                for language in ("en", *release.twins):
                    shown = f"{name}-{numbers}-{language}"
                    yield pytest.param(release, {question.name: numbers}, language, id=shown)


def cells(data: bytes) -> dict[str, Any]:
    return {cell["id"]: cell for cell in json.loads(data)["cells"]}


@pytest.mark.parametrize(("release", "variant", "language"), list(every()))
def test_each_number_is_said_once_in_each_language(
    release: Release, variant: dict[str, dict[str, int]], language: str
) -> None:
    """The lab's builders may break its lines and translate its words: it raises where a phrase is
    lost, and this is where they learn of it."""
    before = cells(personal(release, {}, language))
    after = cells(personal(release, variant, language))
    changed = {name for name in after if after[name]["source"] != before[name]["source"]}
    (question,) = variant
    assert f"{question}_check" in changed
    assert not changed & set(release.answers)
    is_public = variant[question] == release.lab.questions[question].variants[0]
    assert is_public or any(after[name]["cell_type"] == "markdown" for name in changed)


def test_without_numbers_it_is_the_release_byte_for_byte() -> None:
    assert personal(ELEVEN, {}) == ELEVEN.notebook
    assert personal(ELEVEN, {}, SPANISH) == ELEVEN.twins[SPANISH]
    without = next(release for name, release in ALL.items() if name not in KNOWN)
    assert personal(without, {}) == without.notebook


def test_validate_finds_no_cell_changed() -> None:
    made = nbformat.reads(personal(ELEVEN, BF16).decode(), as_version=4)
    nbformat.validate(made)
    signed = [c for c in made.cells if "checksum" in c.metadata.get("nbgrader", {})]
    assert len(signed) > 20
    assert all(compute_checksum(c) == c.metadata.nbgrader.checksum for c in signed)


def test_the_text_the_check_and_the_count_behind_it_agree() -> None:
    said = {name: "".join(cell["source"]) for name, cell in cells(personal(ELEVEN, BF16)).items()}
    assert "bfloat16" in said["the-bill"]
    assert "76,800" in said["the-bill"]
    assert "float32" not in said["the-bill"]
    assert said["step_bytes_check"] == 'check("step_bytes", itemsize=2)'
    assert said["counted-run"].count("dtype=torch.bfloat16") == 2
    compile(said["counted-run"], "counted-run", "exec")


def test_a_lab_that_no_longer_says_a_number_is_refused() -> None:
    silent = replace(ELEVEN, notebook=ELEVEN.notebook.replace(b"153,600", b"many"))
    with pytest.raises(UserError, match=r"153,600.* 0 times"):
        personal(silent, BF16)
    french = replace(ELEVEN, twins={"fr": ELEVEN.notebook})
    with pytest.raises(UserError, match="does not say itemsize of step_bytes in 'fr'"):
        personal(french, BF16, "fr")


def test_a_hand_in_of_an_own_copy_is_rebuilt_from_the_one_release() -> None:
    public, own = rebuild(ELEVEN.notebook, ELEVEN), rebuild(personal(ELEVEN, BF16), ELEVEN)
    assert own == public
    spanish = rebuild(personal(ELEVEN, BF16, SPANISH), ELEVEN)
    assert (spanish.answers, spanish.language) == (public.answers, SPANISH)


def test_the_page_says_what_the_own_copy_says() -> None:
    told = prose(ELEVEN, BF16, SPANISH)
    assert "bfloat16" in told["the-bill"]
    assert "palabras" in told["the-bill"]
    assert prose(ELEVEN, {}, SPANISH) == {}
    assert "two bytes each" in prose(ELEVEN, BF16, "en")["the-bill"]


PHRASES = {
    "sum": {"rows": {2: ["two rows"], 3: ["three rows"]}, "columns": {4: ["by 4"], 5: ["by 5"]}},
    "mean": {"rows": {2: ["a mean of 2"], 3: ["a mean of 3"]}},
}
SHEET = {"rows": 3, "columns": 5}


def cell(name: str, source: str, **nbgrader: str) -> dict[str, Any]:
    metadata = {"nbgrader": nbgrader} if nbgrader else {}
    return {"id": name, "cell_type": "markdown", "source": [source], "metadata": metadata}


CELLS = [
    cell("sheet", "A sheet of two\nrows, by 4.", grade_id="sheet", checksum="of the release"),
    cell("mean", "It has a mean of 2."),
    cell("checks", 'check("sum")\ncheck("mean")', grade_id="checks"),
]


@pytest.fixture
def sheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """A lab of two questions that have numbers, one of them two."""
    lab = Lab("98_sheets", "Sheets")
    about: dict[str, Any] = {"points": 1.0, "minutes": 1, "difficulty": 1, "hints": ("a", "b", "c")}

    @lab.question("sum", variant={"rows": (2, 3), "columns": (4, 5)}, **about)
    def sum_of_all(student: Student, draw: Draw, *, rows: int = 2, columns: int = 4) -> None:
        """The sum."""

    @lab.question("mean", variant={"rows": (2, 3)}, **about)
    def mean_of_all(student: Student, draw: Draw, *, rows: int = 2) -> None:
        """The mean."""

    monkeypatch.setattr(autograder.checks, "__path__", [str(tmp_path)])
    write_phrases(tmp_path, PHRASES)
    return Release(lab, json.dumps({"cells": CELLS}).encode())


def write_phrases(checks: Path, phrases: dict[str, Any]) -> None:
    lines = [
        f"{question}.{number}.en.{value} = {json.dumps(said)}"
        for question, numbers in phrases.items()
        for number, values in numbers.items()
        for value, said in values.items()
    ]
    place = checks / "lab98_sheets" / "variants.toml"
    place.parent.mkdir(exist_ok=True)
    place.write_text("\n".join(lines))


def test_each_number_of_each_question_is_said(sheets: Release) -> None:
    own = cells(personal(sheets, {"sum": SHEET, "mean": {"rows": 3}}))
    assert {name: "".join(one["source"]) for name, one in own.items()} == {
        "sheet": "A sheet of three rows, by 5.",
        "mean": "It has a mean of 3.",
        "checks": 'check("sum", rows=3, columns=5)\ncheck("mean", rows=3)',
    }


def test_only_what_the_release_signed_is_signed_again(sheets: Release) -> None:
    """A cell that nbgrader does not lock gets no checksum, and one that says the same keeps its."""
    own = cells(personal(sheets, {"sum": SHEET, "mean": {"rows": 3}}))
    assert len(own["sheet"]["metadata"]["nbgrader"]["checksum"]) == 32
    assert own["mean"]["metadata"] == {}
    assert own["checks"]["metadata"] == {"nbgrader": {"grade_id": "checks"}}
    mean_alone = cells(personal(sheets, {"mean": {"rows": 3}}))
    assert mean_alone["sheet"] == CELLS[0]


def test_a_phrase_that_only_one_number_has_is_refused(sheets: Release, tmp_path: Path) -> None:
    """Its own copy would go on saying the number of the public lab."""
    write_phrases(tmp_path, PHRASES | {"mean": {"rows": {2: ["a mean", "of 2"], 3: ["a mean"]}}})
    with pytest.raises(ValueError, match="shorter"):
        personal(sheets, {"mean": {"rows": 3}})
