"""Large pages for what the zygote holds in memory.

A fork copies one entry of the page table for each page, its end takes each away again, and the
first write to a page finds its way through all of them. In pages of 2 MiB the zygote's memory is
some hundred entries instead of some fifty thousand. A fork still copies no more than the 4 KiB that
it writes.

Source: madvise(2), MADV_COLLAPSE.
"""

import ctypes
from collections.abc import Iterator
from pathlib import Path

MADV_COLLAPSE = 25  # Linux 6.1
PAGE_BYTES = 2 * 2**20

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def gather() -> int:
    """Moves this process's own memory into large pages where the kernel can; how many bytes."""
    ranges = list(_filled())  # before any of them is moved
    return sum(n for start, n in ranges if _libc.madvise(start, n, MADV_COLLAPSE) == 0)


def _filled() -> Iterator[tuple[int, int]]:
    """(address, bytes) of the whole large pages in each range that no file backs, that may be
    written, and that is nearly full: a large page takes its room whether it is used or not."""
    mapped: list[str] = []
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            mapped = words
        elif words[0] == "Anonymous:" and _is_ours(mapped):
            first, last = (int(end, 16) for end in mapped[0].split("-"))
            start, end = -(-first // PAGE_BYTES) * PAGE_BYTES, last // PAGE_BYTES * PAGE_BYTES
            if end > start and int(words[1]) * 1024 > 0.75 * (last - first):
                yield start, end - start


def _is_ours(mapped: list[str]) -> bool:
    """address, permissions, offset, device, inode and, for some, a name."""
    return mapped[1] == "rw-p" and mapped[5:] in ([], ["[heap]"])
