"""Files of a hand-in, found in a folder without believing anything they say.

Nothing is followed and nothing is run. A file is opened, measured and read only when it is needed,
and whatever keeps it from being read is a sentence, not a crash.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..errors import UserError
from .quota import Quota

MAX_NOTEBOOK_BYTES = 10 * 2**20
MAX_DEPTH = 8

TOO_LARGE = (
    f"The notebook is larger than {MAX_NOTEBOOK_BYTES // 2**20} MB. Clear its outputs, save it "
    "and hand it in again."
)


class Unreadable(Exception):
    """A file cannot be taken in; the message is the sentence for its student."""


@dataclass(frozen=True)
class Found:
    """One file: its path inside the hand-in, and how to read it.

    read: the bytes, or Unreadable. is_file: False for a link, a device and whatever else is no
    ordinary file. spoils: why nothing of its owner's can be graded; empty almost always.
    """

    path: tuple[str, ...]
    read: Callable[[], bytes]
    is_file: bool = True
    spoils: str = ""


def in_folder(root: Path, quota: Quota) -> Iterator[Found]:
    """Every file below `root`; links and devices too, whose `read` refuses. Hidden folders are
    left out, and so is what an owner has beyond their quota.

    Raises UserError where `root` cannot be read or is no hand-in by its sheer size.
    """
    return _below(root, (), quota)


def spoiling(path: tuple[str, ...], sentence: str) -> Found:
    """A file that makes its owner's hand-in ungradable."""
    return Found(path, refusing(sentence), is_file=False, spoils=sentence)


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
        entries = [(name, _status(folder, name)) for name in _names(folder, quota.room(path))]
    finally:
        os.close(folder)
    for name, status in entries:
        here = (*path, name)
        if not quota.take(here):
            if sentence := quota.refusal(here):
                yield spoiling(here, sentence)
            continue
        if is_hidden(name) or status is None:
            continue
        if not stat.S_ISDIR(status.st_mode):
            yield Found(here, _reader(root, here), is_file=stat.S_ISREG(status.st_mode))
        elif len(here) < MAX_DEPTH:
            yield from _below(root, here, quota)


def _names(folder: int, most: int) -> list[str]:
    """At most so many names, however many there are."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in islice(entries, most))


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:  # it has gone since the listing
        return None


def _open_beneath(root: Path, path: tuple[str, ...], flags: int) -> int:
    """Opens `path` below `root` one name at a time, so that no link on the way is followed."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for step, name in enumerate(path, start=1):
        wanted = flags if step == len(path) else os.O_DIRECTORY
        above, opening = at, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | wanted
        try:
            at = os.open(name, opening, dir_fd=above)
        finally:
            os.close(above)
    return at


def _reader(root: Path, path: tuple[str, ...]) -> Callable[[], bytes]:
    return lambda: _read(root, path)


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
        return at_most(opened.read, MAX_NOTEBOOK_BYTES)


def at_most(read: Callable[[int], bytes], limit: int) -> bytes:
    """All that `read` gives, up to `limit` bytes. Raises Unreadable beyond, whatever the file's
    header said."""
    data = read(limit + 1)
    if len(data) > limit:
        raise Unreadable(TOO_LARGE)
    return data
