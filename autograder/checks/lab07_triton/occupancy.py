"""How many warps an SM can hold, and what keeps it from holding more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, expect_tuple, within

from . import lab

Block = Mapping[str, int]
Machine = Mapping[str, int]
Resident = tuple[int, list[str]]
WARP = 32
LIMITS = ("warps", "blocks", "registers", "shared")
_FORM = "(warps, the limits that bind)"
_RAISED = {
    "ZeroDivisionError": "A block may take no shared memory at all: then that limit holds as many "
    "blocks as one likes, and nothing is divided by 0.",
}


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
        with explaining(_RAISED):
            got = student.call("occupancy", block, machine)
        warps, binding = expect_tuple(got, 2, _FORM)
        want_warps, want_binding = _filled(block, machine)
        with within("the warps,"):
            part = isinstance(warps, float) and not warps.is_integer()
            if isinstance(warps, (int, float)) and 0 < warps - want_warps < block["warps"]:
                part = True
            why = _of_the_number(warps, want_warps, block, machine) if want_warps else _NONE_FITS
            expect_equal(warps, want_warps, why=_PARTS if part else why)
        with within("the limits,"):
            expect_equal(binding, want_binding, why=_misnamed(binding, want_binding, want_warps))


def _of_the_number(warps: Any, want: int, block: Block, machine: Machine) -> str:
    """Of a number of whole blocks: what they take too much of, or that one more of them fits."""
    if type(warps) is not int or warps < 0 or warps % block["warps"]:
        return ""
    blocks = warps // block["warps"]
    over = [limit for limit in _TAKEN if _over(blocks, limit, block, machine)]
    return _TAKEN[over[0]] if over else _ONE_MORE if warps < want else ""


def _misnamed(binding: Any, want: list[str], warps: int) -> str:
    """What is true of the first limit that is named and does not bind, or is not and does."""
    if isinstance(binding, str):
        return _ALONE
    named = [limit for limit in binding if limit in LIMITS] if isinstance(binding, list) else []
    if extra := [limit for limit in named if limit not in want]:
        return f"By {extra[0]} one more block fits beside these {warps} warps: it does not bind."
    if named and (missing := [limit for limit in want if limit not in named]):
        return f"By {missing[0]} no block more fits beside these {warps} warps: it binds too."
    return ""


_PARTS = (
    "A part of a block is resident here. Blocks come whole: round down to blocks first, then count "
    "their warps."
)
_BLOCKS = "An SM holds no more than `blocks` blocks, however small they are."
_WARPS = "An SM holds no more than `warps` warps, however few registers they take."
_TAKEN = {
    "registers": "So many warps take more registers than the SM has. A warp takes 32 times those "
    "of a thread, rounded up to whole units.",
    "shared": "So many blocks take more shared memory than the SM has. A block takes its own "
    "together with what the system reserves, rounded up to whole units.",
    "blocks": _BLOCKS,
    "warps": _WARPS,
}
"""What is true of warps that do not fit, by the limit that they pass."""
_ONE_MORE = "By all four limits one block more fits beside these warps."
_NONE_FITS = "Not even one block fits: no warp is resident, 0."
_ALONE = "This is the name of one limit. Asked for is a list: several can bind at once."


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
    yield _block(2, 24, 16_950), _machine()  # shared in whole units: 4, else 5
    yield _block(2, 24, 22_400), _machine(reserved=100)  # reserved, then rounded up: 4, else 3
    yield _block(1, 33, 0), _machine(blocks=60)  # a block of one warp: 44, else 54
    yield _block(2, 200, 0), _machine()  # registers of both warps: 4 blocks
    yield _block(1, 200, 0), _machine(registers=13_000, blocks=60)  # of 32 threads: 2
    yield _block(1, 16, 0), _machine(warps=100, blocks=100)  # what is reserved alone: 88
    yield _block(3, 24, 2000), _machine()  # warps: 18, and two stay free
    yield _block(4, 66, 0), _machine(register_unit=512)  # units of 16 registers, not of 8
    yield _block(3, 40, 8192), _machine()  # the last warps stay free: 56 is no multiple of 3
    yield _block(4, 128, 21_504), _machine()
    yield _block(4, 32, 4000), _machine(warps=64, blocks=16, registers=65_536)  # three at once
    yield _block(8, 250, 120_000), _machine()  # none fits
    yield _block(5, 90, 3000), _machine(registers=43_000)
    yield _block(2, 24, 16_476), _machine(shared_unit=1024)
    yield _block(2, 24, 18_016), _machine(shared_unit=8, reserved=0)
    yield _block(1, 256, 0), _machine(registers=8_192, register_unit=512)  # one block fills it
    yield _block(2, 33, 0), _machine(blocks=60, register_unit=400)  # no 32 threads share it evenly
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
    up: Callable[[int, int], int] = _up
    reserves: str = "each"  # "each" block, "after" rounding, "once" for an SM, "never"
    of_a_thread: bool = True  # registers are a thread's, 32 threads to a warp
    registers_of: str = "warp"  # what is rounded, or "one warp" or "nothing"
    shared_rounded: bool = True
    whole_blocks: bool = True
    limits: tuple[str, ...] = LIMITS
    counts_warps: bool = True
    all_that_bind: bool = True
    pick: Callable[[Iterable[int]], int] = min

    def __call__(self, block: Block, machine: Machine) -> Resident:
        warps = block["warps"]
        taken = self._registers(block, machine)
        shared = block["shared"] + (machine["reserved"] if self.reserves == "each" else 0)
        if self.whole_units and self.shared_rounded:
            shared = self.up(shared, machine["shared_unit"])
        shared += machine["reserved"] if self.reserves == "after" else 0
        free = machine["shared"] - (machine["reserved"] if self.reserves == "once" else 0)
        room: dict[str, Any] = {
            "warps": machine["warps"] / warps,
            "blocks": machine["blocks"],
            "registers": machine["registers"] / taken if taken else machine["blocks"] + 1,
            "shared": free / shared if shared else machine["blocks"] + 1,
        }
        fits = {limit: int(room[limit]) for limit in self.limits}
        least = self.pick(fits.values())
        binding = sorted(limit for limit in fits if fits[limit] == least)
        if not self.whole_blocks:
            return int(min(room.values()) * warps), binding
        return least * (warps if self.counts_warps else 1), binding[
            : None if self.all_that_bind else 1
        ]

    def _registers(self, block: Block, machine: Machine) -> int:
        """What a block takes."""
        unit, warps = machine["register_unit"], block["warps"]
        mine = block["registers"] * (WARP if self.of_a_thread else 1)
        if not self.whole_units:
            return mine * warps
        if self.registers_of == "block":
            return self.up(mine * warps, unit)
        if self.registers_of == "thread":  # as if a unit were 8 registers of each thread
            return WARP * self.up(block["registers"], 8) * warps
        if self.registers_of == "nothing":
            return mine * warps
        return self.up(mine, unit) * (1 if self.registers_of == "one warp" else warps)


_right = _Rules()


def _changed(by: Callable[[int, list[str], Block, Machine], Any]) -> Callable[..., Any]:
    """What `by` makes of the right answer."""
    return lambda block, machine: by(*_right(block, machine), block, machine)


def _over_with_one_more(warps: int, limit: str, block: Block, machine: Machine) -> bool:
    """Whether something of the limit is left beside `warps` resident ones."""
    blocks = warps // block["warps"]
    one_less = {**machine, limit: machine[limit] - 1}
    return not _over(blocks, limit, block, one_less)


def _short_of_all_warps(block: Block, machine: Machine) -> list[str]:
    blocks = machine["warps"] // block["warps"] + 1
    return sorted(one for one in LIMITS[1:] if _over(blocks, one, block, machine))


_WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "units_ignored": (
        "Registers and shared memory are given in whole units: 33 registers of 32 threads are "
        "1,056, and take 1,280 where the unit is 256.",
        _Rules(whole_units=False),
    ),
    "nothing_reserved": (
        "The system takes some shared memory for each block, on top of what the block asks for.",
        _Rules(reserves="never"),
    ),
    "registers_of_a_warp": (
        "The registers are those of a thread. A warp has 32 of them.",
        _Rules(of_a_thread=False),
    ),
    "parts_of_blocks": (
        _PARTS,
        _Rules(whole_blocks=False),
    ),
    "no_limit_of_blocks": (
        _BLOCKS,
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
    "registers_of_a_block_rounded": (
        "The registers of a block are rounded up as a whole. Each warp gets whole units of its "
        "own.",
        _Rules(registers_of="block"),
    ),
    "registers_of_a_thread_rounded": (
        "The registers of a thread are rounded up to a multiple of 8. A warp gets whole units, and "
        "the machine says how large they are.",
        _Rules(registers_of="thread"),
    ),
    "shared_not_rounded": (
        "Registers come in whole units here, and shared memory does not: a block takes whole "
        "multiples of shared_unit.",
        _Rules(shared_rounded=False),
    ),
    "rounded_down": (
        "What a block takes is rounded down to whole units: it would get less than it needs.",
        _Rules(up=lambda n, unit: n // unit * unit),
    ),
    "a_unit_too_many": (
        "What fits its units exactly is given one more. Round up, and leave whole multiples alone.",
        _Rules(up=lambda n, unit: (n // unit + 1) * unit),
    ),
    "reserved_after_rounding": (
        "What the system reserves is added behind the rounding. A block takes both together in "
        "whole units.",
        _Rules(reserves="after"),
    ),
    "reserved_once": (
        "What the system reserves is taken from the SM once. It is taken for each block.",
        _Rules(reserves="once"),
    ),
    "no_limit_of_warps": (
        _WARPS,
        _Rules(limits=("blocks", "registers", "shared")),
    ),
    "no_limit_of_registers": (
        "Registers are left out. They are the SM's, and all its warps divide them.",
        _Rules(limits=("warps", "blocks", "shared")),
    ),
    "shared_ignored_without_any": (
        "A block that asks for no shared memory takes none here. The system reserves some for it "
        "too.",
        lambda block, machine: (
            _right if block["shared"] else _Rules(limits=("warps", "blocks", "registers"))
        )(block, machine),
    ),
    "warps_rounded_up": (
        "By the limit of warps blocks are rounded up: the last of them would be one too many.",
        lambda block, machine: _right(
            block, {**machine, "warps": _up(machine["warps"], block["warps"])}
        ),
    ),
    "at_least_one": (
        "A block that fits nowhere is given room. Then no warp is resident: 0.",
        _changed(
            lambda warps, binding, block, machine: (
                warps or block["warps"],
                binding if warps else [],
            )
        ),
    ),
    "most_room": (
        "This is the limit that leaves the most room. Blocks fit as long as none of the four is "
        "passed: the least of them.",
        _Rules(pick=max),
    ),
    "registers_of_one_warp": (
        "A block is given the registers of one warp. Each of its warps takes as many.",
        _Rules(registers_of="one warp"),
    ),
    "registers_not_rounded": (
        "Shared memory comes in whole units here, and registers do not: a warp takes whole "
        "multiples of register_unit.",
        _Rules(registers_of="nothing"),
    ),
    "share": (
        "This is a share of the SM's warps. Asked for is their number.",
        _changed(lambda warps, binding, block, machine: (warps / machine["warps"], binding)),
    ),
    "threads_counted": (
        "These are threads. Asked for are warps, 32 threads each.",
        _changed(lambda warps, binding, block, machine: (WARP * warps, binding)),
    ),
    "not_a_list": (
        _ALONE,
        _changed(lambda warps, binding, block, machine: (warps, binding[0])),
    ),
    "those_that_do_not_bind": (
        "These are the limits that leave room for another block. Asked for are those that do not.",
        _changed(
            lambda warps, binding, block, machine: (
                warps,
                [limit for limit in sorted(LIMITS) if limit not in binding],
            )
        ),
    ),
    "limits_first": (
        "The limits stand first. Asked for are the warps, then the limits.",
        _changed(lambda warps, binding, block, machine: (binding, warps)),
    ),
    "not_sorted": (
        "The right limits, and not sorted: the order of the alphabet is asked for.",
        _changed(
            lambda warps, binding, block, machine: (
                warps,
                [limit for limit in LIMITS if limit in binding],
            )
        ),
    ),
    "registers_of_a_thread_in_units": (
        "The registers of each thread are rounded up to register_unit. A warp's are: 32 "
        "threads together.",
        lambda block, machine: _right(
            {**block, "registers": _up(block["registers"], machine["register_unit"])}, machine
        ),
    ),
    "unit_shared_by_threads": (
        "register_unit was divided by 32, and the registers of each thread rounded up to that. A "
        "unit need not be a multiple of 32: round up what the warp takes.",
        lambda block, machine: _right(
            {**block, "registers": _up(block["registers"], machine["register_unit"] // WARP)},
            {**machine, "register_unit": 1},
        ),
    ),
    "shared_of_each_warp": (
        "Shared memory is counted once for each warp. It is a block's, and its warps share it.",
        lambda block, machine: _right(
            {
                **block,
                "shared": block["warps"]
                * _up(block["shared"] + machine["reserved"], machine["shared_unit"])
                - machine["reserved"],
            },
            machine,
        ),
    ),
    "used_up": (
        "A limit is named only where nothing is left of it. It binds also where what is left "
        "is too little for one block more.",
        _changed(
            lambda warps, binding, block, machine: (
                warps,
                [one for one in binding if not _over_with_one_more(warps, one, block, machine)],
            )
        ),
    ),
    "below_the_most_warps": (
        "These are the limits that keep the SM from its most warps. Asked for are those that "
        "allow no block more than there are.",
        _changed(
            lambda warps, binding, block, machine: (warps, _short_of_all_warps(block, machine))
        ),
    ),
    "none_where_none_fits": (
        "Where no block fits, something keeps it out: that limit binds.",
        _changed(lambda warps, binding, block, machine: (warps, binding if warps else [])),
    ),
    "warps_no_limit": (
        "The limit of warps is not named. Where it allows no block more, it binds like the others.",
        _changed(
            lambda warps, binding, block, machine: (
                warps,
                [one for one in binding if one != "warps"],
            )
        ),
    ),
}
for _key, (_sentence, _rules) in _WRONG.items():
    occupancy.wrong(_key, _sentence, occupancy=_rules)


@occupancy.cost
def _(student: Student, draw: Draw) -> str:
    machine = _machine(warps=64, blocks=32, registers=65_536, shared=233_472)
    found = [student.call("occupancy", _block(4, n, 8192), machine)[0] for n in (32, 128, 255)]
    return f"blocks of 4 warps with 32, 128 and 255 registers a thread: {found} of 64 warps"
