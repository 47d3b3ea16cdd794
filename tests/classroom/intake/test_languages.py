"""A lab that was handed in in another language than English: the same release, the same answers."""

from __future__ import annotations

import json

import pytest

from autograder.attacks.sample_class import ROOT
from autograder.authoring.language import others
from autograder.classroom.intake.rebuild import (
    Ungradable,
    language_named_in,
    notebook,
    rebuild,
    untouched_in,
)
from autograder.classroom.intake.release import releases
from autograder.classroom.intake.submissions import OTHER_LAB
from autograder.judge.words import content, in_language

RELEASES = releases(ROOT)
EDITIONS = [(lab, code) for lab, release in RELEASES.items() for code in release.twins]


def made(lab, code):
    return json.loads(RELEASES[lab].twins[code])


def data(twin):
    return json.dumps(twin).encode()


def test_each_lab_is_given_out_in_each_language():
    codes = [one.code for one in others(ROOT)]
    assert "es" in codes
    assert len(RELEASES) == 13
    assert [(lab, code) for lab in RELEASES for code in codes] == EDITIONS


@pytest.mark.parametrize(("lab", "code"), EDITIONS)
def test_an_untouched_lab_is_an_untouched_lab(lab, code):
    release = RELEASES[lab]
    rebuilt = rebuild(data(made(lab, code)), release)
    assert rebuilt.language == code
    assert rebuilt.answers == {name: cell["source"] for name, cell in release.answers.items()}
    assert notebook(release, rebuilt)["cells"] == release.cells
    assert untouched_in(data(made(lab, code)), release) == code
    assert untouched_in(release.notebook, release) == "en"


@pytest.mark.parametrize(("lab", "code"), EDITIONS)
def test_a_lab_with_one_answer_touched_or_lost_is_touched(lab, code):
    release = RELEASES[lab]
    for name in release.answers:
        twin = made(lab, code)
        (cell,) = (cell for cell in twin["cells"] if cell["id"] == name)
        cell["source"] = "".join(cell["source"]) + "\n# mío"
        assert untouched_in(data(twin), release) == ""
        twin["cells"].remove(cell)
        assert untouched_in(data(twin), release) == ""


@pytest.mark.parametrize("made", [b"", b"{}", b"\xff", b'{"cells": []}'])
def test_what_is_no_notebook_of_the_lab_is_none_that_nobody_touched(made):
    assert untouched_in(made, RELEASES["01_strides"]) == ""


@pytest.mark.parametrize(("lab", "code"), EDITIONS)
@pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])
def test_answers_are_found_as_in_english(lab, code, ids):
    """Each answer's cell is filled; tools that lose ids lose them here too."""
    release = RELEASES[lab]
    twin, filled = made(lab, code), {}
    for cell in twin["cells"]:
        if cell["id"] in release.answers:
            text = "".join(cell["source"]) + "\n# mío"
            filled[cell["id"]] = text = text if cell["cell_type"] == "code" else "Porque sí."
            cell["source"] = text
        if not ids:
            cell["metadata"] = {}
    if not ids:
        for cell in twin["cells"]:
            del cell["id"]
    found = rebuild(data(twin), release).answers
    assert {name: found.get(name) for name in filled if ids or name in found} == {
        name: text for name, text in filled.items() if ids or name in found
    }
    defining = set(release.functions) | {
        n for n, c in release.answers.items() if c["cell_type"] != "code"
    }
    assert defining <= set(found)


@pytest.mark.parametrize("said", ["xx", "", None, ["es"], {"es": 1}, "../es"])
def test_a_language_that_the_lab_was_not_given_out_in_is_none(said):
    twin = made("01_strides", "es")
    twin["metadata"]["onelayer"]["language"] = said
    assert rebuild(data(twin), RELEASES["01_strides"]).language == "en"
    twin["metadata"] = said
    assert rebuild(data(twin), RELEASES["01_strides"]).language == "en"


def test_both_stubs_beside_an_answer_do_not_count_against_it():
    release, twin = RELEASES["01_strides"], made("01_strides", "es")
    (stub,) = (cell for cell in twin["cells"] if cell["id"] == "address")
    english = {**stub, "source": release.answers["address"]["source"]}
    answer = {**stub, "source": "def address(index, size, stride, offset):\n    return 41\n"}
    twin["cells"] += [english, answer]
    assert rebuild(data(twin), release).answers["address"] == answer["source"]
    twin["cells"].remove(answer)
    assert rebuild(data(twin), release).answers["address"] == english["source"]


def test_a_refusal_knows_the_language_that_the_notebook_names():
    twin = made("01_strides", "es")
    twin["cells"] = []
    for handed_in, language in ((data(twin), "es"), (data(twin)[:-1], "en")):
        with pytest.raises(Ungradable):
            rebuild(handed_in, RELEASES["01_strides"])
        assert language_named_in(handed_in, RELEASES["01_strides"]) == language


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"\xff", lambda _: b"{}"])
def test_why_a_hand_in_is_refused_is_said_in_its_students_language(damage):
    with pytest.raises(Ungradable) as refused:
        rebuild(damage(data(made("01_strides", "es"))), RELEASES["01_strides"])
    english = str(refused.value)
    with in_language("es"):
        assert content(english) != english
    assert content(english) == english
    with in_language("es"):
        said = content(OTHER_LAB.format("02_dispatcher", "01_strides"))
    assert said == "Entregaste el notebook de 02_dispatcher. Entrega 01_strides.ipynb."
