"""Takes out of a recording what is about the machine and not about torch: paths and names."""

import contextlib
import getpass
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# An absolute path. Not behind what makes a slash a division, a URL or a part of a relative path.
_ALONE = r"(?<![\w./<)\]])"
_PATH = re.compile(_ALONE + r"(?:/[\w.+@~%-]+)+/?")
_FILE = re.compile(r"[\w+-][\w.+-]*\.\w+")
# Names of nobody, some of which are words of the code as well.
_ORDINARY = frozenset({"localhost", "root", "user", "cuda", "gpu", "torch", "triton", "python"})


def cleaned(content: Any) -> Any:
    """The same dicts, lists and numbers, with every string in them cleaned, keys too.

    Of a path a file's own name is left, of a folder's "...". The names of the user and of the host,
    where they stand as a word, become "someone" and "somewhere".
    """
    if isinstance(content, str):
        return _clean(content)
    if isinstance(content, dict):
        return {_clean(str(key)): cleaned(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [cleaned(value) for value in content]
    return content


def _clean(text: str) -> str:
    for folder in _folders():
        text = re.sub(rf"{_ALONE}{re.escape(folder)}(?![\w.-])", "/folder", text)
    text = _PATH.sub(_own_name, text)
    for name, instead in _names():
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", instead, text)
    return text


def _own_name(path: re.Match[str]) -> str:
    last = path[0].rstrip("/").rpartition("/")[2]
    return last if _FILE.fullmatch(last) else "..."


def _folders() -> list[str]:
    """Folders of this machine whose names may hold what no pattern of a path expects, longest
    first."""
    found = {os.getcwd(), str(Path.home()), tempfile.gettempdir(), sys.prefix, sys.base_prefix}
    return sorted((f for f in found if len(f) > 1), key=len, reverse=True)


def _names() -> Iterator[tuple[str, str]]:
    host = socket.gethostname()
    for name in (host, host.partition(".")[0]):  # the longer one first
        if name and name not in _ORDINARY:
            yield name, "somewhere"
    users = {os.environ.get(key, "") for key in ("USER", "LOGNAME", "SUDO_USER")}
    with contextlib.suppress(KeyError, OSError):  # a container's user without a name
        users.add(getpass.getuser())
    for name in users - {""} - _ORDINARY:
        yield name, "someone"
