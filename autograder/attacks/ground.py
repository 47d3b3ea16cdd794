"""What attacks are run on: jails with and without a wall, and a temporary folder.

A jail takes seconds to start. Walls are built around each fork anew, so that jails which differ in
nothing else share one zygote; it is kept until the end.
"""

from __future__ import annotations

import copy
import secrets
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from autograder.judge import GraderFault
from autograder.sandbox import Cell, Jail, JailedStudent, Limits, Tier, probe
from autograder.sandbox.engines.bubblewrap import package_root

LIMITS = Limits(
    wall_s=8.0,
    load_s=8.0,
    memory_bytes=384 * 2**20,
    processes=24,
    file_bytes=4 * 2**20,
    tmp_bytes=16 * 2**20,
    output_bytes=10_000,
)
IMPATIENT = replace(LIMITS, wall_s=2.0)
"""For attacks that would go on for ever."""

CHECKS = package_root() / "autograder" / "checks"
PLAIN = Tier("process", "to show what an attack does without walls", False)


@dataclass(frozen=True)
class Walls:
    """A kind of jail. without: walls left out; exposed: what lies on the grader's desk, and the
    checks, can be read; plain: no walls at all."""

    without: frozenset[str] = frozenset()
    exposed: bool = False
    plain: bool = False
    limits: Limits = field(default=LIMITS)


ALL = Walls()


def missing(*names: str, limits: Limits = LIMITS) -> Walls:
    """All walls but these."""
    return Walls(frozenset(names), limits=limits)


def sharing(first: Jail, walls: Walls) -> Jail:
    """A jail whose forks come from the zygote of `first`, which alone may be closed."""
    jail = Jail(walls.limits, first.tier, without=walls.without)
    if first._zygote is not None:
        jail._zygote = copy.copy(first._zygote)
        jail._zygote.limits, jail._zygote.without = walls.limits, walls.without
    return jail


class Desk:
    """What a grader has lying about, each with a secret of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.solution = self._put("solutions/00_small/00_small.py")
        self.hand_in = self._put("submitted/ada/00_small/00_small.ipynb")
        self.gradebook = self._put("gradebook.db")

    def _put(self, name: str) -> str:
        """A file with a secret in it; the secret."""
        path, secret = self.folder / name, secrets.token_hex(16)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(secret)
        return secret


class Ground:
    """Shared by all attacks of a run; a context manager, which leaves nothing behind."""

    def __enter__(self) -> Ground:
        self._stack = ExitStack()
        self._folders = 0
        self._jails: dict[Walls, Jail] = {}
        made = tempfile.TemporaryDirectory(prefix="onelayer-attack-", ignore_cleanup_errors=True)
        self.folder = Path(self._stack.enter_context(made))
        self.desk = Desk(self.new_folder())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stack.close()

    def new_folder(self) -> Path:
        """An empty folder for one attack."""
        self._folders += 1
        made = self.folder / str(self._folders)
        made.mkdir()
        return made

    def seed(self) -> int:
        """As secret as in grading: nobody can have known it."""
        return secrets.randbits(63)

    def jail(self, walls: Walls = ALL) -> Jail:
        if walls not in self._jails:
            self._jails[walls] = self._new_jail(walls)
        return self._jails[walls]

    def _new_jail(self, walls: Walls) -> Jail:
        network = walls.without & {"network"}  # the one wall that stands around the zygote too
        first = Walls(network, walls.exposed, walls.plain)
        if walls != first:
            return sharing(self.jail(first), walls)
        tier = PLAIN if walls.plain else probe()
        if not walls.plain and not tier.safe:  # with its wall off, a mount would be this machine's
            raise GraderFault(f"no attack is tried without a jail around it: {tier.reason}")
        readable = [self.desk.folder, CHECKS] if walls.exposed else []
        jail = Jail(walls.limits, tier, readable, without=walls.without)
        return self._stack.enter_context(jail)

    def open(self, sources: Iterable[str], walls: Walls = ALL) -> JailedStudent:
        """A submission with these cells, in a process of its own."""
        cells = [Cell(f"cell-{k}", source) for k, source in enumerate(sources)]
        return self.jail(walls).open(cells)
