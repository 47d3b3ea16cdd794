"""Feedback as Canvas and Moodle take it back: one archive with a page per student, each lying where
the student's hand-in lay.

Both platforms know the student by the name that they gave the hand-in when it was downloaded:
Canvas under "Upload Submissions" (`app/models/abstract_assignment.rb` in instructure/canvas-lms),
Moodle under "Upload multiple feedback files in a zip"
(`mod/assign/feedback/file/importziplib.php` in moodle/moodle).
"""

import io
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder import atomic_write

from ..intake.owners import beside_hand_in
from .results import Result

ALWAYS = (1980, 1, 1, 0, 0, 0)
"""The time of every page in the archive: the same pages make the same bytes."""


def give_back(
    target: Path, folder: Path, lab: str, graded: Sequence[Result], *, provisional: bool = False
) -> None:
    """Writes the archive `target` from the pages in the grading folder `folder`.

    Left out is whose grade is not settled, unless `provisional`, and who has no page.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, page in _pages(folder, lab, graded, provisional):
            entry = zipfile.ZipInfo(name, ALWAYS)
            archive.writestr(entry, page.read_bytes(), zipfile.ZIP_DEFLATED)
    atomic_write.write(target, made.getvalue(), mode=0o600)


def _pages(
    folder: Path, lab: str, graded: Sequence[Result], provisional: bool
) -> Iterator[tuple[str, Path]]:
    """A name in the archive and the page that goes there. Where two hand-ins lay in the same place,
    as in a folder each that came from two downloads, the ids of the class keep them apart."""
    pages = [
        (one.student, beside_hand_in(one.line.origin, f"{lab}.html"), page)
        for one in graded
        if one.counted(provisional) is not None
        and (page := folder / "feedback" / one.student / lab / f"{lab}.html").is_file()
    ]
    taken = Counter(name.casefold() for _, name, _ in pages)
    for student, name, page in pages:
        yield (name if taken[name.casefold()] == 1 else f"{student}/{lab}.html"), page
