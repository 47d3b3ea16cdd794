"""`autograder release`: a grading folder from which nbgrader's exchange gives a lab out, and, where
the instructor wants it, a copy with numbers of their own for each student."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from autograder import atomic_write

from ..errors import UserError, the_one
from ..gradebook.course import enrol, in_one_line, prepare, quiet
from ..gradebook.shares import keep
from ..intake.enrolment import Person
from ..intake.owners import student_ids
from ..intake.personal import ENGLISH, personal
from ..intake.release import Release, releases
from ..store import roster, seed_secret, variants
from .grade import our_own
from .grading_run import Order, enrolled

NO_VARIANT = "{lab} has no question with numbers of its own. These have: {others}."
TOO_LATE = "{n} who handed in before keep the public numbers: {names}"
MOST_NAMES = 5


def release(
    out: Path, course: Path, lab: str, console: Console, *, for_each: Path | None = None
) -> None:
    """Makes the folder `out` a course of nbgrader that knows `lab`, and says how to give it out.
    for_each: the list of who is enrolled, each of whom gets a copy of their own. Raises UserError
    for what the instructor can put right."""
    known = releases(course)
    one = known[the_one(lab, list(known), "lab")]
    if for_each and not variants.drawn(b"", one.lab, ""):
        others = [name for name, r in known.items() if variants.drawn(b"", r.lab, "")]
        raise UserError(NO_VARIANT.format(lab=one.name, others=", ".join(others) or "none"))
    order = Order(None, out, course, roster=for_each)
    lines = [
        f"release     {out}/release/{one.name}/{one.name}.ipynb",
        f"give out    cd {out} && nbgrader release_assignment {one.name}",
    ]
    with our_own(order), quiet(out / "grade.log") as log, in_one_line(out, log):
        keep(out, one)
        prepare(out, one)
        if for_each:
            people = enrolled(order)
            enrol(out, people)
            lines = list(_handed_out(out, one, people))
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _folders(people: Sequence[Person]) -> dict[str, str]:
    """Where everybody's copy lies, by their id: under a name by which the instructor knows them."""
    ids = student_ids([person.student for person in people])
    return {p.folder_id: ids[p.student] if p.is_anonymous else p.folder_id for p in people}


def _handed_out(out: Path, release: Release, people: Sequence[Person]) -> Iterator[str]:
    """Writes everybody's copies, the numbers first; what was given out once stays. Who handed in
    without a copy of their own had the public lab, and gets none."""
    lab, secret = release.lab, seed_secret.secret(out)
    folder, names = out / "handouts" / release.name, _folders(people)
    given, came = variants.read(out, lab), roster.keys(out, release.name)
    late = [n for n in names if n in came and n not in given and not (folder / names[n]).exists()]
    new = [name for name in names if name not in given and name not in late]
    given |= {student: variants.drawn(secret, lab, student) for student in new}
    variants.write(out, lab, given)
    written = [student for student in names if student in given]
    for student, code in itertools.product(written, (ENGLISH, *release.twins)):
        data = personal(release, given[student], code)
        place = folder / names[student] / ("" if code == ENGLISH else code)
        atomic_write.write(place / f"{release.name}.ipynb", data, mode=0o600, waits=False)
    yield f"handouts    {folder}: a folder for each of {len(written)} students"
    if late:
        shown = ", ".join(late[:MOST_NAMES]) + (", ..." if len(late) > MOST_NAMES else "")
        yield TOO_LATE.format(n=len(late), names=shown)
