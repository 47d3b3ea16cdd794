"""What attacks are run on: jails with and without a wall, a temporary folder, one small release.

A jail takes seconds to start, so each kind is started once and kept until the end.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from autograder.sandbox import Cell, Jail, JailedStudent, Limits, Tier

LIMITS = Limits(
    wall_s=2.0,
    load_s=6.0,
    memory_bytes=384 * 2**20,
    processes=24,
    file_bytes=4 * 2**20,
    tmp_bytes=16 * 2**20,
    output_bytes=10_000,
)
PLAIN = Tier("process", "to show what an attack does without walls", False)


@dataclass(frozen=True)
class Walls:
    """A kind of jail. without: walls left out; readable: paths shown to the submission that grading
    shows to nobody; exposed: so is what lies on the grader's desk; plain: no walls at all."""

    without: frozenset[str] = frozenset()
    readable: tuple[str, ...] = ()
    exposed: bool = False
    plain: bool = False
    limits: Limits = field(default=LIMITS)


ALL = Walls()


def missing(*names: str, limits: Limits = LIMITS) -> Walls:
    """All walls but these."""
    return Walls(frozenset(names), limits=limits)


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
            tier = PLAIN if walls.plain else None
            desk = [str(self.desk.folder)] if walls.exposed else []
            readable = [*walls.readable, *desk]
            jail = Jail(walls.limits, tier, readable, without=walls.without)
            self._jails[walls] = self._stack.enter_context(jail)
        return self._jails[walls]

    def open(self, sources: Iterable[str], walls: Walls = ALL) -> JailedStudent:
        """A submission with these cells, in a process of its own."""
        cells = [Cell(f"cell-{k}", source) for k, source in enumerate(sources)]
        return self.jail(walls).open(cells)
