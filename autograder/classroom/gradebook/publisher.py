"""The gradebook and the feedback, written while others are still being graded.

`gradebook.record_all` writes whatever is missing once the class is done, and says what went wrong.
This goes ahead of it with the same steps, in a thread of its own: nbgrader is imported, and the
pages are made, while the grader would only wait for its workers. There is still one writer at a
time, and nothing depends on how far this one comes.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import warnings
from pathlib import Path
from types import TracebackType

from ..errors import UserError
from ..intake.release import Release
from . import gradebook
from .course import database, in_one_line, prepare
from .gradebook import Graded


class Publisher:
    """A context manager: at its end all that was `add`ed has been tried, unless an exception goes
    through it."""

    def __init__(self, folder: Path, release: Release) -> None:
        self._folder, self._release = folder, release
        self._queue: queue.SimpleQueue[Graded | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def add(self, one: Graded) -> None:
        self._queue.put(one)

    def __enter__(self) -> Publisher:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is not None:
            self._stopped.set()
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        """Whatever goes wrong ends it: `record_all` meets the same, and tells the instructor."""
        silent = logging.Logger("autograder.publisher", logging.CRITICAL + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nbgrader's own deprecations
            with contextlib.suppress(UserError, OSError), in_one_line(self._folder, silent):
                self._write(silent)

    def _write(self, log: logging.Logger) -> None:
        from .pages import Pages  # takes seconds, in which nothing is graded yet
        from .rows import opened

        if (one := self._next()) is None:
            return
        prepare(self._folder, self._release)
        pages = Pages(self._folder, self._release.name, log)
        with opened(database(self._folder)) as book:
            while one is not None:
                gradebook.publish(self._folder, self._release, one, book, pages)
                one = self._next()

    def _next(self) -> Graded | None:
        one = self._queue.get()
        return None if self._stopped.is_set() else one
