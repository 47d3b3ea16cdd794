"""The grading command over the sample class, in a process of its own, and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil

from autograder.attacks.sample_class import NAME, PUPILS, ROOT
from autograder.checks import lab01_strides
from autograder.judge import State, Verdict
from autograder.sandbox.engines.cgroups import find

LAB = lab01_strides.lab
GRADED = [name for name, pupil in PUPILS.items() if not pupil.ungradable]
UNGRADABLE = [name for name, pupil in PUPILS.items() if pupil.ungradable]
SEED = bytes(range(32))
LIMIT_S = 420


def start(hand_in, out, *options, scratch):
    scratch.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "autograder.cli", "grade", hand_in, "--out", out, *options],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), "COLUMNS": "200", "PYTHONWARNINGS": "default"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(hand_in, out, *options, scratch):
    """Grades; exit code and everything said."""
    grader = start(hand_in, out, *options, scratch=scratch)
    said, _ = grader.communicate(timeout=LIMIT_S)
    return grader.returncode, said


def left_over(patience_s=20.0):
    """Processes below this one, those that are on their way out waited for."""
    deadline = time.monotonic() + patience_s
    while children := psutil.Process().children(recursive=True):
        psutil.wait_procs(children, timeout=0.2)
        if time.monotonic() > deadline:
            break
    return [child.cmdline() for child in children if child.is_running()]


def cgroups_left():
    """cgroups that some grader made and whose process is gone."""
    names = [d for h in find() for d in h.parent.glob("onelayer-*")]
    return [d for d in names if not psutil.pid_exists(int(d.name.split("-")[1]))]


def records(out):
    """The journal by student, as plain data."""
    found = [
        json.loads(path.read_text(encoding="utf-8").split("\n")[1])
        for path in sorted((out / "journal" / NAME).glob("*.json"))
    ]
    by_student = {record["student"]: record for record in found}
    assert len(by_student) == len(found)
    return by_student


def feedback(graded, name):
    return (graded / "out" / "feedback" / name / NAME / f"{NAME}.html").read_text(encoding="utf-8")


def outcome(verdict):
    """A verdict in the words of the sample class."""
    verdict = Verdict.from_mapping(verdict)
    if verdict.state is State.FAIL:
        return verdict.misconception or "fail" if verdict.is_answered else "blank"
    return verdict.state.value
