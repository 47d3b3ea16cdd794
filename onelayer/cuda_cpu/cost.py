"""What a kernel asked of memory, per CUDA thread: the course's cost line."""

from dataclasses import asdict, dataclass
from typing import Self

from onelayer.drawing.words import say

NAMES = ("global_loads", "global_stores", "shared_loads", "shared_stores", "atomics")


@dataclass(frozen=True)
class Cost:
    """Loads and stores per thread, as a mean over all threads of a launch.

    A load of a float4 is one load. Registers and local arrays cost nothing, atomics are counted
    apart. The counts are those of the code as written, with repeated reads of one unchanged place
    in one expression taken once.
    """

    threads: int = 0
    global_loads: float = 0.0
    global_stores: float = 0.0
    shared_loads: float = 0.0
    shared_stores: float = 0.0
    atomics: float = 0.0

    @classmethod
    def of(cls, threads: int, counts: list[int]) -> Self:
        """Return the means of five sums, in the order of `NAMES`."""
        return cls(threads, *(count / max(threads, 1) for count in counts))

    @property
    def counted(self) -> bool:
        """Whether anything was; a kernel that was not watched counts nothing."""
        return any(getattr(self, name) for name in NAMES)

    def __str__(self) -> str:
        told = say(
            "per thread {global_loads:.4g} global loads, {global_stores:.4g} global stores, "
            "{shared_loads:.4g} shared loads, {shared_stores:.4g} shared stores",
            **asdict(self),
        )
        return told + (say(", {n:.4g} atomics", n=self.atomics) if self.atomics else "")


def total(costs: list[Cost]) -> Cost:
    """Return the means over all threads of several launches."""
    threads = sum(c.threads for c in costs)
    sums = [round(sum(getattr(c, name) * c.threads for c in costs)) for name in NAMES]
    return Cost.of(threads, sums)
