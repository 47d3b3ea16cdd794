"""Which other grading folders came into this one, when, and where they differed from it.

Records keep the key that they had there, which hangs on the seed of their folder: by its name they
are found again, and nothing that was judged there is judged a second time.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from autograder import atomic_write

from ..errors import UserError


@dataclass(frozen=True)
class Merge:
    """origin: the other folder. seed: the name of its seed secret. when: in UTC. differed: what
    stood otherwise there than here, and what became of it. here: the name of this folder's seed
    secret at that time; "" where nobody noted it."""

    origin: str
    seed: str
    when: str
    differed: tuple[str, ...] = ()
    here: str = ""


def read(folder: Path) -> list[Merge]:
    """In their order. Raises UserError for a damaged list."""
    path = _path(folder)
    try:
        told = json.loads(path.read_bytes())
        return [Merge(**{**one, "differed": tuple(one["differed"])}) for one in told]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}, which says what was merged into the folder, is damaged. Put a copy back."
        ) from error


def seeds(folder: Path, here: str) -> list[str]:
    """The names of the other folders' seed secrets whose verdicts count beside those of `here`,
    this folder's own. Who removes that one wants fresh inputs for everybody, so what was merged
    under it does not speak for anybody any more. Raises UserError."""
    return [one.seed for one in read(folder) if one.here in ("", here)]


def add(folder: Path, merge: Merge) -> None:
    """Notes it down, unless the same was noted before."""
    before = read(folder)
    if any(replace(one, when=merge.when) == merge for one in before):
        return
    data = json.dumps([asdict(one) for one in [*before, merge]], ensure_ascii=False, indent=1)
    atomic_write.write(_path(folder), data.encode(), mode=0o600)


def _path(folder: Path) -> Path:
    return folder / "merges.json"
