"""Where progress is kept: one small file, written whole or not at all.

Two notebooks may write at once (a lock), the machine may die in the middle (a temporary file, then
`os.replace`), the file may have become anything (it is set aside and named), the disk may refuse
(the kernel remembers until it ends). None of it stops a student; each is one sentence.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, reduce
from itertools import count
from pathlib import Path

from filelock import FileLock

from .progress_record import Broken, Newer, Progress, from_json

NAME = "progress.json"
MAX_BYTES = 4 * 2**20
WAIT_S = 2.0

Edit = Callable[[Progress], Progress]


@dataclass(frozen=True)
class Kept:
    """What is remembered now, and a sentence where something about the file needs saying."""

    progress: Progress
    note: str = ""


def progress_store() -> ProgressStore:
    """The store of this user: in ~/.onelayer, or where ONELAYER_HOME says."""
    home = os.environ.get("ONELAYER_HOME")
    return shelf_in(Path(home) if home else Path(os.path.expanduser("~")) / ".onelayer")


@cache
def shelf_in(folder: Path) -> ProgressStore:
    """One store per folder, since it remembers what could not be written."""
    return ProgressStore(folder)


class ProgressStore:
    """Progress in `folder`/progress.json. Its methods never raise for the state of the disk."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._unwritten: list[Edit] = []

    def read(self) -> Kept:
        """What is remembered, without changing anything but a broken file's name."""
        try:
            return self._kept(_load(self.path), self._unwritten_note())
        except Broken:
            return self._update()
        except (OSError, Newer) as error:
            return self._kept(Progress(), _not_stored(self.path, error))

    def change(self, edit: Edit) -> Kept:
        """Applies `edit` to what is remembered. What cannot be written now is written with the next
        change."""
        self._unwritten.append(edit)
        return self._update()

    def _update(self) -> Kept:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_suffix(".lock"), timeout=WAIT_S):
                stored, note = self._load_or_set_aside()
                kept = self._kept(stored, note)
                _write(self.path, kept.progress.to_json())
        except (OSError, NotImplementedError, Newer) as error:
            return self._kept(_load_or_empty(self.path), _not_stored(self.path, error))
        self._unwritten.clear()
        return kept

    def _kept(self, stored: Progress, note: str) -> Kept:
        return Kept(reduce(lambda now, edit: edit(now), self._unwritten, stored), note)

    def _unwritten_note(self) -> str:
        return f"The last changes are not in {self.path} yet." if self._unwritten else ""

    def _load_or_set_aside(self) -> tuple[Progress, str]:
        try:
            return _load(self.path), ""
        except Broken as error:
            aside = _set_aside(self.path)
            return Progress(), f"{self.path} could not be read ({error}); it is now {aside.name}."


def _load(path: Path) -> Progress:
    """Raises Broken, Newer or OSError. A file that is not there is an empty one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return Progress()
    if not stat.S_ISREG(found.st_mode):
        raise Broken("it is no file")
    if found.st_size > MAX_BYTES:
        raise Broken("it is far too large")
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise Broken("it is no text") from error


def _load_or_empty(path: Path) -> Progress:
    try:
        return _load(path)
    except (OSError, Broken, Newer):
        return Progress()


def _set_aside(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.broken-{n}") for n in count(1))
    aside = next(name for name in names if not os.path.lexists(name))
    path.rename(aside)
    return aside


def _write(path: Path, text: str) -> None:
    """Writes beside the file, then replaces it: a reader sees the old file or the new one."""
    beside = path.with_suffix(".tmp")  # one name, since whoever writes holds the lock
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def _not_stored(path: Path, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"Progress is not stored in {path} ({reason}); this kernel remembers it until it ends."
