"""Large pages in the zygote: its memory is what it was, and a fork copies as little as before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autograder.sandbox.inside import forking, large_pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")

# In a process of its own, which has no memory but this.
PROGRAM = """
import mmap, os
from pathlib import Path
from autograder.sandbox.inside import large_pages

BYTES, PAGE = 32 * 2**20, 4096

def held(name):
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))

def mapped(protection=mmap.PROT_READ | mmap.PROT_WRITE):
    return mmap.mmap(-1, BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, protection)

# The kernel makes one range of neighbours that may be written, and half of that would be empty.
fences = [mapped(mmap.PROT_READ)]
block = mapped()
fences.append(mapped(mmap.PROT_READ))
for start in range(0, BYTES, PAGE):
    block[start : start + 8] = start.to_bytes(8, "big")
sparse = mapped()
sparse[0] = 1
resident = held("Rss")
print("gathered", large_pages.gather())
print("large", held("AnonHugePages"))
print("grew", held("Rss") - resident)
starts = range(0, BYTES, PAGE)
print("same", all(block[k : k + 8] == k.to_bytes(8, "big") for k in starts), flush=True)
if (child := os.fork()) == 0:
    before = held("Private_Dirty")
    for start in range(0, BYTES, 2**21):
        block[start] = 255
    print("copied", held("Private_Dirty") - before, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_what_is_held_stays_and_a_fork_copies_what_it_writes() -> None:
    if forking.kernel() < (6, 1):
        pytest.skip("this kernel gathers no pages when it is asked")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found["same"] == "True"
    assert int(found["gathered"]) >= int(found["large"]) >= 24 * 2**20
    assert int(found["grew"]) <= 4 * 2**20  # the nearly empty block is left as it was
    assert 16 * 4096 <= int(found["copied"]) <= 2**20  # one small page of each large one


def test_a_kernel_that_cannot_leaves_all_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Refuses:
        def madvise(self, *words: int) -> int:
            asked.append(words)
            return -1

    monkeypatch.setattr(large_pages, "_libc", Refuses())
    assert large_pages.gather() == 0
    assert asked, "nothing was asked"
