"""A graded class in nbgrader's formgrader: a person marks free text, and grading again keeps it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.attacks.sample_class import LAB, NAME, filled, right_answers, wrong_source
from tests.notebook.jupyter_lab import PLAIN, ROOT, SCREENSHOTS, Server, jupyter_lab

FREE_TEXT = "why_silent"
WRONG = "address"
TEXT = "Both share floats. <script>document.title = 'owned'</script><img src=x onerror=alert(1)>"
PATIENCE_MS = 120_000
pytestmark = [pytest.mark.jail, pytest.mark.whole_class]


def hand_in(folder: Path, **different: str) -> None:
    """Ada's notebook: all right, but for these."""
    (folder / "ada").mkdir(parents=True, exist_ok=True)
    made = filled({**right_answers(), FREE_TEXT: TEXT, **different})
    (folder / "ada" / f"{NAME}.ipynb").write_text(json.dumps(made), encoding="utf-8")


def grade(handed_in: Path, out: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "autograder.cli", "grade", str(handed_in), "--out", str(out)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def class_(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where the notebooks are handed in, and where they were graded."""
    place = tmp_path_factory.mktemp("class")
    wrong = next(w for w in LAB.questions[WRONG].wrong_answers)
    hand_in(place / "hand-in", **{WRONG: wrong_source(WRONG, wrong)})
    said = grade(place / "hand-in", place / "grading")
    assert f"cd {place / 'grading'} && jupyter lab, then formgrader" in said
    return place / "hand-in", place / "grading"


@pytest.fixture(scope="module")
def server(class_: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab as `autograder grade` says to start it."""
    rooms = tmp_path_factory.mktemp("formgrader") / "rooms"
    with jupyter_lab(class_[1], rooms, PLAIN) as started:
        yield started


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    page.dialogs = []
    page.on("dialog", lambda dialog: (page.dialogs.append(dialog.message), dialog.dismiss()))
    page.route(lambda url: not url.startswith(server.url), lambda route: route.abort())
    yield page
    page.close()


def shoot(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"formgrader-{name}.png")


def test_a_mark_given_in_formgrader_survives_grading_again(
    page: Any, server: Server, class_: tuple[Path, Path]
) -> None:
    open_submission(page, server)
    assert LAB.questions[WRONG].wrong_answers[0].sentence[:40] in page.locator("body").inner_text()
    assert score(page, f"{WRONG}_check").get_attribute("placeholder") == "0"
    assert page.title() != "owned"
    score(page, f"{WRONG}_check").scroll_into_view_if_needed()
    shoot(page, "verdict")
    field = score(page, FREE_TEXT)
    assert "needs_manual_grade" in field.get_attribute("class")
    field.fill("4")
    with page.expect_response(lambda answer: "/api/grade/" in answer.url) as saved:
        field.press("Tab")
    assert saved.value.ok
    shoot(page, "marked")
    hand_in(class_[0])  # and now the wrong answer is right
    grade(*class_)
    open_submission(page, server)
    assert float(score(page, FREE_TEXT).input_value()) == 4
    assert float(score(page, f"{WRONG}_check").get_attribute("placeholder")) > 0
    assert total(class_[1]) == sum(question.points for question in LAB) + 4
    assert page.dialogs == []


def open_submission(page: Any, server: Server) -> None:
    """From formgrader's list of assignments to Ada's notebook, by its links."""
    page.goto(server.address("formgrader/gradebook"))
    for link in (NAME, NAME, "Submission #1"):
        page.get_by_role("link", name=link, exact=True).first.click()
    score(page, FREE_TEXT).wait_for()
    page.wait_for_load_state("networkidle")


def score(page: Any, cell: str) -> Any:
    return page.locator(f"input.score[id='{cell}']")


def total(folder: Path) -> float:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}") as book:
        found: float = book.find_submission(NAME, "ada").score
        return found
