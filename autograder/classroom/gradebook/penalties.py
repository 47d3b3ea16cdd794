"""Late penalties where nbgrader looks for them: its plugin for late submissions, and its export.

nbgrader finds these classes through `nbgrader_config.py` in the grading folder. This module imports
nbgrader, which takes seconds. Import it where it is used.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

from nbgrader.plugins import CsvExportPlugin, LateSubmissionPlugin
from traitlets import Unicode

from . import late_policy
from .lateness import charge


class LatePenalty(LateSubmissionPlugin):  # type: ignore[misc]
    """Takes what `late.toml` in the grading folder says; nothing where there is none."""

    file = Unicode("", help="the late policy that is in force").tag(config=True)

    @property
    def policy(self) -> late_policy.Policy | None:
        return late_policy.read(Path(self.file)) if self.file else None

    def late_submission_penalty(
        self, student_id: str, score: float, total_seconds_late: float
    ) -> float | None:
        policy = self.policy
        return policy.penalty(score, timedelta(seconds=total_seconds_late)) if policy else None


class ExportWithPenalties(CsvExportPlugin):  # type: ignore[misc]
    """nbgrader's own CSV file, with penalties of the scores as they are now."""

    def export(self, gradebook: Any) -> None:
        policy = LatePenalty(parent=self).policy
        for assignment in gradebook.assignments:
            charge(assignment.submissions, policy)
        gradebook.db.commit()
        super().export(gradebook)
