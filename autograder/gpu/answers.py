"""The answers that the course knows, as submissions: its solutions, the other right answers, and
every known wrong one."""

import ast
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import autograder.checks
from autograder.classroom.intake.rebuild import rebuild
from autograder.classroom.intake.release import Release
from autograder.classroom.intake.submissions import Submission
from autograder.classroom.intake.taking import Entry
from autograder.classroom.run.grading import job_for
from autograder.classroom.run.job import Job
from autograder.judge import Question, WrongAnswer

SEED = 1
BESIDE_THE_CHECK = {
    "read_wrapper": "each reads what its check keeps",
    "linear_fn": "the text of the cell is judged, and theirs stands in the check",
}
"""Questions whose wrong answers run in their check's own process alone, and why."""
ON_THE_SIDE = frozenset({"kept_on_the_side", "logits_on_the_side", "state_on_the_side"})
"""Wrong answers whose backward finds what their forward left behind. In the jail these are two
processes, and it finds nothing."""
RIGHT = ""
CHECKS = autograder.checks.__path__[0]
_IMPORT = """
from importlib import import_module

known = import_module("autograder.checks.{}").lab.questions[{!r}].wrong_answers
globals().update(next(wrong.functions for wrong in known if wrong.name == {!r}))
"""


@dataclass(frozen=True)
class Known:
    """One answer. sentence: with which it must be rejected; RIGHT where it must pass."""

    name: str
    job: Job
    sentence: str = RIGHT


def known_answers(release: Release, *, wrong_ones: bool = True) -> Iterator[Known]:
    """Every answer to every question of a lab; a whole notebook where they are right."""
    yield from _right(release)
    if not wrong_ones:
        return
    for question, wrong, why_left in _wrong_answers(release):
        if not why_left:
            yield _wrong(release, question, wrong)


def left_to_selftest(release: Release) -> dict[str, str]:
    """By question, how many of its wrong answers only `autograder selftest` asks, and why."""
    left = Counter((question.name, why) for question, _, why in _wrong_answers(release) if why)
    return {name: f"{many} of them: {why}" for (name, why), many in left.items()}


def _wrong_answers(release: Release) -> Iterator[tuple[Question, WrongAnswer, str]]:
    """With why it cannot run in another process than its check; "" where it can. Where a text is
    handed in, they are functions that do what such a text would do, in the harness's place."""
    assert release.instructor is not None
    answers = rebuild(release.instructor, release).answers
    for question in release.lab:
        bound = _bound(answers[question.name])
        for wrong in question.wrong_answers:
            if why := BESIDE_THE_CHECK.get(question.name):
                yield question, wrong, why
            elif wrong.name in ON_THE_SIDE:
                yield question, wrong, "its two halves share a process in a notebook alone"
            elif not bound.issuperset(wrong.functions):
                yield question, wrong, "a text is handed in, and each is a model of one"
            else:
                yield question, wrong, ""


def _bound(cell: str) -> set[str]:
    """The functions and classes that a cell defines."""
    kinds = ast.FunctionDef | ast.ClassDef
    return {node.name for node in ast.walk(ast.parse(cell)) if isinstance(node, kinds)}


def _right(release: Release) -> Iterator[Known]:
    """The solution; then notebooks of alternatives, and of solutions where those run out."""
    assert release.instructor is not None
    rebuilt = rebuild(release.instructor, release)
    others = _alternatives(release.instructor)
    for k in range(1 + max(map(len, others.values()), default=0)):
        name = f"alternative {k}" if k else "solution"
        chosen = {question: cells[k - 1] for question, cells in others.items() if k <= len(cells)}
        answers = rebuilt.answers | (chosen if k else {})
        entry = Entry(Submission(name, ""), replace(rebuilt, answers=answers), "")
        job = job_for(entry, release, key="", secret=b"")
        yield Known(name, replace(job, seeds=_seeds(release)))


def _alternatives(notebook: bytes) -> dict[str, list[str]]:
    found = defaultdict(list)
    for cell in json.loads(notebook)["cells"]:
        if cell["metadata"].get("onelayer", {}).get("role") == "alternative":
            question = cell["id"].partition("_alternative")[0]
            found[question].append("".join(cell["source"]))
    return found


def _wrong(release: Release, question: Question, wrong: WrongAnswer) -> Known:
    """The functions as they stand in the check, which this jail alone may read (CHECKS)."""
    name = f"wrong {question.name} {wrong.name}"
    cells = ((question.name, _IMPORT.format(f"lab{release.name}", question.name, wrong.name)),)
    extra_s = question.budget_s or 0.0
    job = Job(name, release.name, "", "", cells, 0, _seeds(release), frozenset(), extra_s)
    return Known(name, replace(job, only=(question.name,)), wrong.sentence)


def _seeds(release: Release) -> dict[str, int]:
    return dict.fromkeys(release.lab.questions, SEED)
