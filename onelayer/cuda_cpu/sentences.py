"""The runtime's numbers, made into sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from onelayer.cuda_cpu.faults import KINDS, Fault
from onelayer.cuda_cpu.places import Place, nearest, place_of
from onelayer.cuda_cpu.runtime_library import LaunchRecord, Report
from onelayer.cuda_cpu.text import Text
from onelayer.drawing.words import counted, say

from .outcome import dim

READS, WRITES, UPDATES = range(3)
_OF_HOST_CODE = ("host_access", "invalid_free", "leak")
_DOES = {READS: "reads", WRITES: "writes", UPDATES: "updates atomically"}
_DID = {READS: "read it", WRITES: "wrote it", UPDATES: "updated it atomically"}


@dataclass(frozen=True)
class Context:
    """What a sentence may need: where memory lay, the launches, the lines of the text."""

    source: Text
    places: list[Place]
    launches: list[LaunchRecord]
    line_of: dict[int, int] = field(default_factory=dict)


def faults(reports: list[Report], context: Context) -> tuple[Fault, ...]:
    """Return the faults in the order in which they were found, each kind and lines once."""
    told: dict[tuple[object, ...], Fault] = {}
    for report in reports:
        fault = _fault(report, context)
        told.setdefault((fault.kind, fault.line, fault.other_line), fault)
    # What was read too early and written afterwards is one fault: the barrier that is missing.
    raced = {line for f in told.values() if f.kind == "race" for line in (f.line, f.other_line)}
    doubled = ("unwritten_shared", "same_value_race")
    return tuple(f for f in told.values() if f.kind not in doubled or f.line not in raced)


def _fault(r: Report, c: Context) -> Fault:
    kind = KINDS[r.kind]
    line = r.line or c.line_of.get(r.pc, 0)
    other = r.other_line or c.line_of.get(r.other_pc, 0) or None
    launched = 0 <= r.launch < len(c.launches) and kind not in _OF_HOST_CODE
    return Fault(
        kind=kind,
        line=line,
        sentence=_SENTENCES[kind](r, c, other),
        kernel=c.launches[r.launch].name.decode() if launched else "",
        other_line=other,
        block=dim(r.block),
        thread=dim(r.thread),
        code=c.source.line(line),
    )


def _who(block: Sequence[int], thread: Sequence[int]) -> str:
    return say("thread {thread} of block {block}", thread=dim(thread), block=dim(block))


def _thread(thread: Sequence[int]) -> str:
    return say("thread {thread}", thread=dim(thread))


def _out_of_bounds(r: Report, c: Context, other: int | None) -> str:
    how = {"who": _who(r.block, r.thread), "does": say(_DOES[r.access])}
    if r.a == 1:
        return say("{who} {does} beyond its own local variables", **how)
    if r.a == 4 and (near := _beyond_device(c.places, r.address)):
        return say("{who} {does} {what}", **how, what=_outside(near, r.address))
    if r.a == 4:
        return say("{who} {does} a variable of the host: a kernel cannot reach it on a GPU", **how)
    if r.a == 2:
        return say("{who} uses index {n}, outside the array that is indexed here", **how, n=r.b)
    if r.a == 3:
        return say("the copy {does} {n} bytes that are not all device memory", **how, n=r.size)
    if (shared := _beyond_shared(c.places, r.address)) is not None:
        return say("{who} {does} {what}", **how, what=shared)
    if (freed := place_of(c.places, r.address)) is not None and freed.high >= r.address + r.size:
        element = freed.element(r.address)
        return say("{who} {does} {what}, which cudaFree gave back", **how, what=element)
    near = nearest(c.places, r.address)
    if r.address < 4096:
        return say("{who} {does} through a null pointer", **how)
    if near is None or abs(r.address - near.low) > 1 << 32:
        nobodys = "{who} {does} {n} bytes at {address:#x}, nobody's memory"
        return say(nobodys, **how, n=r.size, address=r.address)
    return say("{who} {does} {what}", **how, what=_outside(near, r.address))


def _outside(p: Place, address: int) -> str:
    n = (p.high - p.low) // p.itemsize
    index = (address - p.low) // p.itemsize
    which = f"{p.name}[{index}]"
    size = counted(n, "{n} element", "{n} elements")
    if p.itemsize == 1:
        which, size = say("byte {n} of {name}", n=index, name=p.name), say("{n} bytes", n=n)
    if index < 0:
        return say("{which}, before its beginning", which=which)
    return say("{which}, past its end: it has {size}", which=which, size=size)


def _beyond_device(places: list[Place], address: int) -> Place | None:
    near = nearest(places, address)
    return near if near and -64 <= address - near.high < 1024 else None


def _beyond_shared(places: list[Place], address: int) -> str | None:
    for p in places:
        if not p.shared or not p.low - 2048 <= address < p.high + (1 << 16):
            continue
        if p.dynamic:
            return say(
                "byte {n} of dynamic shared memory; the launch asked for {size}",
                n=address - p.low,
                size=p.high - p.low,
            )
        if address < p.high + 4096:
            return _outside(p, address)
    return None


def _misaligned(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    return say(
        "{who} {does} {n} bytes at an address{what} that is no multiple of {n}: a vector must lie "
        "at a multiple of its own size",
        who=_who(r.block, r.thread),
        does=say(_DOES[r.access]),
        n=r.size,
        what=f" ({place.element(r.address)})" if place else "",
    )


def _element(r: Report, c: Context, otherwise: str) -> str:
    """The place that the report is about, or what is said of one without a name."""
    place = place_of(c.places, r.address)
    return place.element(r.address) if place else say(otherwise)


def _host_access(r: Report, c: Context, other: int | None) -> str:
    return say(
        "host code {does} {what}, which is device memory: on a GPU this ends the process. A kernel "
        "or cudaMemcpy can reach it",
        does=say(_DOES[r.access]),
        what=_element(r, c, "device memory"),
    )


def _unwritten(r: Report, c: Context, other: int | None) -> str:
    return say(
        "{who} reads {what}, which no thread of its block has written",
        who=_who(r.block, r.thread),
        what=_element(r, c, "shared memory"),
    )


def _unwritten_global(r: Report, c: Context, other: int | None) -> str:
    return say(
        "{who} reads {what}, and nothing has been written there yet",
        who=_who(r.block, r.thread),
        what=_element(r, c, "device memory"),
    )


def _race(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    same_block = dim(r.block) == dim(r.other_block)
    head = say(
        "{who} {does} {what}, and {whom} {did}{there}",
        who=_who(r.block, r.thread),
        does=say(_DOES[r.access]),
        what=_element(r, c, "memory"),
        whom=_thread(r.other_thread) if same_block else _who(r.other_block, r.other_thread),
        did=say(_DID[r.other_access]),
        there=say(" in line {line}", line=other) if other else "",
    )
    if place is not None and place.shared:
        return say("{race}, with no __syncthreads() between", race=head)
    cure = say("nothing orders the two") if same_block else say("no barrier orders two blocks")
    return say("{race}; {why}, so the result depends on who comes first", race=head, why=cure)


def _same_value_race(r: Report, c: Context, other: int | None) -> str:
    return say(
        "{who} {does} {what}, and {whom} {did}{there} with nothing between: both found the same "
        "value this time, and C++ promises nothing of two accesses without order. One thread that "
        "writes is enough, or an atomic",
        who=_who(r.block, r.thread),
        does=say(_DOES[r.access]),
        what=_element(r, c, "memory"),
        whom=_who(r.other_block, r.other_thread),
        did=say(_DID[r.other_access]),
        there=say(" (line {line})", line=other) if other else "",
    )


def _divergent_barrier(r: Report, c: Context, other: int | None) -> str:
    who, whom = _who(r.block, r.thread), _thread(r.other_thread)
    if r.a < 0:
        return _two_ways(r, c, other)
    if other:
        waits = "{who} waits here, and {whom} at the barrier in line {line}"
        return say(waits, who=who, whom=whom, line=other)
    return say(
        "{waiting} of the {all} threads of block {block} wait at this barrier, and {gone} have "
        "returned, {whom} for one: all threads of a block must come to it",
        waiting=r.a,
        all=r.c,
        block=dim(r.block),
        gone=r.b,
        whom=whom,
    )


def _two_ways(r: Report, c: Context, other: int | None) -> str:
    mine, there = c.line_of.get(r.pc), _thread(r.other_thread)
    ways = say("two places in one line")
    if mine != other:
        both = "line {line}, and {whom} from line {other}"
        ways = say(both, line=mine, whom=there, other=other)
    return say(
        "{who} comes to this barrier from {ways}: these are two barriers, and each waits for all "
        "threads of the block",
        who=_who(r.block, r.thread),
        ways=ways,
    )


def _divergent_warp(r: Report, c: Context, other: int | None) -> str:
    who = _who(r.block, r.thread)
    if r.a < 0:
        unnamed = (
            "{who} is lane {lane} and calls this with mask {mask:#010x}, which does not name it"
        )
        return say(unnamed, who=who, lane=r.c, mask=r.b)
    masks = {"who": who, "whom": _thread(r.other_thread), "mask": r.b}
    if r.b != r.c and other == r.line:
        return say(
            "{who} waits with mask {mask:#010x}, and {whom}, which its mask {mask:#010x} names, "
            "came with mask {came:#010x}",
            **masks,
            came=r.c,
        )
    where = say("is in line {line}", line=other) if other else say("does not come")
    return say(
        "{who} waits in this warp operation, and {whom}, which its mask {mask:#010x} names, "
        "{where}",
        **masks,
        where=where,
    )


_NO_LANE = ("does not exist: the block is too small", "has returned", "is not in the mask")


def _undefined_shuffle(r: Report, c: Context, other: int | None) -> str:
    return say(
        "{who} is lane {own} and reads from lane {lane}, which {why}",
        who=_who(r.block, r.thread),
        own=r.a,
        lane=r.b,
        why=say(_NO_LANE[r.c]),
    )


_RULES = {
    1: "the grid is {grid}: a launch needs a block, so return before it if there is no work",
    2: "the block is {block}: it needs at least one thread",
    3: "the block is {block}, and at most (1024, 1024, 64) is possible",
    4: "the block {block} has {threads} threads, and 1024 is the most",
    5: "the grid is {grid}, and at most (2147483647, 65535, 65535) is possible",
    6: "{shared} bytes of dynamic shared memory, and {most} is the most for this kernel "
    "(cudaFuncSetAttribute raises 49152 up to 65536, what every GPU from sm_75 on has)",
    7: "{most} bytes of shared memory, and 49152 is the most that a kernel can declare",
    8: "a kernel launches a kernel, which is not possible here: launch from host code",
    9: "the block {block} has {threads} threads, and the kernel's __launch_bounds__ promise at "
    "most {most}",
}
"""What a launch broke, by the runtime's number."""


def _impossible(r: Report, c: Context, other: int | None) -> str:
    launch = c.launches[r.launch]
    block = dim(launch.block)
    return say(
        _RULES[r.a],
        grid=dim(launch.grid),
        block=block,
        threads=prod(block),
        shared=launch.shared_bytes,
        most=r.b,
    )


def _division(r: Report, c: Context, other: int | None) -> str:
    return say("{who} divides an integer by zero", who=_who(r.block, r.thread))


def _assertion(r: Report, c: Context, other: int | None) -> str:
    asserted = r.text.decode(errors="replace")
    return say("assert({code}) fails in {who}", code=asserted, who=_who(r.block, r.thread))


def _stuck(r: Report, c: Context, other: int | None) -> str:
    who = _who(r.block, r.thread)
    if r.a:
        return say("{who} does not end: {n} loads and stores, and no barrier", who=who, n=r.a)
    return say("{who} waits for a value that no other thread writes", who=who)


def _invalid_free(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    if r.a == 1:
        return say(
            "cudaFree of {what}, which the cudaFree in line {line} has given back already",
            what=place.name if place else say("memory"),
            line=other,
        )
    if r.a == 2:
        return say(
            "cudaFree of {what}: it takes the address that cudaMalloc gave, and no other",
            what=_element(r, c, "a pointer"),
        )
    if r.a == 3:
        return say(
            "cudaFree of {what}, which cudaMalloc did not give: it is the caller's",
            what=place.name if place else say("memory"),
        )
    return say(
        "cudaFree of {address:#x}, which cudaMalloc did not give in this call or before it",
        address=r.address,
    )


def _missing_return(r: Report, c: Context, other: int | None) -> str:
    return say(
        "{who} comes to the end of this function, which promises a value, and finds no return: "
        "nvcc warns, and what the caller gets is undefined",
        who=_who(r.block, r.thread),
    )


def _leak(r: Report, c: Context, other: int | None) -> str:
    return say(
        "{n} bytes of this cudaMalloc are never given back: the function has ended, and no "
        "variable holds their address any more. cudaFree was not called",
        n=r.a,
    )


_SENTENCES: dict[str, Callable[[Report, Context, int | None], str]] = {
    "out_of_bounds": _out_of_bounds,
    "misaligned": _misaligned,
    "host_access": _host_access,
    "unwritten_shared": _unwritten,
    "race": _race,
    "divergent_barrier": _divergent_barrier,
    "divergent_warp": _divergent_warp,
    "undefined_shuffle": _undefined_shuffle,
    "impossible_launch": _impossible,
    "division_by_zero": _division,
    "assertion": _assertion,
    "stuck": _stuck,
    "unwritten_global": _unwritten_global,
    "invalid_free": _invalid_free,
    "missing_return": _missing_return,
    "same_value_race": _same_value_race,
    "leak": _leak,
}
