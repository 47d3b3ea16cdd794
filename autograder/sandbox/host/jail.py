"""The jail: one zygote, and any number of submissions forked from it, one after the other or at the
same time."""

import contextlib
import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from autograder.judge import GraderFault

from ..engines.gpu import Gpu
from ..engines.isolation import known, place_name
from ..engines.limits import Limits
from .jailed_student import JailedStudent
from .loading import Cell
from .process import PlainProcess
from .running import Running
from .tiers import BUBBLEWRAP, Tier, explained, obstacle
from .zygote_client import ZygoteClient, ZygoteLost
from .zygote_startup import BegunZygote


class Jail:
    """A place to run submissions in; a context manager.

        with Jail() as jail, jail.open(cells) as student:
            verdict = ask(question, student, seed=seed)

    readable: further paths that submissions may read. tier: what `probe()` returned; a tier without
    walls is taken only when it is given here. without: walls to leave out, for attacks that must
    work without them; never for grading (see `walls`). gpu: the one that submissions are lent.
    begun: its zygote, where somebody began it with the same.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        tier: Tier | None = None,
        readable: Sequence[str | Path] = (),
        *,
        without: Iterable[str] = (),
        gpu: Gpu | None = None,
        begun: BegunZygote | None = None,
    ) -> None:
        self._begun = begun
        self.without, self.gpu = known(without), gpu
        self.limits = gpu.limits(limits or Limits()) if gpu else limits or Limits()
        self.tier = tier or BUBBLEWRAP
        self.where = place_name(self.tier.name, self.without)
        self.readable = tuple(readable)
        self._zygote: ZygoteClient | None = None
        self._preloads: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Starts the jail. Raises GraderFault, with what to do, where there can be none."""
        if self.tier.safe and self._zygote is None:
            if why := obstacle(self.tier):
                raise GraderFault(why)
            self._zygote = self._new_zygote()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the jail's outermost process, as this machine counts; None without walls."""
        return None if self._zygote is None else self._zygote.pid

    def close(self) -> None:
        """Ends every process in the jail. Can be called twice."""
        with self._lock:
            if self._zygote is not None:
                self._zygote.close()
                self._zygote = None

    def preload(self, names: Iterable[str]) -> None:
        """From now on these modules are there before a submission begins, so that a cell or an
        answer that imports them costs it nothing. Raises GraderFault."""
        self._preloads |= frozenset(names)
        with self._lock, contextlib.suppress(ZygoteLost):  # it is replaced at the next start
            if self._zygote is not None:
                self._zygote.preload(self._preloads)

    def open(
        self,
        cells: Sequence[Cell],
        *,
        total_s: float = math.inf,
        extra_load_s: float = 0.0,
        loopback: bool = False,
    ) -> JailedStudent:
        """A student whose cells have run, in order, in a process of their own.

        total_s: for everything that this student's code does, however often its process is lost.
        extra_load_s: beyond what cells usually have, for those that call a compiler.
        loopback: whether its processes may talk TCP/IP among themselves, as `Limits` says.
        What the cells do wrong is recorded in `.cells`. Raises GraderFault for what is our fault.
        """
        limits = replace(self.limits, load_s=self.limits.load_s + extra_load_s)
        start = partial(self._start, loopback=loopback)
        return JailedStudent(
            start, cells, limits=limits, where=self.where, total_s=total_s, gpu=self.gpu
        )

    def _new_zygote(self) -> ZygoteClient:
        begun, self._begun = self._begun, None
        try:
            return ZygoteClient(
                self.limits,
                readable=self.readable,
                without=self.without,
                engine=self.tier.name,
                gpu=self.gpu,
                begun=begun,
            )
        except (GraderFault, OSError) as fault:
            raise GraderFault(explained(str(fault))) from fault

    def _start(self, *, loopback: bool = False) -> Running:
        """A fresh process. A zygote that died is replaced, once."""
        if not self.tier.safe:
            return PlainProcess(self.limits, self.gpu)
        lost = None
        for _ in range(2):
            zygote = self._zygote_after(lost)
            try:
                zygote.preload(self._preloads)
                return zygote.fork(loopback=loopback)
            except ZygoteLost:
                lost = zygote
        raise GraderFault("the jail died twice in a row")

    def _zygote_after(self, lost: ZygoteClient | None) -> ZygoteClient:
        """The zygote, a new one if `lost` is still the one that we have: no other thread was
        faster. Raises GraderFault where the jail is closed."""
        with self._lock:
            if lost is not None and self._zygote is lost:
                lost.close()
                self._zygote = self._new_zygote()
            if self._zygote is None:
                raise GraderFault("the jail is closed")
            return self._zygote
