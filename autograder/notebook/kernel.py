"""Where the face is running: whether a kernel listens, and which unit's notebook it is."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

_UNIT = re.compile(r"(\d\d_[A-Za-z0-9_]+)\.ipynb$")


def shell() -> Any:
    """IPython's shell, or None. IPython is not imported for the question: who runs in it has it."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def listens() -> bool:
    """Whether somebody could click: the shell of a Jupyter kernel, not a terminal's."""
    return getattr(shell(), "kernel", None) is not None


def unit() -> str:
    """The unit whose notebook this is ("01_strides"), or "" where the editor does not tell."""
    running = shell()
    names = {} if running is None else running.user_ns
    path = names.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", "")
    found = _UNIT.search(str(path))
    return found[1] if found else ""
