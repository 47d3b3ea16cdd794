"""How much memory a question took, read from outside the process that answered it.

Linux keeps a process's high-water mark and lets its owner set it back. The student's code is not
asked.
"""

import re
from pathlib import Path

from autograder.sandbox import JailedStudent

_STATUS = re.compile(r"^(VmHWM|VmRSS):\s+(\d+) kB$", re.MULTILINE)
PAGE_BYTES = 4096
_RESET = "5"  # proc(5), clear_refs: the high-water mark becomes what is resident now


class Peak:
    """Begins when it is made; `grown` says by how many bytes the process grew at most since."""

    def __init__(self, student: JailedStudent) -> None:
        self._student, self._pid = student, student.pid
        self._before = _resident(self._pid).get("VmRSS", 0)
        self._is_set_back = self._before > 0 and _set_back(self._pid)

    def grown(self) -> int:
        """Bytes, a page at least; 0 where it cannot be known: the process was lost, or this system
        does not tell."""
        if not self._is_set_back or self._student.pid != self._pid:
            return 0
        return max(PAGE_BYTES, _resident(self._pid).get("VmHWM", 0) - self._before)


def _resident(pid: int | None) -> dict[str, int]:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return {}
    return {name: int(kib) * 1024 for name, kib in _STATUS.findall(text)}


def _set_back(pid: int | None) -> bool:
    try:
        Path(f"/proc/{pid}/clear_refs").write_text(_RESET, encoding="ascii")
    except OSError:
        return False
    return True
