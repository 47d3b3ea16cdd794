"""The statements of a cell and the time that each may take.

An experiment that a student leaves in an answer's cell may take long. It costs its own result: it
is stopped, and the statements after it run. What holds a process that does not let itself be
stopped is on the other side.
"""

import ast
import contextlib
import signal
from collections.abc import Collection, Iterator, Sequence
from signal import ITIMER_REAL, SIGALRM, setitimer
from time import monotonic  # as it was before any cell could replace it
from typing import Any

SHARE = 0.8
"""Of the time that a cell has left, for its next statement: the others want some too."""


class Overrun(BaseException):
    """Raised in a statement that takes too long. No `except Exception` is to swallow it."""


class Statements:
    """Of one run of a cell, counted from 0.

    seconds: for all. skipped: those known to take too long. overran: (number, line) of those that
    took too long this time.
    """

    def __init__(self, seconds: float, skipped: Collection[int] = ()) -> None:
        self._until, self._skipped, self._next = monotonic() + seconds, frozenset(skipped), 0
        self.nodes: Sequence[ast.stmt] = ()
        self.overran: list[tuple[int, int]] = []

    def skips_next(self) -> bool:
        """Whether the next statement is to be left out; then it is the one after it."""
        skips = self._next in self._skipped
        self._next += skips
        return skips

    def goes_on(self, raised: BaseException | None) -> bool:
        """Whether the statements after the last one run, although it raised: where it took too
        long, and where it was to import a package that is not here."""
        is_import = isinstance(self.nodes[self._next - 1], (ast.Import, ast.ImportFrom))
        missed = is_import and isinstance(raised, ModuleNotFoundError)
        return missed or isinstance(raised, Overrun)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Around the next statement: Overrun is raised in it when its time is over. In the main
        thread only."""
        number, line, running = self._next, self.nodes[self._next].lineno, True
        self._next += 1

        def stop(*_: Any) -> None:
            if running:
                self.overran.append((number, line))
                raise Overrun(f"line {line} took too long")

        before = signal.signal(SIGALRM, stop)
        try:
            setitimer(ITIMER_REAL, max(SHARE * (self._until - monotonic()), 0))
            yield
        finally:
            running = False
            setitimer(ITIMER_REAL, 0)
            signal.signal(SIGALRM, before)


def definitions(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Those that define and do nothing else, as far as can be read: functions, classes, imports,
    and names of what is not computed by a call."""
    return [one for one in statements if _defines(one)]


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return not any(isinstance(part, (ast.Call, ast.Await)) for part in ast.walk(statement))
    return isinstance(
        statement,
        (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
    )
