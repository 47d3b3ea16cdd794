"""A late policy put into force in a grading folder: due time, hand-in times, and the penalties that
follow, all in nbgrader's gradebook.

nbgrader makes a penalty from the score at the time of autograding. Free text is marked later, so
penalties are made anew before each export and each page of feedback.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .. import atomic_write
from . import late_policy
from .course import database, has_gradebook, stamp


def put_in_force(
    folder: Path, lab: str, policy: late_policy.Policy | None, times: Mapping[str, str]
) -> set[str]:
    """Makes `policy` the one by which nbgrader's own commands work here (None: lateness is free);
    the students whose penalty is another one now.

    times: when those who were graded in this run handed in; "" where nobody knows.
    """
    path = folder / late_policy.NAME
    if policy is None:
        path.unlink(missing_ok=True)
    else:
        atomic_write.write(path, late_policy.written(policy).encode())
    from nbgrader.api import Gradebook

    with Gradebook(database(folder)) as gradebook:
        assignment = gradebook.find_assignment(lab)
        _tell_times(folder, assignment, policy or late_policy.Policy(), times)
        gradebook.db.commit()
        charged = charge(assignment, policy)
        gradebook.db.commit()
        return charged


def charge_again(folder: Path, lab: str) -> late_policy.Policy | None:
    """Makes the penalties of `lab` those of the scores as they are now; the policy in force."""
    policy = late_policy.read(folder / late_policy.NAME)
    if has_gradebook(folder):
        from nbgrader.api import Gradebook

        with Gradebook(database(folder)) as gradebook:
            for assignment in gradebook.assignments:
                if assignment.name == lab:
                    charge(assignment, policy)
            gradebook.db.commit()
    return policy


def _tell_times(
    folder: Path, assignment: Any, policy: late_policy.Policy, times: Mapping[str, str]
) -> None:
    """The due time, where the policy names one, and when each student handed in."""
    lab = assignment.name
    if due := policy.due.get(lab):
        assignment.duedate = _naive(due)
    for submission in assignment.submissions:
        student = submission.student.id
        told = policy.submitted.get((lab, student))
        if told is None and student not in times:
            continue
        told = told or late_policy.moment(times[student])
        submission.timestamp = told and _naive(told)
        stamp(folder, student, lab, told.isoformat() if told else "")


def _naive(time: datetime) -> datetime:
    """As nbgrader stores times: in UTC, without saying so."""
    return time.astimezone(UTC).replace(tzinfo=None)


def charge(assignment: Any, policy: late_policy.Policy | None) -> set[str]:
    """Sets the penalty of each submission of nbgrader's `assignment` by its score of now; the
    students whose penalty changed."""
    changed = set()
    for submission in assignment.submissions:
        past = timedelta(seconds=submission.total_seconds_late)
        for notebook in submission.notebooks:
            points = (policy.penalty(notebook.score, past) if policy else 0.0) or None
            if points != (notebook.late_submission_penalty or None):
                changed.add(submission.student.id)
            notebook.late_submission_penalty = points
    return changed
