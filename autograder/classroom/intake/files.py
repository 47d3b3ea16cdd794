"""Files of a hand-in, found in a folder without believing anything they say.

Nothing is followed and nothing is run. A file is opened, measured and read only when it is needed,
and whatever keeps it from being read is a sentence, not a crash. What is too many for one owner is
counted before anything is read, folders and hidden files too, so that nobody uses up what the class
may; who owns a file is not ours to know: it is asked, of the path alone.
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path

from ..errors import UserError

MAX_NOTEBOOK_BYTES = 10 * 2**20
MAX_DEPTH = 8
MAX_FILES = 200_000
"""Of a class: more is a wrong folder."""
MAX_FILES_EACH = 2_000

TOO_LARGE = (
    f"The notebook is larger than {MAX_NOTEBOOK_BYTES // 2**20} MB. Clear its outputs, save it "
    "and hand it in again."
)
TOO_DEEP = f"The notebook lies in more than {MAX_DEPTH - 1} folders. Hand in the file itself."
EMPTY = "The folder that was handed in is empty."
LINKED = (
    "The notebook has a second name elsewhere on the disk (a hard link), so it may be somebody "
    "else's. Hand in a copy."
)


class Unreadable(Exception):
    """A file cannot be taken in; the message is the sentence for its student."""


@dataclass(frozen=True)
class Found:
    """One file: its path inside the hand-in, and how to read it.

    read: the bytes, or Unreadable. is_file: False for a link, a device and whatever else is no
    ordinary file. is_empty_folder: it stands for a folder without a file. is_hidden: it, or all of
    the folder that it stands for, is what tools leave behind. spoils: why nothing of its owner's
    can be graded; empty almost always.
    """

    path: tuple[str, ...]
    read: Callable[[], bytes]
    is_file: bool = True
    is_empty_folder: bool = False
    is_hidden: bool = False
    spoils: str = ""


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


def in_folder(root: Path, quota: Quota) -> Iterator[Found]:
    """Every file below `root`; links and devices too, whose `read` refuses. A hidden folder stands
    for all that is in it; what an owner has beyond their quota is left out.

    Raises UserError where `root` cannot be read or is no hand-in by its sheer size.
    """
    return _below(root, (), quota)


def spoiling(path: tuple[str, ...], sentence: str) -> Found:
    """A file that makes its owner's hand-in ungradable."""
    return Found(path, refusing(sentence), is_file=False, spoils=sentence)


def empty(path: tuple[str, ...]) -> Found:
    """A folder in which there is nothing to hand in."""
    return Found(path, refusing(EMPTY), is_file=False, is_empty_folder=True)


def hidden(path: tuple[str, ...]) -> Found:
    """What a tool left behind: it is counted, and nobody hands it in."""
    return Found(path, refusing(""), is_file=False, is_hidden=True)  # no student has it


def is_hidden(name: str) -> bool:
    """What tools leave behind: `.ipynb_checkpoints`, `.DS_Store`, `__MACOSX`."""
    return name.startswith(".") or name == "__MACOSX"


def refusing(sentence: str) -> Callable[[], bytes]:
    """A `read` for a file that is not to be read."""

    def read() -> bytes:
        raise Unreadable(sentence)

    return read


def _below(root: Path, path: tuple[str, ...], quota: Quota) -> Iterator[Found]:
    try:
        folder = _open_beneath(root, path, os.O_DIRECTORY)
    except OSError as error:
        if not path:
            raise UserError(f"Cannot read {root}: {error.strerror}.") from error
        yield Found(path, refusing("This folder cannot be read."), is_file=False)
        return
    try:
        with os.scandir(folder) as found:  # however many there are, no more is read than is taken
            entries = sorted(islice(found, quota.room(path)), key=attrgetter("name"))
        listed = [(entry, _mode(entry)) for entry in entries]
    finally:
        os.close(folder)
    if path and not any(mode and not is_hidden(entry.name) for entry, mode in listed):
        yield empty(path)
    for entry, mode in listed:
        name, here = entry.name, (*path, entry.name)
        if not quota.take(here):
            if sentence := quota.refusal(here):
                yield spoiling(here, sentence)
            continue
        if not mode:
            continue
        if is_hidden(name):
            yield hidden(here)
        elif not stat.S_ISDIR(mode):
            yield Found(here, partial(_read, root, here), is_file=stat.S_ISREG(mode))
        elif len(here) < MAX_DEPTH:
            yield from _below(root, here, quota)
        else:
            yield Found(here, refusing(TOO_DEEP))  # a row for whoever has nothing else


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except OSError:  # it has gone since the listing
        return 0


def _open_beneath(root: Path, path: tuple[str, ...], flags: int) -> int:
    """Opens `path` below `root` one name at a time, so that no link on the way is followed."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for name in path:
        above, opening = at, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | flags
        try:
            at = os.open(name, opening, dir_fd=above)
        finally:
            os.close(above)
    return at


def _read(root: Path, path: tuple[str, ...]) -> bytes:
    try:
        file = _open_beneath(root, path, 0)
    except OSError as error:
        raise Unreadable(
            "The notebook is a link or cannot be opened. Hand in the file itself."
        ) from error
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(opened.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("The notebook is not an ordinary file. Hand in the file itself.")
        if status.st_nlink > 1:
            raise Unreadable(LINKED)
        return at_most(opened.read, MAX_NOTEBOOK_BYTES)


def at_most(read: Callable[[int], bytes], limit: int) -> bytes:
    """All that `read` gives, up to `limit` bytes. Raises Unreadable beyond, whatever the file's
    header said."""
    data = read(limit + 1)
    if len(data) > limit:
        raise Unreadable(TOO_LARGE)
    return data
