"""The walls that every submission has around it, by name.

Leaving one out is what `autograder attack` does, to show that an attack works where its wall is
missing. Nothing else may: a jail without a wall says so in every verdict, and grading refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable

WALLS = {
    "files": "its own /tmp and /dev/shm",
    "landlock": "no write outside its own places, even where a mount allows one",
    "limits": "memory, processes, file size and open files",
    "network": "no network but its own",
    "privileges": "no capability, and none to be gained",
    "processes": "no sight of any other process, and no survivor",
    "seccomp": "no system call of the kernel's large surfaces",
}


def known(names: Iterable[str]) -> frozenset[str]:
    """`names` as a set. Raises ValueError for a wall that does not exist."""
    chosen = frozenset(names)
    if unknown := chosen - set(WALLS):
        raise ValueError(f"no such wall: {', '.join(sorted(unknown))}")
    return chosen


def place_name(tier: str, without: frozenset[str]) -> str:
    """What a verdict says about where it was earned."""
    return f"{tier} without {', '.join(sorted(without))}" if without else tier
