"""Built files, kept by what they were built from: the same source is compiled once.

A file gets its place only when its build has succeeded, by a rename, so that a build that fails or
is killed leaves nothing behind, and two processes that build the same do not meet.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

KEPT = 200
"""Files; the ones that nobody has asked for longest make room."""


def cached(parts: Iterable[str | bytes], suffix: str, build: Callable[[Path], None]) -> Path:
    """The file built from `parts`, which is all that decides what is in it.

        so = cached([source, *flags, compiler], ".so", lambda out: compile_to(out))

    Where there is none yet, `build(out)` has to write the file `out`, in a directory of its own
    that is deleted afterwards. What `build` raises goes through, and nothing is kept.
    """
    place = cache_directory() / f"{digest(parts)}{suffix}"
    try:
        os.utime(place)  # asked for now
    except FileNotFoundError:
        with tempfile.TemporaryDirectory(prefix="build-", dir=place.parent) as made:
            out = Path(made) / place.name
            build(out)
            out.replace(place)
        _make_room(place.parent, suffix)
    return place


def digest(parts: Iterable[str | bytes]) -> str:
    """64 hexadecimal digits; where one part ends and the next begins makes a difference."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def cache_directory() -> Path:
    """The first of these that this user alone can write: $ONELAYER_CACHE, `onelayer` in the user's
    cache directory, one among temporary files (a home may be read-only, as it is in the jail)."""
    named = os.environ.get("ONELAYER_CACHE")
    homes = filter(None, [os.environ.get("XDG_CACHE_HOME"), "~/.cache"])
    wanted = [Path(named)] if named else []
    wanted += [Path(home).expanduser() / "onelayer" for home in homes]
    wanted.append(Path(tempfile.gettempdir()) / f"onelayer-{os.getuid()}")
    found = next((path for path in wanted if _is_own(path)), None)
    return found or Path(tempfile.mkdtemp(prefix="onelayer-"))


def _is_own(path: Path) -> bool:
    """Whether the directory, made if it has to be, can be written by this user and nobody else:
    what lies in it is run."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
        known = path.stat()
    except OSError:
        return False
    return known.st_uid == os.getuid() and not known.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_room(place: Path, suffix: str) -> None:
    """Deletes the files of that suffix beyond the KEPT latest. One that is loaded stays loaded."""
    found: list[tuple[float, Path]] = []
    for path in place.glob(f"*{suffix}"):
        try:
            found.append((path.stat().st_mtime, path))
        except FileNotFoundError:
            continue  # another process made room
    for _, path in sorted(found)[:-KEPT]:
        path.unlink(missing_ok=True)
