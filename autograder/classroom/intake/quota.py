"""How much one owner may hand in, so that nobody uses up what the class may.

Counted before anything is read, folders and hidden files too. Who owns a file is not ours to know:
it is asked, of the path alone.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ..errors import UserError

MAX_FILES = 200_000
"""Of a class: more is a wrong folder."""
MAX_FILES_EACH = 2_000


class Quota:
    """The files of one hand-in folder or archive, counted by owner."""

    def __init__(self, source: Path, whose: Callable[[tuple[str, ...]], str]) -> None:
        """whose: the owner of a path."""
        self.source, self._whose = source, whose
        self._of: Counter[str] = Counter()
        self._all = 0
        self._refused: set[str] = set()

    def room(self, folder: tuple[str, ...]) -> int:
        """How many names of `folder` are worth reading: one more than is allowed."""
        one, other = self._whose((*folder, "a")), self._whose((*folder, "b"))
        return 1 + (MAX_FILES_EACH if one == other else MAX_FILES)

    def take(self, path: tuple[str, ...]) -> bool:
        """Counts a file; False where it is one too many for its owner. What is too many for an
        owner does not count for the class. Raises UserError where the class has too many."""
        owner = self._whose(path)
        if self._of[owner] >= MAX_FILES_EACH:
            return False
        self._of[owner] += 1
        self._all += 1
        if self._all > MAX_FILES:
            raise UserError(
                f"{self.source} holds more than {MAX_FILES:,} files: is it the right one?"
            )
        return True

    def refusal(self, path: tuple[str, ...]) -> str:
        """Why nothing of the owner of `path` is graded; said once, "" afterwards."""
        owner = self._whose(path)
        if owner in self._refused:
            return ""
        self._refused.add(owner)
        return (
            f"There are more than {MAX_FILES_EACH:,} files in what you handed in. "
            "Hand in the notebook alone."
        )
