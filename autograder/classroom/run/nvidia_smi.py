"""What NVIDIA's driver says of its GPUs, asked by its own command: no context is made, and a
process that asked can still be forked."""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PATIENCE_S = 20.0
EVERY_S = 1.0
"""Between two looks at a GPU's memory; each takes the driver some hundredths of a second."""
MIB = 2**20
Ask = Callable[..., list[list[str]]]


@dataclass(frozen=True)
class Facts:
    """One GPU. name: as CUDA_VISIBLE_DEVICES has it. memory in bytes."""

    name: str
    title: str
    driver: str
    memory_bytes: int


def query(*words: str) -> list[list[str]]:
    """The rows of `nvidia-smi WORDS`, split at commas; none where it is missing or fails."""
    program = shutil.which("nvidia-smi") or "/usr/local/nvidia/bin/nvidia-smi"
    command = [program, *words, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return [[field.strip() for field in line.split(",")] for line in lines if "," in line]


def facts(name: str, ask: Ask | None = None) -> Facts | None:
    """Of the GPU `name`; None where the driver does not answer."""
    for row in (ask or query)(f"--id={name}", "--query-gpu=name,driver_version,memory.total"):
        if len(row) == 3 and row[2].isdigit():
            return Facts(name, row[0], row[1], int(row[2]) * MIB)
    return None


def used_bytes(name: str, ask: Ask | None = None) -> int | None:
    """Of the whole GPU, by whomever."""
    rows = (ask or query)(f"--id={name}", "--query-gpu=index,memory.used")
    used = [row[1] for row in rows if len(row) == 2 and row[1].isdigit()]
    return int(used[0]) * MIB if used else None


class Watch:
    """What the processes of one submission use of a GPU, seen from outside.

    The driver counts for each process. In a container it may not: then all that the GPU lends
    beyond what it lent at first is this submission's, if it has the GPU to itself (alone).
    """

    def __init__(self, name: str, *, alone: bool, ask: Ask | None = None) -> None:
        self.name, self.alone, self.ask = name, alone, ask or query
        self.idle_bytes = used_bytes(name, ask) if alone else None
        self._known: int | None = None
        self._until = 0.0

    def __call__(self, pids: Sequence[int]) -> int | None:
        """In bytes; None where nobody knows. Looked at anew every second."""
        now = time.monotonic()
        if now >= self._until:
            self._known, self._until = self._look(set(pids)), now + EVERY_S
        return self._known

    def _look(self, pids: set[int]) -> int | None:
        rows = self.ask(f"--id={self.name}", "--query-compute-apps=pid,used_memory")
        rows = [row for row in rows if len(row) == 2 and row[0].isdigit() and row[1].isdigit()]
        if mine := [int(mib) * MIB for pid, mib in rows if int(pid) in pids]:
            return sum(mine)
        now = used_bytes(self.name, self.ask) if self.idle_bytes is not None else None
        return None if now is None or self.idle_bytes is None else max(0, now - self.idle_bytes)
