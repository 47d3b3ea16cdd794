"""The peer: the same notebooks under nbgrader as it comes, in a course of its own."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from autograder.attacks.sample_class import NAME, ROOT

from .timed import Run, run

CONFIG = 'c = get_config()  # noqa: F821\nc.CourseDirectory.course_id = "bench"\n'


def prepare(course: Path, hand_ins: Path) -> None:
    """A course with the lab released and everything in `hand_ins` submitted."""
    source = course / "source" / NAME
    source.mkdir(parents=True)
    (course / "nbgrader_config.py").write_text(CONFIG)
    shutil.copy(ROOT / "solutions" / NAME / f"{NAME}.ipynb", source)
    for student in sorted(hand_ins.iterdir()):
        shutil.copytree(student, course / "submitted" / student.name / NAME)
    run(_nbgrader("generate_assignment", NAME, "--create"), cwd=course)


def grade(course: Path, *, cpus: list[int] | None = None) -> Run:
    return run(_nbgrader("autograde", NAME, "--create"), cwd=course, cpus=cpus)


def publish(course: Path, *, cpus: list[int] | None = None) -> Run:
    """The same without running the notebooks, and the pages of feedback: both commands in one."""
    steps = [_nbgrader("autograde", NAME, "--create", "--no-execute")]
    steps.append(_nbgrader("generate_feedback", NAME))
    program = (
        "import json, subprocess, sys\n"
        "for step in json.loads(sys.argv[1]):\n"
        "    subprocess.run(step, check=True)"
    )
    return run([sys.executable, "-c", program, json.dumps(steps)], cwd=course, cpus=cpus)


def _nbgrader(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "nbgrader", *arguments]
