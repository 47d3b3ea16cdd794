"""The runtime's numbers, made into sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from onelayer.cuda_cpu.faults import KINDS, Fault
from onelayer.cuda_cpu.places import Place, nearest, place_of
from onelayer.cuda_cpu.runtime_library import LaunchRecord, Report
from onelayer.cuda_cpu.text import Text

from .outcome import dim

READS, WRITES, UPDATES = range(3)
_OF_HOST_CODE = ("host_access", "invalid_free", "leak")
_DOES = {READS: "reads", WRITES: "writes", UPDATES: "updates atomically"}
_DID = {READS: "read", WRITES: "wrote", UPDATES: "updated atomically"}


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
    return f"thread {dim(thread)} of block {dim(block)}"


def _out_of_bounds(r: Report, c: Context, other: int | None) -> str:
    who = _who(r.block, r.thread)
    if r.a == 1:
        return f"{who} {_DOES[r.access]} beyond its own local variables"
    if r.a == 4 and (near := _beyond_device(c.places, r.address)):
        return f"{who} {_DOES[r.access]} {_outside(near, r.address)}"
    if r.a == 4:
        return f"{who} {_DOES[r.access]} a variable of the host: a kernel cannot reach it on a GPU"
    if r.a == 2:
        return f"{who} uses index {r.b}, outside the array that is indexed here"
    if r.a == 3:
        return f"the copy {_DOES[r.access]} {r.size} bytes that are not all device memory"
    if (shared := _beyond_shared(c.places, r.address)) is not None:
        return f"{who} {_DOES[r.access]} {shared}"
    if (freed := place_of(c.places, r.address)) is not None and freed.high >= r.address + r.size:
        return f"{who} {_DOES[r.access]} {freed.element(r.address)}, which cudaFree gave back"
    near = nearest(c.places, r.address)
    if r.address < 4096:
        return f"{who} {_DOES[r.access]} through a null pointer"
    if near is None or abs(r.address - near.low) > 1 << 32:
        return f"{who} {_DOES[r.access]} {r.size} bytes at {r.address:#x}, nobody's memory"
    return f"{who} {_DOES[r.access]} {_outside(near, r.address)}"


def _outside(p: Place, address: int) -> str:
    n = (p.high - p.low) // p.itemsize
    index = (address - p.low) // p.itemsize
    unit = "elements" if p.itemsize > 1 else "bytes"
    side = "before its beginning" if index < 0 else f"past its end: it has {n} {unit}"
    which = f"{p.name}[{index}]" if p.itemsize > 1 else f"byte {index} of {p.name}"
    return f"{which}, {side}"


def _beyond_device(places: list[Place], address: int) -> Place | None:
    near = nearest(places, address)
    return near if near and -64 <= address - near.high < 1024 else None


def _beyond_shared(places: list[Place], address: int) -> str | None:
    for p in places:
        if not p.shared or not p.low - 2048 <= address < p.high + (1 << 16):
            continue
        if p.name.startswith("dynamic"):
            size = p.high - p.low
            return f"byte {address - p.low} of dynamic shared memory; the launch asked for {size}"
        if address < p.high + 4096:
            return _outside(p, address)
    return None


def _misaligned(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    what = f" ({place.element(r.address)})" if place else ""
    return (
        f"{_who(r.block, r.thread)} {_DOES[r.access]} {r.size} bytes at an address{what} that "
        f"is no multiple of {r.size}: a vector must lie at a multiple of its own size"
    )


def _host_access(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    what = place.element(r.address) if place else "device memory"
    return (
        f"host code {_DOES[r.access]} {what}, which is device memory: on a GPU this ends the "
        "process. A kernel or cudaMemcpy can reach it"
    )


def _unwritten(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    what = place.element(r.address) if place else "shared memory"
    return f"{_who(r.block, r.thread)} reads {what}, which no thread of its block has written"


def _unwritten_global(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    what = place.element(r.address) if place else "device memory"
    return f"{_who(r.block, r.thread)} reads {what}, and nothing has been written there yet"


def _race(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    what = place.element(r.address) if place else "memory"
    there = f" in line {other}" if other else ""
    same_block = dim(r.block) == dim(r.other_block)
    whom = f"thread {dim(r.other_thread)}" if same_block else _who(r.other_block, r.other_thread)
    head = (
        f"{_who(r.block, r.thread)} {_DOES[r.access]} {what}, "
        f"and {whom} {_DID[r.other_access]} it{there}"
    )
    if place is not None and place.shared:
        return f"{head}, with no __syncthreads() between"
    cure = "no barrier orders two blocks" if not same_block else "nothing orders the two"
    return f"{head}; {cure}, so the result depends on who comes first"


def _same_value_race(r: Report, c: Context, other: int | None) -> str:
    there = f" (line {other})" if other else ""
    place = place_of(c.places, r.address)
    what = place.element(r.address) if place else "memory"
    whom = _who(r.other_block, r.other_thread)
    return (
        f"{_who(r.block, r.thread)} {_DOES[r.access]} {what}, and {whom} {_DID[r.other_access]} it"
        f"{there} with nothing between: both found the same value this time, and C++ promises "
        "nothing of two accesses without order. One thread that writes is enough, or an atomic"
    )


def _divergent_barrier(r: Report, c: Context, other: int | None) -> str:
    who = _who(r.block, r.thread)
    if r.a < 0:
        return _two_ways(r, c, other)
    if other:
        return f"{who} waits here, and thread {dim(r.other_thread)} at the barrier in line {other}"
    return (
        f"{r.a} of the {r.c} threads of block {dim(r.block)} wait at this barrier, and {r.b} have "
        f"returned, thread {dim(r.other_thread)} for one: all threads of a block must come to it"
    )


def _two_ways(r: Report, c: Context, other: int | None) -> str:
    mine, there = c.line_of.get(r.pc), f"thread {dim(r.other_thread)}"
    ways = (
        "two places in one line" if mine == other else f"line {mine}, and {there} from line {other}"
    )
    return (
        f"{_who(r.block, r.thread)} comes to this barrier from {ways}: these are two barriers, and "
        "each waits for all threads of the block"
    )


def _divergent_warp(r: Report, c: Context, other: int | None) -> str:
    who = _who(r.block, r.thread)
    if r.a < 0:
        return f"{who} is lane {r.c} and calls this with mask {r.b:#010x}, which does not name it"
    there = f"thread {dim(r.other_thread)}, which its mask {r.b:#010x} names,"
    if r.b != r.c and other == r.line:
        return f"{who} waits with mask {r.b:#010x}, and {there} came with mask {r.c:#010x}"
    where = f"is in line {other}" if other else "does not come"
    return f"{who} waits in this warp operation, and {there} {where}"


def _undefined_shuffle(r: Report, c: Context, other: int | None) -> str:
    why = ("does not exist: the block is too small", "has returned", "is not in the mask")[r.c]
    return f"{_who(r.block, r.thread)} is lane {r.a} and reads from lane {r.b}, which {why}"


def _impossible(r: Report, c: Context, other: int | None) -> str:
    launch = c.launches[r.launch]
    grid, block = dim(launch.grid), dim(launch.block)
    rules: dict[int, str] = {
        1: f"the grid is {grid}: a launch needs a block, so return before it if there is no work",
        2: f"the block is {block}: it needs at least one thread",
        3: f"the block is {block}, and at most (1024, 1024, 64) is possible",
        4: f"the block {block} has {block[0] * block[1] * block[2]} threads, and 1024 is the most",
        5: f"the grid is {grid}, and at most (2147483647, 65535, 65535) is possible",
        6: f"{launch.shared_bytes} bytes of dynamic shared memory, and {r.b} is the most for this "
        "kernel (cudaFuncSetAttribute raises 49152 up to 65536, what every GPU from sm_75 on has)",
        9: f"the block {block} has {block[0] * block[1] * block[2]} threads, and the kernel's "
        f"__launch_bounds__ promise at most {r.b}",
        8: "a kernel launches a kernel, which is not possible here: launch from host code",
        7: f"{r.b} bytes of shared memory, and 49152 is the most that a kernel can declare",
    }
    return rules[r.a]


def _division(r: Report, c: Context, other: int | None) -> str:
    return f"{_who(r.block, r.thread)} divides an integer by zero"


def _assertion(r: Report, c: Context, other: int | None) -> str:
    return f"assert({r.text.decode(errors='replace')}) fails in {_who(r.block, r.thread)}"


def _stuck(r: Report, c: Context, other: int | None) -> str:
    if r.a:
        return f"{_who(r.block, r.thread)} does not end: {r.a} loads and stores, and no barrier"
    return f"{_who(r.block, r.thread)} waits for a value that no other thread writes"


def _invalid_free(r: Report, c: Context, other: int | None) -> str:
    place = place_of(c.places, r.address)
    what = place.element(r.address) if place else "a pointer"
    if r.a == 1:
        name = place.name if place else "what"
        return f"cudaFree of {name}, which the cudaFree in line {other} has given back already"
    if r.a == 2:
        return f"cudaFree of {what}: it takes the address that cudaMalloc gave, and no other"
    if r.a == 3:
        name = place.name if place else "memory"
        return f"cudaFree of {name}, which cudaMalloc did not give: it is the caller's"
    return f"cudaFree of {r.address:#x}, which cudaMalloc did not give in this call or before it"


def _missing_return(r: Report, c: Context, other: int | None) -> str:
    return (
        f"{_who(r.block, r.thread)} comes to the end of this function, which promises a value, and "
        "finds no return: nvcc warns, and what the caller gets is undefined"
    )


def _leak(r: Report, c: Context, other: int | None) -> str:
    return (
        f"{r.a} bytes of this cudaMalloc are never given back: the function has ended, and no "
        "variable holds their address any more. cudaFree was not called"
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
