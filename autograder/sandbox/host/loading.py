"""Running a submission's cells in a process, again and again if need be, and remembering which of
them end a process."""

import ast
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autograder.judge import Cause, Raised, Text, text
from autograder.judge.cell_names import bound

from ..engines.limits import Limits
from ..wire.messages import Ran, cell_request, read_cell_reply
from .request import LEFT_RUNNING, Lost, ask_in_a_row, expect_quiet
from .running import Patience, Running

MAX_RESTARTS = 4
MOST_BUSY = 1
"""How often what its cells started, or its answers, may keep the processor busy."""


@dataclass(frozen=True)
class Cell:
    """One code cell: a name that a person can find it by, and its source."""

    name: str
    source: str


@dataclass(frozen=True)
class CellResult:
    """What became of a cell when it first ran. output: what it printed, cut and cleaned."""

    name: str
    error: Raised | None
    output: str


class Loader:
    """The cells of one submission, what became of them, and which must never run again."""

    def __init__(self, cells: Sequence[Cell], limits: Limits) -> None:
        self._cells, self._limits = tuple(cells), limits
        self.results: dict[int, CellResult] = {}  # by place, and in order
        self._skipped: dict[int, tuple[int, ...]] = {}  # statements that take too long, by cell
        self._only_definitions: set[int] = set()  # of a cell that ended a process
        self._deadly: set[int] = set()  # their definitions did, too
        self.times_left_running = 0  # how many cells left something that keeps the processor busy
        self._left_s, self._until = 0.0, math.inf

    @property
    def lost_a_process(self) -> bool:
        """Whether a cell ended one, or never ended."""
        return bool(self._deadly or self._only_definitions)

    def source_defining(self, name: str) -> str | None:
        """The text of the last cell that gives `name` a value; None without one."""
        return next((c.source for c in reversed(self._cells) if name in _defined(c.source)), None)

    def load(self, start: Callable[[], Running], *, until: float = math.inf) -> Running:
        """A fresh process in which all cells have run. Of a cell that ends one, its definitions
        have; if they end it too, nothing of it.

        New cells share `load_s`, and each takes at most half of what is left: an endless one leaves
        something for the others. A statement that takes most of that is stopped, and left out
        from then on. Cells that ran before share a `load_s` of their own. Nothing runs beyond
        `until` (of time.monotonic). Raises GraderFault.
        """
        self._left_s, self._until = self._limits.load_s, until
        for attempt in range(MAX_RESTARTS + 1):
            if attempt == MAX_RESTARTS:
                self._give_up_on_the_rest()
            running = start()
            try:
                self._run_all(running)
            except Lost:
                continue
            except BaseException:
                running.kill()
                raise
            return running
        return start()  # cells that behave differently each time: none of them counts

    def _run_all(self, running: Running) -> None:
        """Raises Lost for a cell that ended the process; it is remembered."""
        known_until = time.monotonic() + self._limits.load_s
        for k in range(len(self._cells)):
            if k in self._deadly:
                continue
            if k in self.results:
                self._run(running, k, known_until - time.monotonic())
            else:
                started = time.monotonic()
                try:
                    self._run(running, k, self._left_s / 2)
                finally:
                    self._left_s -= time.monotonic() - started

    def _run(self, running: Running, k: int, patience_s: float) -> None:
        cell, seconds = self._cells[k], max(patience_s, 0.0)
        patience_s = min(patience_s, self._until - time.monotonic())
        request = cell_request(
            cell.name,
            cell.source,
            seconds=seconds,  # no line is slow because the submission's time is over
            skipped=self._skipped.get(k, ()),
            only_definitions=k in self._only_definitions,
        )
        ran, lost = ask_in_a_row(running, request, read_cell_reply, patience=Patience(patience_s))
        if lost is None:
            try:
                expect_quiet(running)
            except Lost as busy:
                lost = busy
        error = lost.raised if lost else _error(ran[0], seconds)
        self.results.setdefault(k, CellResult(cell.name, error, running.output.take()))
        if lost:
            (self._deadly if k in self._only_definitions else self._only_definitions).add(k)
            if lost.raised.error == LEFT_RUNNING:
                self._expect_no_more_of_it()
            raise lost
        self._skipped[k] = self._skipped.get(k, ()) + ran[0].overran

    def _expect_no_more_of_it(self) -> None:
        """Where cells leave something running again and again, of the others only the definitions
        run: each such cell would cost a process more, and the class the time for it."""
        self.times_left_running += 1
        if self.times_left_running > MOST_BUSY:
            self._only_definitions |= self._not_run(text("cell_defined"))

    def _give_up_on_the_rest(self) -> None:
        self._deadly |= self._not_run(text("cell_not_run"))

    def _not_run(self, why: Text) -> set[int]:
        """The cells that have not run yet, of each of which this becomes the result."""
        rest = {k for k in range(len(self._cells)) if k not in self.results}
        for k in sorted(rest):
            not_run = Raised(Cause.TIMED_OUT, "NotRun", why=why)
            self.results[k] = CellResult(self._cells[k].name, not_run, "")
        return rest


def _error(ran: Ran, seconds: float) -> Raised | None:
    """What went wrong in a cell: what it raised, or the statements that were stopped."""
    if ran.raised is not None or not ran.overran:
        return ran.raised
    why = text("statement_stopped", seconds=seconds)
    return Raised(Cause.TIMED_OUT, "TimeoutError", lines=ran.lines, why=why)


def _defined(source: str) -> set[str]:
    """The names to which a cell gives a value; of one that is no plain Python, the functions."""
    try:
        return bound(ast.parse(source).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(re.findall(r"^(?:def|class)\s+(\w+)", source, re.MULTILINE))
