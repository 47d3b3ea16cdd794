"""Publishing while others are still being graded: the same `publish`, in a thread of its own.

nbgrader is imported, and pages are made, while the grader would only wait for its workers. There is
one writer at a time, and no verdict waits for it.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..intake.release import Release
from . import late_policy
from .course import quiet
from .publish import Graded, Published, publish


class Publisher:
    """A context manager: at its end all that was `add`ed is published, and `published` says how it
    went; where an exception goes through it, the rest is left for the next run."""

    def __init__(self, folder: Path, release: Release, policy: late_policy.Policy | None) -> None:
        self._folder, self._release, self._policy = folder, release, policy
        self._waiting: queue.SimpleQueue[Graded | None] = queue.SimpleQueue()
        self._is_stopped = False
        self._beside = ThreadPoolExecutor(1, "publisher")
        self.published = Published()

    def add(self, one: Graded) -> None:
        self._waiting.put(one)

    def __enter__(self) -> Publisher:
        self._done = self._beside.submit(self._run)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Raises what stopped it: UserError, OSError."""
        self._is_stopped = error is not None
        self._waiting.put(None)
        self._beside.shutdown()
        if error is None:
            self.published = self._done.result()

    def _run(self) -> Published:
        if (first := self._waiting.get()) is None:
            return Published()
        with quiet(self._folder / "grade.log") as log:
            every = self._each(first)
            return publish(self._folder, self._release, every, log, policy=self._policy)

    def _each(self, one: Graded | None) -> Iterator[Graded]:
        while one is not None and not self._is_stopped:
            yield one
            one = self._waiting.get()
