"""What the zip of `gradescope_archive` does in Gradescope's container, for one hand-in:

    python -m autograder.classroom.commands.gradescope_run /autograder LAB

grades `submission/` as `autograder grade` does and writes `results/results.json`. It writes none
where no grade may be told: no walls for other people's code, a fault of the grader's, a verdict at
which a person has to look first. Gradescope then says that the autograder failed, which costs a
student nothing, and the last line of what was printed tells the instructor why.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from autograder import atomic_write
from autograder.sandbox import probe

from ..errors import UserError
from ..gradebook.course import quiet
from ..gradebook.publish import language_of
from ..intake.release import Release, releases
from ..intake.submissions import NO_NOTEBOOK
from ..intake.taking import take_in
from ..reports.gradescope import at_once, refused
from ..reports.results import results
from .grade import grade
from .grading_run import Order

STUDENT = "student"
NO_WALLS = (
    "Nothing was run: this container gives no walls for other people's code. {reason} "
    "Download the hand-ins from Gradescope, and grade them on a machine of yours: "
    "autograder grade FILE.zip --lab {lab}"
)
HELD_BACK = "No grade is told: a person has to look first. {what}"
SEVERAL = (
    "The names of your files look like those of several students. "
    "Hand in one notebook, under the name that it was given out with."
)


def run(root: Path, lab: str, console: Console) -> None:
    """Writes `results/results.json` below `root`. Raises UserError, with what to tell the
    instructor, where there is nothing to be written."""
    target = root / "results" / "results.json"
    target.unlink(missing_ok=True)
    release = releases(root / "source" / "course")[lab]
    with tempfile.TemporaryDirectory(prefix="gradescope-") as scratch:
        hand_in = Path(scratch) / "hand_in"
        shutil.copytree(root / "submission", hand_in / STUDENT, symlinks=True)
        body = _refusal(hand_in, release) or _graded(root, hand_in, release, console)
    target.parent.mkdir(exist_ok=True)
    atomic_write.write(target, body, mode=0o600)


def _refusal(hand_in: Path, release: Release) -> bytes | None:
    """What its student is told where nothing in it can be graded. Nothing of it is run."""
    known, kept = {release.name: release}, hand_in.with_name("received")
    try:
        taken = take_in(hand_in, known, release.name, kept)
    except UserError:  # not one file that could be meant
        return refused(release.name, NO_NOTEBOOK)
    if len(taken.entries) + len(taken.refusals) != 1:
        return refused(release.name, SEVERAL)
    if not taken.refusals:
        return None
    first = taken.refusals[0]
    return refused(release.name, first.reason, first.language)


def _graded(root: Path, hand_in: Path, release: Release, console: Console) -> bytes:
    tier = probe()
    if not tier.safe:
        raise UserError(NO_WALLS.format(reason=tier.reason.rstrip(".") + ".", lab=release.name))
    out = hand_in.with_name("grading")
    out.mkdir()
    shutil.copyfile(root / "source" / "seed", out / "seed")
    grade(Order(hand_in, out, root / "source" / "course", release.name, workers=1), console)
    with quiet(out / "grade.log") as log:
        (one,) = results(out, release, log)
    body = at_once(one, language_of(out, release.name, one.student))
    if body is None:
        raise UserError(HELD_BACK.format(what=one.reason or "See the table above."))
    return body


if __name__ == "__main__":
    try:
        run(Path(sys.argv[1]), sys.argv[2], Console(emoji=False, width=120))
    except UserError as why:
        sys.exit(str(why))
