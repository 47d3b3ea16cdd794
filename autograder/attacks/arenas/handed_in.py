"""A hand-in goes through intake, is rebuilt from the release, and is asked; undefended, it is taken
at its word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autograder.attacks.attack import Outcome
from autograder.attacks.ground import Ground
from autograder.attacks.questions import double
from autograder.classroom.intake.rebuild import Rebuilt, Ungradable, notebook, rebuild, to_run
from autograder.classroom.intake.submissions import Submission, files_in, submissions
from autograder.judge import ask

from ..paper_lab import NAME, RELEASE, as_bytes, filled
from .naive import Aborted, Taken, believed

EVE = "eve"
"""The student who hands in; everybody else is a bystander."""


@dataclass(frozen=True)
class HandedIn:
    """A submission is a function that writes into an empty folder and returns the hand-in, a folder
    or an archive. gained: whether the grader was taken in, from what it took the hand-ins for and
    from the folder."""

    gained: Callable[[list[Taken], Path], bool]

    def defended(self, submission: Callable[[Path], Path], ground: Ground) -> Outcome:
        folder = ground.new_folder()
        hand_in = submission(folder)
        words, taken, details = [], [], []
        for handed in submissions(files_in(hand_in), NAME, [NAME]):
            word, detail, took = _graded(handed, ground)
            details.append(f"{handed.student}: {word} {detail}")
            if handed.student == EVE:
                words.append(word)
            taken += took
        gained = self.gained(taken, folder)
        return Outcome(words[0] if words else "left out", gained, "; ".join(details)[:300])

    def undefended(self, submission: Callable[[Path], Path], ground: Ground) -> Outcome:
        folder = ground.new_folder()
        try:
            taken = believed(submission(folder))
        except Aborted as error:
            return Outcome("aborted", True, f"nobody is graded after it: {error}")
        gained = self.gained(taken, folder)
        return Outcome("reached" if gained else "refused", gained, str(taken)[:200])


def honest(folder: Path) -> Path:
    """The twin of many: the same student, the right answer, a notebook and nothing else."""
    (folder / "class" / EVE).mkdir(parents=True)
    (folder / "class" / EVE / f"{NAME}.ipynb").write_bytes(as_bytes(filled()))
    return folder / "class"


def _graded(handed: Submission, ground: Ground) -> tuple[str, str, list[Taken]]:
    """Verdict, detail, and what was taken in."""
    try:
        rebuilt = None if handed.ungradable else rebuild(handed.data, RELEASE)
    except Ungradable as reason:
        return "ungradable", str(reason), []
    if rebuilt is None:
        return "ungradable", handed.ungradable, []
    with ground.open([source for _, source in to_run(RELEASE, rebuilt)]) as student:
        verdict = ask(double, student, seed=ground.seed())
    return str(verdict.state), str(verdict.sentence), [_taken(handed, rebuilt, verdict.points)]


def _taken(handed: Submission, rebuilt: Rebuilt, points: float) -> Taken:
    made = notebook(RELEASE, rebuilt)
    text = "\n".join(cell["source"] for cell in made["cells"])
    kernel = made["metadata"]["kernelspec"]["name"]
    return Taken(handed.student, text, points, kernel, handed.submitted, len(handed.data))
