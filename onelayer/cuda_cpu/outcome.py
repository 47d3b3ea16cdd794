"""What one call of a host function did: its result, its launches, and what went wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from onelayer.cuda_cpu.faults import WARNINGS, KernelFault
from onelayer.drawing.words import say

from .cost import Cost, total
from .faults import Fault
from .runtime_library import LaunchRecord

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """One `kernel<<<grid, block, shared_bytes>>>` of the call, and the line where it stands."""

    kernel: str
    line: int
    grid: Dim
    block: Dim
    shared_bytes: int
    threads: int
    cost: Cost


def launches_of(records: list[LaunchRecord]) -> tuple[Launch, ...]:
    """Return the launches that a library recorded."""
    return tuple(
        Launch(
            kernel=r.name.decode(),
            line=r.line,
            grid=dim(r.grid),
            block=dim(r.block),
            shared_bytes=r.shared_bytes,
            threads=r.threads,
            cost=Cost.of(r.threads, list(r.counts)),
        )
        for r in records
    )


def dim(three: Sequence[int]) -> Dim:
    """Return the three numbers of a dim3."""
    return (three[0], three[1], three[2])


@dataclass(frozen=True)
class Run:
    """value: what the host function returned. where: `simulated` on the CPU, or `cuda`.

    warnings: what breaks CUDA's rules and changed no result of this call; a run with them is ok.
    """

    value: int | float | bool | None = None
    faults: tuple[Fault, ...] = ()
    launches: tuple[Launch, ...] = ()
    where: Literal["simulated", "cuda"] = "simulated"
    evidence: str = field(default="", repr=False)  # a sanitizer's own words
    warnings: tuple[Fault, ...] = ()

    @classmethod
    def of(
        cls,
        value: int | float | bool | None,
        found: Sequence[Fault],
        launches: tuple[Launch, ...],
        evidence: str = "",
    ) -> Self:
        """Return the run of a call on the CPU in which all this was found, of either weight."""
        faults = tuple(fault for fault in found if fault.kind not in WARNINGS)
        warnings = tuple(fault for fault in found if fault.kind in WARNINGS)
        return cls(value, faults, launches, evidence=evidence, warnings=warnings)

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return not self.faults

    @property
    def cost(self) -> Cost:
        """Loads and stores per thread, over all launches."""
        return total([launch.cost for launch in self.launches])

    def expect_clean(self) -> Self:
        """Return this run. Raises KernelFault with the report where something went wrong."""
        if self.faults:
            raise KernelFault(str(self))
        return self

    def __str__(self) -> str:
        if self.faults:
            return "\n".join(str(fault) for fault in self.faults)
        kernels = ", ".join(dict.fromkeys(launch.kernel for launch in self.launches))
        counted = f"\n{self.cost}" if self.cost.counted else ""
        warned = "".join(f"\n{warning}" for warning in self.warnings)
        clean = say("clean: {kernels}", kernels=kernels or say("no launch"))
        return f"{clean} ({say(self.where)}){counted}{warned}"
