"""How many warps an SM can hold, and what keeps it from holding more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autograder.judge import Draw, Student, expect_equal, expect_tuple, within

from . import lab

Block = Mapping[str, int]
Machine = Mapping[str, int]
Resident = tuple[int, list[str]]
WARP = 32
LIMITS = ("warps", "blocks", "registers", "shared")
_FORM = "(warps, the limits that bind)"


@lab.question(
    "occupancy",
    points=4,
    minutes=8,
    difficulty=3,
    hints=(
        "How many whole blocks fit by each of the four limits alone?",
        "A warp takes 32 * registers, rounded up to a multiple of register_unit; a block takes all "
        "of its warps' and its shared memory with what the system reserves, rounded up too. Divide "
        "and round down: blocks come whole.",
        "blocks = {'registers': (machine['registers'] // of_a_warp) // warps, ...}; min(...)",
    ),
)
def occupancy(student: Student, draw: Draw) -> None:
    """(warps that are resident on one SM, the limits that bind: a list, sorted).

    block: "warps", "registers" (of a thread) and "shared" (bytes). machine: the SM's "warps",
    "blocks", "registers" and "shared", and "register_unit", "shared_unit", "reserved" (bytes of
    shared memory that the system takes for each block). Registers are given to warps, shared memory
    to blocks, each in whole units. Limits that bind are those of "warps", "blocks", "registers" and
    "shared" that allow no more blocks than the result.
    """
    for block, machine in _cases(draw):
        got = student.call("occupancy", block, machine)
        warps, binding = expect_tuple(got, 2, _FORM)
        want_warps, want_binding = _filled(block, machine)
        with within("the warps,"):
            expect_equal(warps, want_warps)
        with within("the limits,"):
            expect_equal(binding, want_binding)


def _machine(**more: int) -> Machine:
    """Of no GPU that there is: nothing can be looked up."""
    usual = {"warps": 56, "blocks": 20, "registers": 57_344, "shared": 90_112}
    return {**usual, "register_unit": 256, "shared_unit": 256, "reserved": 1024, **more}


def _block(warps: int, registers: int, shared: int) -> Block:
    return {"warps": warps, "registers": registers, "shared": shared}


def _cases(draw: Draw) -> Iterator[tuple[Block, Machine]]:
    yield _block(4, 100, 0), _machine(reserved=0)  # registers; and nothing shared
    yield _block(4, 33, 0), _machine(warps=64)  # 33 are 40 for whole units
    yield _block(1, 16, 1000), _machine()  # blocks
    yield _block(8, 24, 4096), _machine()  # warps
    yield _block(2, 24, 21_505), _machine()  # shared: 3, by a few bytes
    yield _block(3, 40, 8192), _machine()  # the last warps stay free: 56 is no multiple of 3
    yield _block(4, 128, 21_504), _machine()
    yield _block(4, 32, 5000), _machine(warps=64, blocks=16)  # several at once
    yield _block(8, 250, 120_000), _machine()  # none fits
    yield _block(5, 90, 3000), _machine(registers=43_000)
    for _ in draw.cases(4):
        block = _block(draw.integer(1, 16), draw.integer(16, 200), draw.integer(0, 40_000))
        more = {"warps": draw.integer(30, 70), "blocks": draw.integer(8, 34)}
        yield block, _machine(**more, register_unit=draw.choice((128, 256, 512)))


def _filled(block: Block, machine: Machine) -> Resident:
    """By putting block after block on the SM until one does not fit, and asking why not."""
    blocks = 0
    while not (full := [limit for limit in LIMITS if _over(blocks + 1, limit, block, machine)]):
        blocks += 1
    return blocks * block["warps"], sorted(full)


def _over(blocks: int, limit: str, block: Block, machine: Machine) -> bool:
    warps = blocks * block["warps"]
    if limit == "blocks":
        return blocks > machine["blocks"]
    if limit == "warps":
        return warps > machine["warps"]
    if limit == "shared":
        taken = _up(block["shared"] + machine["reserved"], machine["shared_unit"])
        return blocks * taken > machine["shared"]
    taken = _up(WARP * block["registers"], machine["register_unit"])
    return warps * taken > machine["registers"]


def _up(n: int, unit: int) -> int:
    return -(-n // unit) * unit


@dataclass(frozen=True)
class _Rules:
    """The rules, and what people take them for."""

    whole_units: bool = True
    reserves: bool = True
    of_a_thread: bool = True  # registers are a thread's, 32 threads to a warp
    whole_blocks: bool = True
    limits: tuple[str, ...] = LIMITS
    counts_warps: bool = True
    all_that_bind: bool = True

    def __call__(self, block: Block, machine: Machine) -> Resident:
        warps = block["warps"]
        taken = block["registers"] * (WARP if self.of_a_thread else 1)
        shared = block["shared"] + (machine["reserved"] if self.reserves else 0)
        if self.whole_units:
            taken, shared = (
                _up(taken, machine["register_unit"]),
                _up(shared, machine["shared_unit"]),
            )
        room: dict[str, Any] = {
            "warps": machine["warps"] / warps,
            "blocks": machine["blocks"],
            "registers": machine["registers"] / (taken * warps),
            "shared": machine["shared"] / shared if shared else machine["blocks"] + 1,
        }
        fits = {limit: int(room[limit]) for limit in self.limits}
        least = min(fits.values())
        binding = sorted(limit for limit in fits if fits[limit] == least)
        if not self.whole_blocks:
            return int(min(room.values()) * warps), binding
        return least * (warps if self.counts_warps else 1), binding[
            : None if self.all_that_bind else 1
        ]


_WRONG = {
    "units_ignored": (
        "Registers and shared memory are given in whole units: 33 registers of 32 threads are "
        "1,056, and take 1,280 where the unit is 256.",
        _Rules(whole_units=False),
    ),
    "nothing_reserved": (
        "The system takes some shared memory for each block, on top of what the block asks for.",
        _Rules(reserves=False),
    ),
    "registers_of_a_warp": (
        "The registers are those of a thread. A warp has 32 of them.",
        _Rules(of_a_thread=False),
    ),
    "parts_of_blocks": (
        "A part of a block is resident here. Blocks come whole: round down to blocks first, then "
        "count their warps.",
        _Rules(whole_blocks=False),
    ),
    "no_limit_of_blocks": (
        "An SM holds no more than `blocks` blocks, however small they are.",
        _Rules(limits=("warps", "registers", "shared")),
    ),
    "no_shared_memory": (
        "Shared memory is left out. It is the SM's, and all its blocks divide it.",
        _Rules(limits=("warps", "blocks", "registers")),
    ),
    "blocks_counted": (
        "These are blocks. Asked for are their warps.",
        _Rules(counts_warps=False),
    ),
    "one_limit": (
        "One limit is named where several bind. Lifting one of them alone would change nothing.",
        _Rules(all_that_bind=False),
    ),
}
for _key, (_sentence, _rules) in _WRONG.items():
    occupancy.wrong(_key, _sentence, occupancy=_rules)


@occupancy.cost
def _(student: Student, draw: Draw) -> str:
    machine = _machine(warps=64, blocks=32, registers=65_536, shared=233_472)
    found = [student.call("occupancy", _block(4, n, 8192), machine)[0] for n in (32, 128, 255)]
    return f"blocks of 4 warps with 32, 128 and 255 registers a thread: {found} of 64 warps"
