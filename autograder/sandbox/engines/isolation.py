"""The walls that every submission has around it, by name.

Leaving one out is what `autograder attack` does, to show that an attack works where its wall is
missing. Nothing else may: a jail without a wall says so in every verdict, and grading refuses it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .gpu import Gpu

WALLS = {
    "files": "its own /tmp and /dev/shm",
    "landlock": "no write outside its own places, even where a mount allows one",
    "limits": "memory, processes, file size and open files",
    "network": "no network but its own",
    "privileges": "no capability, and none to be gained",
    "processes": "no sight of any other process, and no survivor",
    "seccomp": "no system call of the kernel's large surfaces",
}


@dataclass(frozen=True)
class JailSpec:
    """A program, and the jail to run it in.

    paths: what it may read. handed: a descriptor that it inherits, whose number is its last
    argument. without: walls to leave out. gpu: the one that is lent to it.
    """

    program: Sequence[str]
    paths: Sequence[str]
    tmp_bytes: int
    handed: int | None = None
    without: frozenset[str] = frozenset()
    gpu: Gpu | None = None


def known(names: Iterable[str]) -> frozenset[str]:
    """`names` as a set. Raises ValueError for a wall that does not exist."""
    chosen = frozenset(names)
    if unknown := chosen - set(WALLS):
        raise ValueError(f"no such wall: {', '.join(sorted(unknown))}")
    return chosen


def place_name(tier: str, without: frozenset[str]) -> str:
    """What a verdict says about where it was earned."""
    return f"{tier} without {', '.join(sorted(without))}" if without else tier
