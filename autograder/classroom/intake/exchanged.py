"""What nbgrader's exchange lays beside a notebook: when it was handed in, and the secret by which
its student finds the page of feedback again."""

import re
from collections.abc import Callable, Iterable

from .files import Found, Unreadable

COLLECTED = "collected"
"""The folder of a grading folder into which `nbgrader collect` collects."""
TIMESTAMP, SECRET = "timestamp.txt", "submission_secret.txt"
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: UTC)?")
_HEX = re.compile(r"[0-9a-f]{32,256}")


def secret(beside: Iterable[Found]) -> str:
    """The secret among the files that lie in a notebook's folder; "" where there is none. A false
    one only hides the page from the student who wrote it."""
    return _told(beside, SECRET, _HEX.fullmatch)


def time(beside: Iterable[Found]) -> str:
    """The time among them; "" where there is none. It is the student's own file: believe it where
    nbgrader collected it, and nowhere else."""
    return _told(beside, TIMESTAMP, _TIME.fullmatch).removesuffix(" UTC")


def _told(beside: Iterable[Found], name: str, fits: Callable[[str], object]) -> str:
    for file in beside:
        if file.path[-1] == name:
            try:
                text = file.read().decode().strip()
            except (Unreadable, UnicodeDecodeError):
                return ""
            return text if fits(text) else ""
    return ""
