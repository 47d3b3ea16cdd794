"""The course in Spanish in JupyterLab: from the page that opens to answers that pass."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from autograder.attacks.sample_class import LAB, NAME, QUESTIONS, right_answers, wrong_source
from autograder.judge import content, in_language, say
from tests.notebook.jupyter_lab import COURSE, ROOT, Notebook, Server, jupyter_lab
from tests.notebook.test_jupyter_lab import Newcomer, explained_after_its_guess, opened, shoot

pytestmark = pytest.mark.kernel

HOME, LAB_01 = "es/notebooks/home.ipynb", f"es/labs/{NAME}/{NAME}.ipynb"
FIRST = QUESTIONS[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("jupyter")
    for room in ("notebooks", "labs", "es"):
        shutil.copytree(ROOT / room, place / "course" / room)
    command = (*COURSE, "--language", "es")
    with jupyter_lab(place / "course", place / "rooms", command) as started:
        yield started


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    with opened(browser, server) as page:
        yield page


def test_lab_01_is_taken_in_spanish(page: Any) -> None:
    """Home, the lab, each question wrong by its name and then right, a hint, the progress."""
    home = Notebook(page, HOME)
    home.run_all()
    shoot(page, "es-home")
    page.get_by_role("link", name="laboratorio 01").click()
    lab, me = Notebook(page, LAB_01), Newcomer(page)
    assert lab.cell("title").get_by_role("heading").inner_text() == "Laboratorio 01: strides"
    with in_language("es"):
        for question in QUESTIONS:
            me.run_down_to(lab, question)
            _wrong_then_right(lab, me, question)
        lab.write(FIRST, f'hint("{FIRST}")')
        lab.run_all()
        hint = lab.shown(FIRST, ".ol-card")
        assert content(LAB.questions[FIRST].hints[0]) in hint.inner_text()
        card = lab.shown("where-you-are-run", ".ol-card").inner_text()
        assert card.count(say("mark.pass")) == len(QUESTIONS)
        shoot(page, "es-progress")


def _wrong_then_right(lab: Notebook, me: Newcomer, question: str) -> None:
    """Answers with the first known wrong answer, which is named, then with the right one."""
    known = LAB.questions[question].wrong_answers[0]
    wrong = me.answer(lab, question, wrong_source(question, known))
    text = wrong.inner_text()
    assert re.sub("[*`]", "", content(known.sentence)) in text
    assert "fail" not in text
    assert wrong.get_attribute("aria-label").startswith(f"{question}: {say('mark.fail')}, ")
    shoot(lab.page, f"es-wrong-{question}")
    right = me.answer(lab, question, right_answers()[question])
    assert right.get_attribute("aria-label").startswith(f"{question}: {say('mark.pass')}, ")


def test_what_explains_a_guess_is_closed_in_spanish_too(page: Any) -> None:
    path = "es/notebooks/01_strides.ipynb"
    page.goto(f"{page.url.partition('/lab')[0]}/lab/tree/{path}")
    with in_language("es"):
        told = explained_after_its_guess(page, path, "153,600")
    assert told.startswith("Dijiste: 153,600. ")
