"""Files of a hand-in inside a zip archive. Nothing is ever unpacked to disk.

A name in an archive is text that a stranger chose: it decides whose notebook it is, and nothing
else. No path is built from it.
"""

import itertools
import lzma
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from ..errors import UserError
from .files import (
    MAX_DEPTH,
    MAX_NOTEBOOK_BYTES,
    TOO_DEEP,
    Found,
    Quota,
    Unreadable,
    at_most,
    empty,
    hidden,
    is_hidden,
    refusing,
    spoiling,
)

MAX_RATIO = 500
"""Text that is one character over and over deflates by a thousand; a notebook by ten."""
MAX_NAME = 255
_ENCRYPTED = 0x1
_PIECE_BYTES = 4096
_DAMAGE = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    RuntimeError,
)


def in_archive(path: Path, quota: Quota) -> Iterator[Found]:
    """Every file in the zip archive at `path`. One that is unsafe is named, and its `read` refuses;
    what an owner has beyond their quota is left out.

    Raises UserError where the archive itself cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            listed = archive.infolist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise UserError(f"Cannot read {path} as a zip archive: {error}.") from error
    infos = [info for info in listed if not info.is_dir()] + _empty_folders(listed)
    left_behind = set[tuple[str, ...]]()
    names = Counter(_twin_key(info.filename) for info in infos)
    top = _folder_zipped(path, infos)
    for info in infos:
        parts = tuple(part for part in info.filename.split("/") if part not in ("", "."))
        parts = parts[1:] if parts[:1] == top else parts
        shown = _shown(parts)
        if not quota.take(shown):
            if sentence := quota.refusal(shown):
                yield spoiling(shown, sentence)
            continue
        if any(is_hidden(part) for part in parts if part != ".."):
            left_behind.add(_down_to_the_hidden(shown))
            continue
        if info.is_dir():
            yield empty(shown)
            continue
        reason = _unsafe(info, parts, names)
        read = refusing(reason) if reason else partial(_read, path, info)
        yield Found(shown, read, is_file=_is_file(info))
    yield from map(hidden, sorted(left_behind))


def _down_to_the_hidden(path: tuple[str, ...]) -> tuple[str, ...]:
    """A hidden folder stands for all that is in it."""
    visible = itertools.takewhile(lambda part: not is_hidden(part), path)
    return path[: len(list(visible)) + 1]


def _empty_folders(infos: Sequence[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """The folders that the archive names and holds nothing in but what tools leave behind."""
    filled = set[str]()
    for info in infos:
        names = info.filename.rstrip("/").split("/")
        if not any(map(is_hidden, names)):
            above = range(1, min(len(names), MAX_DEPTH))
            filled.update("/".join(names[:depth]) for depth in above)
    return [info for info in infos if info.is_dir() and info.filename.rstrip("/") not in filled]


def _folder_zipped(path: Path, infos: Sequence[zipfile.ZipInfo]) -> tuple[str, ...]:
    """The archive's own name where every path begins with it: who zips the folder "class" gets
    class.zip with class/ in front, and a Mac's own files beside it."""
    names = (info.filename for info in infos if not info.filename.startswith("__MACOSX/"))
    return (path.stem,) if all(name.startswith(f"{path.stem}/") for name in names) else ()


def _shown(parts: tuple[str, ...]) -> tuple[str, ...]:
    """A path that is only ever compared and shown: without steps upwards, and never empty. Of a
    deep one its beginning, which says whose it is, and its name."""
    downwards = tuple(part for part in parts if part != "..")
    if len(downwards) > MAX_DEPTH:
        return (*downwards[: MAX_DEPTH - 1], downwards[-1])
    return downwards or ("unnamed",)


def _unsafe(info: zipfile.ZipInfo, parts: tuple[str, ...], names: Counter[tuple[str, str]]) -> str:
    if not _is_file(info):
        return "The notebook in the archive is a link, not a file. Hand in the file itself."
    if _wanders(info.filename, parts):
        return "The notebook's name in the archive leads out of the archive."
    if len(parts) > MAX_DEPTH:
        return TOO_DEEP
    if names[_twin_key(info.filename)] > 1:
        return "The archive holds this notebook twice; the names differ in capitals at most."
    if info.flag_bits & _ENCRYPTED:
        return "The archive is protected by a password."
    if info.file_size > MAX_RATIO * info.compress_size:
        return "The notebook in the archive unpacks to hundreds of times its size."
    return ""


def _twin_key(name: str) -> tuple[str, str]:
    """Two notebooks of one folder are twins where their names differ in capitals at most; folders
    that differ so may be two people's."""
    folder, _, file = name.rpartition("/")
    return folder, file.casefold()


def _is_file(info: zipfile.ZipInfo) -> bool:
    """Archives made without Unix modes say 0."""
    return stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)


def _wanders(name: str, parts: tuple[str, ...]) -> bool:
    return (
        name.startswith("/")
        or "\\" in name
        or ".." in parts
        or any(len(part) > MAX_NAME for part in parts)
        or name[1:2] == ":"
    )


def _read(path: Path, info: zipfile.ZipInfo) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(info) as member:
            return at_most(partial(_in_pieces, member), MAX_NOTEBOOK_BYTES)
    except _DAMAGE as error:
        raise Unreadable(f"The archive is damaged where this notebook lies ({error}).") from error


def _in_pieces(member: IO[bytes], size: int) -> bytes:
    """The first `size` bytes of a member, and a little more: LZMA and bzip2 unpack all of what they
    are given at once, seven thousand times as much, whatever is asked for."""
    found = bytearray()
    while len(found) < size and (piece := member.read(_PIECE_BYTES)):
        found += piece
    return bytes(found)
