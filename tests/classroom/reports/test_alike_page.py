"""The page of answers that are alike, as an instructor gets it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from autograder import cli
from autograder.attacks.sample_class import NAME, filled
from autograder.classroom.reports.alike_page import alike_page, pairs
from tests.classroom.made_class import FREE_TEXT, RELEASE, SCRIPT, grading_folder, record
from tests.classroom.reports.test_fingerprints import COPIED, HIDDEN

NOW = datetime(2026, 11, 20, tzinfo=UTC)
QUESTION = next(name for name, cell in RELEASE.answers.items() if cell["cell_type"] == "code")


def test_two_and_two_side_by_side_and_nothing_of_theirs_is_markup() -> None:
    page = alike_page(RELEASE, {"ann": {QUESTION: COPIED + SCRIPT}, "zoe": {QUESTION: HIDDEN}}, NOW)
    assert page.index("<bdi>ann</bdi></b>") < page.index("<bdi>zoe</bdi></b>")
    assert '<li class="common">        for column in reversed' in page, "indented as it was"
    assert "<li># my own work</li>" in page
    assert "no verdict" in page
    assert "1 pair found" in page
    assert "<script" not in page
    assert "document.title" in page


def test_nobody_alike() -> None:
    page = alike_page(RELEASE, {"ann": {QUESTION: COPIED}, "zoe": {}}, NOW)
    assert "No two answers have more in common" in page


@pytest.mark.slow
def test_the_report_writes_it_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = []
    (tmp_path / "grading" / "received").mkdir(parents=True)
    for student, answer in (("ann", COPIED), ("zoe", HIDDEN)):
        data = json.dumps(filled({FREE_TEXT: "Because.", QUESTION: answer})).encode()
        sha256 = hashlib.sha256(data).hexdigest()
        (tmp_path / "grading" / "received" / f"{sha256}.ipynb").write_bytes(data)
        records.append(replace(record(student), sha256=sha256))
    grading_folder(tmp_path / "grading", records)
    plain = CliRunner().invoke(cli.main, ["report", NAME])
    assert plain.exit_code == 0, plain.output
    place = tmp_path / "grading" / "reports" / NAME / "alike.html"
    assert not place.exists()
    assert place.name not in place.with_name("index.html").read_text()
    asked = CliRunner().invoke(cli.main, ["report", NAME, "--alike"])
    assert asked.exit_code == 0, asked.output
    assert "a reason to look, and no verdict" in asked.output
    assert f"<code>{QUESTION}</code>: <bdi>ann</bdi> and <bdi>zoe</bdi>" in place.read_text()
    assert f'<a href="{place.name}">' in place.with_name("index.html").read_text()
    (tmp_path / "grading" / "received" / f"{sha256}.ipynb").unlink()
    gone = CliRunner().invoke(cli.main, ["report", NAME, "--alike"])
    assert gone.exit_code == 1
    assert "cannot be read" in gone.output


@pytest.mark.parametrize("text", ["a\x1b[31mb", "\ud800", "‮evil", "\t\tx", "x" * 5000])
def test_strange_characters_do_not_break_the_page(text: str) -> None:
    answers = {who: {QUESTION: f"{COPIED}\n'{text}'"} for who in ("ann", "zoe")}
    assert "1 pair found" in alike_page(RELEASE, answers, NOW)


def run_of(size: int, name: str) -> str:
    return " ".join(f"{name}{number}" for number in range(size))


def test_the_most_striking_comes_first_whichever_cell_it_answers() -> None:
    """A long run in two longer texts of their own is less so than one answer that is the other."""
    answers = {
        who: {FREE_TEXT: f"{run_of(120, 'common')} {run_of(900, who)}", QUESTION: code}
        for who, code in (("ann", COPIED), ("zoe", HIDDEN))
    }
    found = {one.question: one for one in pairs(RELEASE, answers)}
    assert found[FREE_TEXT].shared > found[QUESTION].shared
    page = alike_page(RELEASE, answers, NOW)
    assert "2 pairs found" in page
    assert page.index(f"<h2><code>{QUESTION}</code>") < page.index(f"<h2><code>{FREE_TEXT}</code>")
    assert "<h1>Lab 1:" in page


def test_a_page_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autograder.classroom.reports.alike_page.MOST_PAIRS", 2)
    page = alike_page(RELEASE, {who: {QUESTION: COPIED} for who in ("ann", "bob", "cy")}, NOW)
    assert "3 pairs found, the first 2 shown" in page
    assert page.count("<section>") == 2


def test_our_own_solution_is_no_reason() -> None:
    cells = json.loads(RELEASE.instructor or b"{}")["cells"]
    name, ours = max(
        ((cell["id"], "".join(cell["source"])) for cell in cells if cell["id"] in RELEASE.answers),
        key=lambda one: len(one[1]),
    )
    answers = {who: {name: ours} for who in ("ann", "zoe")}
    assert list(pairs(RELEASE, answers)) == []
    assert [one.question for one in pairs(replace(RELEASE, instructor=b""), answers)] == [name]
