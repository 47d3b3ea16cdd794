"""A late policy put into force in a grading folder: due time, hand-in times, and the penalties that
follow, all in nbgrader's gradebook.

nbgrader makes a penalty from the score at the time of autograding. Free text is marked later, so
penalties are made anew before each export and each page of feedback.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from autograder import atomic_write

from . import late_policy
from .course import configure, database, has_gradebook, stamp


def put_in_force(
    folder: Path, gradebook: Any, lab: str, policy: late_policy.Policy | None
) -> set[str]:
    """Makes `policy` the one by which nbgrader's own commands work here (None: lateness is free);
    the students whose penalty is another one now."""
    path = folder / late_policy.NAME
    if policy is None:
        path.unlink(missing_ok=True)
    else:
        atomic_write.write(path, late_policy.written(policy).encode())
    assignment = gradebook.find_assignment(lab)
    declared = policy or late_policy.Policy()
    if due := declared.due.get(lab):
        assignment.duedate = _naive(due)
    for submission in assignment.submissions:
        if assignment.duedate:
            submission.extension = declared.extension(lab, submission.student_id)
        if time := declared.submitted.get((lab, submission.student_id)):
            submission.timestamp = _naive(time)
            stamp(folder, submission.student_id, lab, time)
    gradebook.db.commit()
    changed = charge(assignment.submissions, policy)
    gradebook.db.commit()
    return changed


def tell_time(
    folder: Path,
    gradebook: Any,
    lab: str,
    student: str,
    policy: late_policy.Policy | None,
    time: datetime | None,
) -> bool:
    """Notes when the student handed in (None: nobody knows); whether that changes the penalty."""
    submission = gradebook.find_submission(lab, student)
    naive = time and _naive(time)
    if submission.timestamp != naive:
        stamp(folder, student, lab, time)
        submission.timestamp = naive
    if policy and submission.assignment.duedate:
        submission.extension = policy.extension(lab, student)
    gradebook.db.commit()
    changed = charge([submission], policy)
    gradebook.db.commit()
    return bool(changed)


def times(folder: Path, lab: str) -> dict[str, tuple[datetime | None, timedelta | None]]:
    """By student, when they handed in by the gradebook, in UTC, and how much more time they had;
    nothing where there is no gradebook."""
    if not has_gradebook(folder):
        return {}
    from nbgrader.api import Gradebook

    with Gradebook(database(folder)) as gradebook:
        every = [one for a in gradebook.assignments if a.name == lab for one in a.submissions]
        return {one.student_id: (one.timestamp, one.extension) for one in every}


def charge_again(folder: Path, lab: str) -> late_policy.Policy | None:
    """Makes the penalties of `lab` those of the scores as they are now; the policy in force."""
    policy = late_policy.read(folder / late_policy.NAME)
    if has_gradebook(folder):
        from nbgrader.api import Gradebook

        configure(folder)
        with Gradebook(database(folder)) as gradebook:
            for assignment in gradebook.assignments:
                if assignment.name == lab:
                    charge(assignment.submissions, policy)
            gradebook.db.commit()
    return policy


def _naive(time: datetime) -> datetime:
    """As nbgrader stores times: in UTC, without saying so."""
    return time.astimezone(UTC).replace(tzinfo=None)


def charge(submissions: Iterable[Any], policy: late_policy.Policy | None) -> set[str]:
    """Sets the penalty of each of nbgrader's `submissions` by its score of now; the students whose
    penalty changed. It reads all of them before it sets the first one: from then on the gradebook
    is closed to others, and formgrader waits for five seconds."""
    owed = []
    for submission in submissions:
        past = timedelta(seconds=submission.total_seconds_late)
        for notebook in submission.notebooks:
            points = (policy.penalty(notebook.score, past) if policy else 0.0) or None
            if points != (notebook.late_submission_penalty or None):
                owed.append((submission.student_id, notebook, points))
    for _, notebook, points in owed:
        notebook.late_submission_penalty = points
    return {student for student, _, _ in owed}
