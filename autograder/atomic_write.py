"""Files that are there whole or not at all, whenever the power goes. It imports nothing of ours, so
every room may use it."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write(path: Path, data: bytes, *, mode: int = 0o644, waits: bool = True) -> None:
    """Puts `data` at `path` in one step and does not return before it is on the disk.

    waits: False for what can be made anew; a power cut may then take it, and a kill cannot.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name[:40]}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        with os.fdopen(file, "wb") as opened:
            opened.write(data)
            opened.flush()
            if waits:
                os.fsync(opened.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    if waits:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
