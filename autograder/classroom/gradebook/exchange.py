"""nbgrader's exchange, on the instructor's side of a grading folder.

nbgrader finds these classes through `nbgrader_config.py` in the grading folder, so its own commands
and formgrader's buttons use them. This module imports nbgrader, which takes seconds. Import it
where it is used.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect, ExchangeReleaseFeedback

from ..intake.exchanged import COLLECTED, SECRET, TIMESTAMP


class Collect(ExchangeCollect):  # type: ignore[misc]
    """nbgrader's own, into a folder of its own: `submitted/` holds what was graded, and stays as it
    is until the new hand-ins are graded too."""

    def copy_files(self) -> None:
        with _set(self.coursedir, "submitted_directory", COLLECTED):
            super().copy_files()
        root, lab = self.coursedir.root, self.coursedir.assignment_id
        self.log.info("Now type: autograder grade %s/%s --lab %s", root, COLLECTED, lab)


class ReleaseFeedback(ExchangeReleaseFeedback):  # type: ignore[misc]
    """nbgrader's own, for whoever handed in through the exchange: nobody else has a place to fetch
    a page from."""

    def copy_files(self) -> None:
        lab = self.coursedir.assignment_id
        pages = Path(self.coursedir.root, self.coursedir.feedback_directory).glob(f"*/{lab}")
        others = sorted(page.parent.name for page in pages if not _was_exchanged(page))
        if others:
            some = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
            self.log.warning("Not released, as handed in elsewhere: %d, %s", len(others), some)
        excluded = ",".join([*filter(None, [self.coursedir.student_id_exclude]), *others])
        with _set(self.coursedir, "student_id_exclude", excluded):
            super().copy_files()


def _was_exchanged(folder: Path) -> bool:
    return (folder / SECRET).is_file() and (folder / TIMESTAMP).is_file()


@contextmanager
def _set(course: Any, name: str, value: str) -> Iterator[None]:
    """For a while, whatever happens: formgrader's server keeps the object."""
    before = getattr(course, name)
    setattr(course, name, value)
    try:
        yield
    finally:
        setattr(course, name, before)
