"""How often Linux had to bring in memory, and what `malloc` does with memory that is freed."""

import ctypes
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from onelayer.drawing.words import counted

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # mallopt's names for its settings
_MOST = 2**30  # bytes
_MOST_ONCE = 2**25  # bytes: what mallopt(3) allows, and older versions of glibc take no more


@dataclass
class PageFaults:
    """What `count_page_faults` counts: `count` is there when the block has ended."""

    count: int = 0

    def __repr__(self) -> str:
        return counted(self.count, "{n:,} page fault", "{n:,} page faults")


@contextmanager
def count_page_faults() -> Iterator[PageFaults]:
    """A context manager that counts this process's page faults, those of all its threads.

        with count_page_faults() as faults:
            z = F.linear(h, W, b)
        faults.count

    A process gets its memory in pages, of 4 KiB on most machines. The first touch of a page is a
    fault: Linux finds a free page, fills it with zeros and maps it. Faults that wait for a disk do
    not count.
    """
    faults, before = PageFaults(), _so_far()
    try:
        yield faults
    finally:
        faults.count = _so_far() - before


def give_back_freed_memory() -> bool:
    """Give all memory that is free in malloc's heap back to Linux: the next to use it will fault.

    Returns whether the C library can (glibc does; see malloc_trim(3)).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True


def keep_freed_memory() -> bool:
    """Have malloc keep what is freed, up to 1 GiB, until this process ends.

    Returns whether the C library obeys (glibc does; see mallopt(3)).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    heap = mallopt(_MMAP_THRESHOLD, _MOST) or mallopt(_MMAP_THRESHOLD, _MOST_ONCE)
    return bool(heap and mallopt(_TRIM_THRESHOLD, _MOST) and mallopt(_TOP_PAD, 2 * _MOST_ONCE))


def _so_far() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
