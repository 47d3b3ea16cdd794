"""`autograder leaderboard` as an instructor types it, over a class made by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from autograder import cli
from autograder.classroom.intake.release import releases
from autograder.classroom.store import roster
from autograder.classroom.store.journal import Journal, Record, key_of
from autograder.classroom.store.roster import Line
from autograder.judge import Cause, Verdict, race

COURSE = Path(__file__).parents[3]
NAME = "12_ship_it"
RIGHT = """
def loss_options(x, w, b, t, **options):
    return F.cross_entropy(x @ w.T + b, t)
"""
HOSTILE = {
    "spins": "def loss_options(*_, **__):\n    while True: pass\n",
    "allocates": "def loss_options(*_, **__):\n    return torch.ones(2**36).sum()\n",
    "ends": "import os\ndef loss_options(*_, **__):\n    os._exit(0)\n",
    "lies": f"import time\ntime.perf_counter = lambda: 0.0\n{RIGHT}",
    "forgets": "def loss_options(*_, **__):\n    return torch.zeros(())\n",
}


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(race, "RACE_S", 3.0)
    monkeypatch.setattr(race, "TURNS", 3)
    monkeypatch.setattr(race, "WARM_UP", 0)


def handed_in(folder: Path, student: str, answer: str, cause: Cause = Cause.PASSED) -> Line:
    """A graded submission with this answer to `loss_options` and no other."""
    release = releases(COURSE)[NAME]
    made = json.loads(release.notebook)
    for cell in made["cells"]:
        if cell["id"] == "loss_options":
            cell["source"] = answer
    data = json.dumps(made).encode()
    sha256 = hashlib.sha256(data).hexdigest()
    (folder / "received").mkdir(parents=True, exist_ok=True)
    (folder / "received" / f"{sha256}.ipynb").write_bytes(data)
    asked = release.lab.questions["loss_options"]
    verdict = Verdict(asked.name, cause, 0.0, asked.points, 7)
    made_of = Record(student, NAME, key_of(student, sha256), sha256, (verdict,))
    Journal(folder / "journal" / NAME).write(made_of)
    return Line(student, f"{student}/{NAME}.ipynb", key=made_of.key, sha256=sha256)


def typed(folder: Path, *more: str):
    command = ["leaderboard", NAME, "--out", str(folder), "--course", str(COURSE), *more]
    return CliRunner().invoke(cli.main, command)


@pytest.mark.jail
def test_right_answers_are_raced_once_and_nobody_else_is_harmed(
    tmp_path, hurried, monkeypatch
) -> None:
    people = HOSTILE | {"ada_1": RIGHT, "bob_2": RIGHT, "fay_3": RIGHT}
    lines = [handed_in(tmp_path, student, answer) for student, answer in people.items()]
    lines.append(handed_in(tmp_path, "wrong_4", RIGHT, Cause.WRONG))
    roster.update(tmp_path, NAME, lines)
    names = tmp_path / "names.csv"
    names.write_text("ada_1,Ada <b>\nfay_3,\n")

    done = typed(tmp_path, "--names", str(names))
    assert done.exit_code == 0, done.output
    page = (tmp_path / "reports" / NAME / "leaderboard.html").read_text()
    assert "Ada &lt;b&gt;" in page
    assert page.count("anonymous ") == 2  # bob, and who lied to a clock that nobody asks
    assert not any(student in page for student in [*people, "wrong_4"])
    for student in ("spins", "allocates", "ends", "forgets"):
        assert f"loss_options: {student} has no number" in done.output
    assert "4 right answers have no number" in page

    monkeypatch.setattr(race.Race, "run", lambda *_, **__: pytest.fail("raced again"))
    again = typed(tmp_path, "--names", str(names))
    assert again.exit_code == 0, again.output
    assert again.output == done.output


@pytest.mark.jail
def test_what_an_instructor_can_put_right_is_one_line(tmp_path) -> None:
    assert "no grading folder" in typed(tmp_path / "nothing").output
    assert "has not been graded" in typed(tmp_path).output
    told = CliRunner().invoke(
        cli.main, ["leaderboard", "01_strides", "--out", str(tmp_path), "--course", str(COURSE)]
    )
    assert "races nothing: only 12_ship_it does" in told.output
    assert told.exit_code == 1
