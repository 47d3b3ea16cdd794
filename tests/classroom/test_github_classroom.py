"""The workflow that instructors copy for GitHub Classroom: its grading step is typed here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from autograder.attacks.sample_class import LAB, NAME, filled, right_answers
from autograder.authoring.address import REPOSITORY
from tests.classroom.commands.sample_grading import LIMIT_S

REPO = Path(__file__).resolve().parents[2]
WORKFLOW = yaml.safe_load((REPO / "docs" / "github-classroom.yml").read_text("utf-8"))
STEPS = WORKFLOW["jobs"]["grade"]["steps"]
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]
"""What GitHub runs a step of `shell: bash` with."""


def step(name):
    return next(one for one in STEPS if one.get("name") == name)


def used(steps):
    return dict(one["uses"].split("@") for one in steps if "uses" in one)


def test_it_has_no_right_but_to_read_and_no_secret():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "secrets." not in json.dumps(WORKFLOW)


def test_it_fetches_this_course_with_the_actions_of_our_own_ci():
    assert REPOSITORY.removesuffix(".git").endswith("/" + WORKFLOW["env"]["COURSE"])
    ci = yaml.safe_load((REPO / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    ours = used(ci["jobs"]["test"]["steps"])
    there = used(STEPS)
    assert {name: there[name] for name in ours} == ours


def test_the_set_up_is_bash_and_lets_the_jail_be_built():
    script = step("Set up")["run"]
    subprocess.run([*BASH, "-n", "-c", script], check=True, timeout=20)
    assert "kernel.apparmor_restrict_unprivileged_userns=0" in script
    assert "bubblewrap" in script


@pytest.mark.jail
@pytest.mark.whole_class
@pytest.mark.timeout(LIMIT_S)
def test_a_pushed_notebook_is_graded_and_its_student_reads_the_table(tmp_path):
    repository = tmp_path / "hand_in" / "student"
    (repository / ".git").mkdir(parents=True)
    (repository / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (repository / "README.md").write_text("# Lab 01\n")
    (repository / f"{NAME}.ipynb").write_text(json.dumps(filled(right_answers())))
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "labs").symlink_to(REPO / "labs")
    temporary, summary = tmp_path / "temp", tmp_path / "summary.md"
    temporary.mkdir()
    grade = step("Grade")
    told = {"RUNNER_TEMP": str(temporary), "GITHUB_STEP_SUMMARY": str(summary)}
    environment = {
        **os.environ,
        **WORKFLOW["env"],
        **grade["env"],
        **told,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPO),
    }
    words = [*BASH, "-c", grade["run"]]
    done = subprocess.run(words, cwd=tmp_path, env=environment, timeout=LIMIT_S, check=False)
    assert done.returncode == 0
    shown = summary.read_text("utf-8")
    assert shown.startswith("```text\n")
    assert shown.endswith("```\n")
    (line,) = (line for line in shown.splitlines() if "student" in line and "graded" in line)
    assert f" {LAB.max_points:g} " in line
    (kept,) = (one["with"]["path"] for one in STEPS if "upload-artifact" in one.get("uses", ""))
    folder = Path(kept.replace("${{ runner.temp }}", str(temporary)))
    assert (folder / "student" / NAME / f"{NAME}.html").is_file()
