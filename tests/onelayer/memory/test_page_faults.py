"""Page faults are counted where memory is touched first, and malloc does as it was told."""

import mmap
import resource
import subprocess
import sys

import pytest

from onelayer.memory.page_faults import count_page_faults

PAGES = 64
PAGE = resource.getpagesize()


def touch(memory, step=PAGE):
    for place in range(0, len(memory), step):
        memory[place] = 1


def test_a_page_faults_once():
    with mmap.mmap(-1, PAGES * PAGE) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)  # one fault could bring in 2 MiB
        with count_page_faults() as first:
            touch(memory)
        with count_page_faults() as again:
            touch(memory)
    assert first.count >= PAGES
    assert again.count < PAGES // 2
    assert repr(first) == f"{first.count:,} page faults"


def test_it_counts_what_came_before_an_error():
    with pytest.raises(ZeroDivisionError), count_page_faults() as faults:  # noqa: PT012
        with mmap.mmap(-1, PAGES * PAGE) as memory:
            touch(memory)
        raise ZeroDivisionError
    assert 0 < faults.count < 100_000


HEAP = """
import torch
from onelayer.memory import page_faults as heap

def fill(mib):
    with heap.count_page_faults() as faults:
        for _ in range(4):
            torch.zeros(mib * 2**18).fill_(1.0)
    return faults.count

assert heap.keep_freed_memory()
for _ in range(5):  # aligned blocks wander up the heap before one of them comes back
    fill(8)
kept = fill(8)
assert heap.give_back_freed_memory()
given_back = fill(8)
heap.keep_freed_memory()
again = fill(8)
print(kept, given_back, again)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are glibc's")
def test_kept_memory_does_not_fault_and_memory_given_back_does():
    done = subprocess.run([sys.executable, "-c", HEAP], check=True, capture_output=True, text=True)
    kept, given_back, again = map(int, done.stdout.split())
    huge = 2 * 2**20  # with transparent huge pages a fault brings in this much
    assert given_back >= 8 * 2**20 // huge
    assert max(kept, again) < given_back / 2
