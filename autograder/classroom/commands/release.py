"""`autograder release`: a grading folder from which nbgrader's exchange gives a lab out."""

from pathlib import Path

from rich.console import Console

from ..errors import the_one
from ..gradebook.course import in_one_line, prepare, quiet
from ..intake.release import releases
from .grade import our_own
from .grading_run import Order


def release(out: Path, course: Path, lab: str, console: Console) -> None:
    """Makes the folder `out` a course of nbgrader that knows `lab`, and says how to give it out.
    Raises UserError for what the instructor can put right."""
    known = releases(course)
    one = known[the_one(lab, list(known), "lab")]
    with (
        our_own(Order(None, out, course)),
        quiet(out / "grade.log") as log,
        in_one_line(out, log),
    ):
        prepare(out, one)
    for line in (
        f"release     {out}/release/{one.name}/{one.name}.ipynb",
        f"give out    cd {out} && nbgrader release_assignment {one.name}",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
