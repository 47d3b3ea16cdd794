"""One submission's rows in nbgrader's gradebook, fetched at once and written in one transaction.

nbgrader's own code looks up every cell of every student by itself and commits after each: a third
of a second per submission. Here the same code runs over rows that are there already.

This module imports nbgrader, which takes seconds. Import it where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbgrader.api import Comment, Grade, Gradebook, SubmittedAssignment
from sqlalchemy.orm import object_session, undefer


@contextmanager
def opened(url: str) -> Iterator[Gradebook]:
    """The gradebook, for writing many submissions in a row: the lab's own rows, the same for all,
    are not read again after each commit."""
    with Gradebook(url) as gradebook:
        gradebook.db().expire_on_commit = False
        yield gradebook


class Rows:
    """The grades and comments of one submitted notebook, by cell. Answers what nbgrader's
    preprocessors ask a gradebook; their commits wait for the end of the transaction."""

    def __init__(self, submission: SubmittedAssignment) -> None:
        (self.notebook,) = submission.notebooks
        self._grades = {grade.name: grade for grade in self.notebook.grades}
        self._comments = {comment.name: comment for comment in self.notebook.comments}
        self.db = self

    def find_grade(self, cell: str, *_: str) -> Any:
        return self._grades[cell]

    def find_comment(self, cell: str, *_: str) -> Any:
        return self._comments[cell]

    def commit(self) -> None:
        """Nothing: the whole submission is committed at once."""


def read_again(submission: SubmittedAssignment) -> None:
    """Fetches what the database makes of each grade and comment: for rows that were just written it
    would be asked three times for each of them."""
    session: Any = object_session(submission)
    (notebook,) = submission.notebooks
    for kind, *more in ((Grade, undefer(Grade.max_score)), (Comment,)):
        rows = session.query(kind).filter_by(notebook_id=notebook.id).options(*more)
        rows.populate_existing().all()


def submission_of(
    gradebook: Gradebook, lab: str, student: str, *, timestamp: str = ""
) -> SubmittedAssignment:
    """The student's submission, made where there is none, without a commit in between."""
    with _one_transaction(gradebook):
        gradebook.update_or_create_student(student)
        given = {"timestamp": timestamp} if timestamp else {}
        return gradebook.update_or_create_submission(lab, student, **given)


@contextmanager
def _one_transaction(gradebook: Gradebook) -> Iterator[None]:
    """nbgrader commits after each row; until the end of this block that only sends the row."""
    gradebook.db.commit = gradebook.db.flush
    try:
        yield
    finally:
        del gradebook.db.commit
