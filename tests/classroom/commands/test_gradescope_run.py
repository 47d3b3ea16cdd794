"""The zip where Gradescope unpacks it: the score is the one that `autograder grade` gives, and what
may not be told is not written."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace

import jsonschema
import pytest
from rich.console import Console

from autograder.attacks.sample_class import LAB, NAME, PUPILS, ROOT, filled, right_answers
from autograder.classroom.commands import gradescope_run
from autograder.classroom.commands.gradescope_archive import archive
from autograder.classroom.errors import UserError
from autograder.classroom.intake.release import releases
from autograder.classroom.reports.gradescope import at_once, gradescope
from autograder.classroom.reports.results import results
from autograder.judge import State
from autograder.sandbox.engines import bubblewrap, container
from autograder.sandbox.host import tiers
from autograder.selftest import english_in
from tests import samples
from tests.classroom.commands.sample_grading import LIMIT_S, SEED
from tests.classroom.made_class import grading_folder, record, result, verdict
from tests.classroom.reports.test_gradescope import GRADESCOPE

RELEASE = releases(ROOT)[NAME]
FIRST = next(iter(LAB.questions))
FREE_TEXT = "why_silent"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """`/autograder` as Gradescope has it after `setup.sh`, and nothing handed in."""
    root = tmp_path_factory.mktemp("gradescope") / "autograder"
    with zipfile.ZipFile(io.BytesIO(archive(RELEASE, SEED))) as made:
        made.extractall(root / "source")
    shutil.copyfile(root / "source" / "run_autograder", root / "run_autograder")
    (root / "run_autograder").chmod(0o755)
    (root / "results").mkdir()
    metadata = {"id": 1, "users": [{"email": "ada@uni.example", "id": 7, "name": "Ada"}]}
    (root / "submission_metadata.json").write_text(json.dumps(metadata))
    yield root
    shutil.rmtree(root)


@pytest.fixture
def place(unpacked):
    (unpacked / "submission").mkdir()
    yield unpacked
    shutil.rmtree(unpacked / "submission")
    (unpacked / "results" / "results.json").unlink(missing_ok=True)


def run(place):
    """What `run_autograder` does there, in this process: why it wrote nothing ("" where it did),
    and results.json."""
    try:
        gradescope_run.run(place, NAME, Console(file=io.StringIO()))
    except UserError as why:
        return str(why), written(place)
    return "", written(place)


def written(place):
    path = place / "results" / "results.json"
    if not path.exists():
        return None
    made = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(made, GRADESCOPE)
    return made


def without_time(made):
    return {name: value for name, value in made.items() if name not in ("execution_time",)}


@pytest.mark.jail
@pytest.mark.whole_class
@pytest.mark.timeout(LIMIT_S + 60)
class TestAsAutograderGrade:
    @pytest.mark.parametrize(
        "name",
        samples.sample(["ada-all-right", "gus-wrong-1", "tom-edits-points"], ["tom-edits-points"]),
    )
    def test_scores_and_sentences_are_those_of_the_class_graded_at_home(self, graded, place, name):
        """The same secret and the same bytes: the very same verdicts, an attacker's too."""
        PUPILS[name].write(place / "submission")
        why, made = run(place)
        assert not why
        people = results(graded / "out", RELEASE, logging.getLogger(__name__))
        (home,) = (one for one in people if one.student == name)
        expected = json.loads(gradescope(home, visibility="visible"))
        assert without_time(made) == without_time(expected)
        assert made["score"] == home.record.points
        passed = {v.question for v in home.record.verdicts if v.state is State.PASS}
        assert {t["name"] for t in made["tests"] if t["score"]} == passed

    def test_free_text_is_said_to_be_open_and_is_in_no_score(self, place):
        """By nothing but the files of the zip."""
        PUPILS["ada-all-right"].write(place / "submission")
        done = subprocess.run(
            [sys.executable, "-m", "autograder.classroom.commands.gradescope_run", place, NAME],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(place / "source" / "course")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stdout
        made = written(place)
        assert FREE_TEXT in made["output"]
        assert made["score"] == LAB.max_points
        assert FREE_TEXT not in {test["name"] for test in made["tests"]}

    def test_what_is_left_of_a_run_before_is_never_told_again(self, place, monkeypatch):
        (place / "results" / "results.json").write_text('{"score": 30}')
        PUPILS["ada-all-right"].write(place / "submission")
        monkeypatch.setattr(gradescope_run, "probe", lambda: tiers.plain("There is no bwrap."))
        why, made = run(place)
        assert made is None
        assert why.startswith("Nothing was run: ")
        assert "There is no bwrap. Download the hand-ins" in why


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "is empty"),
        ({"answer.pdf": b"%PDF"}, "There is no notebook"),
        ({f"{NAME}.ipynb": b'{"cells": ['}, "cut off"),
        ({"a.ipynb": b"{}", "b.ipynb": b"[]"}, "several notebooks"),
    ],
)
def test_what_cannot_be_graded_gets_its_sentence_and_no_score(place, files, reason):
    """No walls are needed to say so: nothing of it is run."""
    for name, data in files.items():
        (place / "submission" / name).write_bytes(data)
    why, made = run(place)
    assert not why
    assert reason in made["output"]
    assert "score" not in made
    assert [test.get("score") for test in made["tests"]] == [None]


def test_a_refusal_is_in_the_language_of_the_notebook(place):
    """Which lies in the zip, so that a notebook in it is known."""
    twin = json.loads(RELEASE.twins["es"])
    twin["cells"] = []
    (place / "submission" / f"{NAME}.ipynb").write_text(json.dumps(twin))
    why, made = run(place)
    assert not why
    texts = [made["output"], *(test["output"] for test in made["tests"])]
    assert [english_in(text.replace(NAME, "")) for text in texts] == [[], []]
    assert "no está ninguna de las respuestas" in made["output"]


def test_a_grade_is_told_in_the_language_of_the_notebook(place, monkeypatch):
    def graded(order, console):
        grading_folder(order.out, [record(gradescope_run.STUDENT)], language="es")

    made = tiers.Tier("made", "for a test", safe=True)
    monkeypatch.setattr(gradescope_run, "probe", lambda: made)
    monkeypatch.setattr(gradescope_run, "grade", graded)
    (place / "submission" / f"{NAME}.ipynb").write_bytes(RELEASE.twins["es"])
    why, made = run(place)
    assert not why
    texts = [made["output"], *(test["output"] for test in made["tests"])]
    assert made["output"].startswith("Aún no está todo puntuado: ")
    assert [english_in(text.replace(FREE_TEXT, "")) for text in texts] == [[]] * len(texts)


def test_names_of_another_platform_make_no_second_student(place):
    """A name that Moodle would give, for somebody else."""
    data = json.dumps(filled(right_answers())).encode()
    for number in (333, 444):
        forged = f"Somebody Else_{number}_assignsubmission_file_{NAME}.ipynb"
        (place / "submission" / forged).write_bytes(data + b" " * number)
    why, made = run(place)
    assert not why
    assert "score" not in made


class TestHeldBack:
    @pytest.mark.parametrize("state", [State.FLAGGED, State.UNGRADABLE])
    def test_where_a_person_has_to_look_first_no_file_is_made(self, state):
        held = result("ada", record("ada", **{FIRST: verdict(FIRST, state)}))
        assert at_once(held) is None
        assert at_once(result("ada")) is not None

    def test_where_the_newest_hand_in_has_no_verdict_no_file_is_made(self):
        assert at_once(replace(result("ada"), reason="The grader failed.")) is None


def in_a_container(root, place):
    """The command that runs `run_autograder` as Gradescope does: root in a container, with what an
    engine's own filter and capabilities leave; over this machine's system, without a network."""
    root.mkdir()
    container.make_root(root)
    (root / "opt").mkdir()
    (root / "opt" / "onelayer").symlink_to(sys.prefix)
    (root / "autograder").mkdir()
    words = ["podman", *container.runtime(), "run", "--rm", "--network=none", "--rootfs"]
    words += ["--pull=never", "--log-driver=none", f"--volume={place}:/autograder:rw"]
    system = [p for p in bubblewrap.SYSTEM if not p.startswith("/sys/") and os.path.exists(p)]
    real = [p for p in bubblewrap.MERGED if os.path.isdir(p) and not os.path.islink(p)]
    for path in (*system, *real, *bubblewrap.interpreter()):
        if path == "/usr" or not path.startswith("/usr/"):
            words.append(f"--volume={path}:{path}:ro")
    words += [word for word in container._rights() if word.startswith("--ulimit")]
    words += ["--env=PYTHONPATH=/autograder/source/course", "--env=PATH=/usr/bin:/bin"]
    return [*words, "--workdir=/autograder", str(root), "/autograder/run_autograder"]


@pytest.mark.container
@pytest.mark.timeout(LIMIT_S + 60)
def test_in_a_container_without_walls_nothing_of_a_hand_in_is_run(place, tmp_path):
    """It would leave a file behind, and write its own result."""
    forger = (
        "import json, pathlib\n"
        "for path in ('/autograder/results/results.json', '/autograder/submission/was_here'):\n"
        "    pathlib.Path(path).write_text(json.dumps({'score': 30}))\n"
    )
    answers = {name: forger + source for name, source in right_answers().items()}
    (place / "submission" / f"{NAME}.ipynb").write_text(json.dumps(filled(answers)))
    words = in_a_container(tmp_path / "root", place)
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 1, done.stdout
    assert "Nothing was run: this container gives no walls" in done.stdout
    assert f"autograder grade FILE.zip --lab {NAME}" in done.stdout
    assert written(place) is None
    assert os.listdir(place / "submission") == [f"{NAME}.ipynb"]
