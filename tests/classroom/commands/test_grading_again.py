"""The same command a second time: nothing is run twice and nothing taken back."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.attacks.sample_class import NAME
from tests.classroom.commands.sample_grading import (
    GRADED,
    LAB,
    LIMIT_S,
    feedback,
    run,
)

pytestmark = [pytest.mark.jail, pytest.mark.whole_class, pytest.mark.timeout(LIMIT_S + 60)]


@pytest.fixture(scope="module")
def regraded(graded, tmp_path_factory):
    """A copy of the graded class."""
    place = tmp_path_factory.mktemp("again") / "class"
    return shutil.copytree(graded, place)


@pytest.fixture(scope="module")
def again(regraded):
    from nbgrader.api import Gradebook

    out = regraded / "out"
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        (notebook,) = book.find_submission(NAME, "ada-all-right").notebooks
        (grade,) = [g for g in notebook.grades if g.name == "why_silent"]
        grade.manual_score, grade.needs_manual_grade = 4.0, False
        book.db.commit()
    torn = out / "feedback" / "ben-half" / NAME / f"{NAME}.html"
    torn.write_text(torn.read_text()[:1000])
    (out / "autograded" / "cleo-nothing" / NAME / f"{NAME}.ipynb").unlink()
    was = {path: path.stat() for path in (out / "journal").rglob("*.json")}
    code, said = run(regraded / "hand_in", out, scratch=regraded / "scratch")
    assert code == 0, said
    return was, said


class TestAgain:
    """A second run: in seconds, with nothing run twice and nothing taken back."""

    def test_runs_nothing(self, again):
        was, said = again
        assert f"{len(GRADED)} already graded, 0 to grade" in said
        for path, status in was.items():
            assert (path.stat().st_ino, path.stat().st_mtime_ns) == (
                status.st_ino,
                status.st_mtime_ns,
            )

    def test_keeps_what_a_person_graded(self, regraded, again):
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{regraded / 'out' / 'gradebook.db'}") as book:
            assert book.find_submission(NAME, "ada-all-right").score == LAB.max_points + 4

    def test_makes_anew_what_a_kill_had_cut_off(self, regraded, again):
        assert feedback(regraded, "ben-half").rstrip().endswith("</html>")
        assert feedback(regraded, "cleo-nothing")

    def test_nbgraders_own_command_executes_nothing_and_changes_nothing(self, regraded, again):
        """Formgrader's button does the same."""
        command = [str(Path(sys.executable).parent / "nbgrader"), "autograde", NAME, "--force"]
        command += ["--student", "lea-exits"]
        done = subprocess.run(
            command, cwd=regraded / "out", capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{regraded / 'out' / 'gradebook.db'}") as book:
            assert book.find_submission(NAME, "lea-exits").score == LAB.max_points - 2
