"""Starting processes that die with this one, from whatever thread.

The kernel's "kill me when my parent dies" (bubblewrap's --die-with-parent) means the parent
*thread*: a jail opened by a worker thread would be killed when that thread ends. So a thread that
lives as long as the process does starts them all: the main one, or one that is kept for it.
"""

import os
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

_starters: dict[int, ThreadPoolExecutor] = {}  # by process id: a fork has no threads of its parent


def spawn(
    command: Sequence[str], *, pass_fds: Sequence[int], stderr: IO[Any] | int, **places: Any
) -> subprocess.Popen[bytes]:
    """A new process in a session of its own, with no descriptor of ours but `pass_fds`.

    Raises OSError when it cannot be started.
    """

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
            **places,
        )

    if threading.current_thread() is threading.main_thread():
        return start()
    starter = _starters.setdefault(os.getpid(), ThreadPoolExecutor(1, "starter"))
    return starter.submit(start).result()
