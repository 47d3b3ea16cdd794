"""A student's own copy of a lab: other numbers where the text says them, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import nbformat
import pytest
from nbgrader.utils import compute_checksum

from autograder.attacks.sample_class import ROOT
from autograder.classroom.errors import UserError
from autograder.classroom.intake.personal import personal, prose
from autograder.classroom.intake.rebuild import rebuild
from autograder.classroom.intake.release import Release, releases

KNOWN = {
    name: release
    for name, release in releases(ROOT).items()
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
