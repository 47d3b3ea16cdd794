"""Out of memory, avoided at the same arithmetic: the order of the work, and the frees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab
from .allocator_model import MIB, Allocator, OutOfMemory, Request

Work = Sequence[tuple[str, Sequence[str], int]]  # (name, what it reads, bytes of its result)
Plan = list[tuple[str, str]]
STEPS = 'a list of ("run", name) and ("free", name)'
PAIRS = 'Each step is a pair, what to do and then the name: ("run", name) or ("free", name).'
PARTS = ("z", "p", "dz", "dw")  # of each batch; all but the last are as large as its logits
ROOM = 2.6  # times the bytes that are alive at once when one batch follows the other: blocks are
# larger than tensors, and free ones lie in splinters


@lab.question(
    "plan_that_fits",
    points=4,
    minutes=12,
    difficulty=3,
    hints=(
        "Which tensors are alive at the same time when all the logits are made before the first "
        "gradient? Which of them could be gone?",
        "Make what the result needs, and before that what it needs in turn: one batch is then over "
        "before the next one begins. A tensor goes as soon as its last reader has run.",
        'plan += [("free", read) for read in reads if not waiting[read]]   # readers still to run',
    ),
)
def plan_that_fits(student: Student, draw: Draw) -> None:
    """The same work on a device where it ran out of memory.

    work: list of (name, names of the tensors that it reads, bytes of its result), in the order in
    which it was written; result: the name of the tensor that is wanted -> a list of ("run", name)
    and ("free", name). Each piece of work runs once, after what it reads, and nothing is read after
    it was freed; the result is still there at the end; and the plan fits the device.
    """
    fixed = [
        _work([16, 9, 23, 12, 31, 19, 27, 14]),
        _work([30, 13, 26, 17, 21, 24, 14, 28], shared=20),
        _work([22, 15, 29, 18, 25, 13, 20, 27], backwards=True),
        # All gradients at once are more than three batches: each is added before the next is made.
        _work([11, 9, 13, 12, 15, 10, 14, 8, 7], small=44),
        # What is added to a sum may be larger than the sum. The smallest batch comes first, so who
        # always takes what adds the least fits too.
        _work(range(20, 36), fused=True),
        # Now the largest comes first: who always takes what adds the least leaves it for the end,
        # and holds the gradients of all others until then.
        _work([48, *range(9, 25)], small=44),
    ]
    for work in fixed + [_drawn_work(draw) for _ in draw.cases(3)]:
        result = work[-1][0]
        plan = _checked(student.call("plan_that_fits", work, result), work, result)
        _expect_fit(plan, work)


def _work(
    logits: Sequence[int],
    shared: int = 11,
    small: int = 1,
    *,
    backwards: bool = False,
    fused: bool = False,
) -> Work:
    """Batches of so many MiB of logits, in the order "all logits, all probabilities, ...".

    shared: MiB of a weight that every batch reads twice. small: MiB of each gradient.
    backwards: gradients are added up from the last batch on, so the result needs that one first.
    fused: but for the first batch, the product is added to the sum as it is made, as addmm does.
    """
    made: list[tuple[str, list[str], int]] = [("w", [], shared * MIB)]
    made += [(f"x{n}", [], small * MIB) for n in range(len(logits))]
    reads = {"z": "x{n} w", "p": "z{n}", "dz": "p{n} z{n} p{n}", "dw": "dz{n} x{n} w"}
    for part in PARTS:
        for n, mib in enumerate(logits[:1] if fused and part == "dw" else logits):
            nbytes = small if part == "dw" else mib
            made.append((f"{part}{n}", reads[part].format(n=n).split(), nbytes * MIB))
    total, *others = [f"dw{n}" for n in range(len(logits))][:: -1 if backwards else 1]
    for other in others:
        adds = [other.replace("dw", "dz"), other.replace("dw", "x")] if fused else [other]
        made.append((f"sum{other}", [total, *adds], small * MIB))
        total = f"sum{other}"
    numbers = {name: f"t{n}" for n, (name, _, _) in enumerate(made)}  # names say nothing
    return [(numbers[name], [numbers[r] for r in reads], nbytes) for name, reads, nbytes in made]


def _drawn_work(draw: Draw) -> Work:
    logits = draw.shuffled(range(12, 40))[: draw.integer(8, 12)]
    return _work(logits, shared=draw.integer(2, 11), small=draw.integer(1, 2))


def _checked(got: Any, work: Work, result: str) -> Plan:
    """`got`, if it is a plan that does the work."""
    plan = expect_tuple(got, None, STEPS)
    if pairless := [s for s in plan if not isinstance(s, (list, tuple)) or len(s) != 2]:
        raise Wrong(expected=STEPS, got=describe(pairless[0]), why=PAIRS)
    reads, made, gone = {name: reads for name, reads, _ in work}, set[str](), set[str]()
    for verb, name in plan:
        step = describe((verb, name))
        if verb not in ("run", "free") or not isinstance(name, str) or name not in reads:
            raise Wrong(expected=STEPS, got=step, why=PAIRS)
        if verb == "run":
            _expect_runnable(name, reads[name], made, gone)
            made.add(name)
        elif name not in made or name in gone:
            why = "A tensor is freed once, and not before it was made."
            raise Wrong(expected="a free of a tensor that is there", got=step, why=why)
        else:
            gone.add(name)
    if missing := [name for name in reads if name not in made]:
        why = "The arithmetic stays the same: no piece of work is left out."
        raise Wrong(expected="all of the work", got=f"a plan without {missing[0]}", why=why)
    if result in gone:
        why = "The result is wanted when the plan is over: it stays, and everything else may go."
        raise Wrong(expected=f"{result} at the end", got="it is freed", why=why)
    return [(verb, name) for verb, name in plan]


def _expect_runnable(name: str, reads: Sequence[str], made: set[str], gone: set[str]) -> None:
    if name in made:
        why = "The same arithmetic: each piece of work runs once."
        raise Wrong(expected=f"{name} once", got="it runs a second time", why=why)
    for read in reads:
        if read not in made or read in gone:
            when, why = "is not there yet", "A piece of work runs after all that it reads."
            if read in gone:
                when = "was freed before"
                why = (
                    "A tensor was freed that a later piece of work reads. It goes after the last "
                    "of its readers, in the order of your plan."
                )
            raise Wrong(expected=f"{read} before {name} runs", got=f"{read} {when}", why=why)


def _expect_fit(plan: Plan, work: Work) -> None:
    capacity, held = _capacity(work), Allocator()
    held.capacity = capacity
    for n, request in enumerate(_requests(plan, work)):
        try:
            held.run([request])
        except OutOfMemory:
            raise Wrong(
                expected=f"a plan that fits {capacity // MIB} MiB",
                got=f"out of memory at plan[{n}], {request[1]}",
                why=_not_freed(plan, n, work)
                or f"Tensors hold {held.allocated // MIB} MiB there, the allocator has reserved "
                f"{held.reserved // MIB} MiB, and {request[1]} needs {request[2] // MIB} more. "
                "All that is held is read later, or is the result: the order decides how much that "
                "is.",
            ) from None


def _not_freed(plan: Plan, n: int, work: Work) -> str:
    """A sentence where tensors are held at step n that nothing reads from there on."""
    reads = {name: reads for name, reads, _ in work}
    to_come = {read for verb, name in plan[n:] if verb == "run" for read in reads[name]}
    freed = {name for verb, name in plan[:n] if verb == "free"}
    made = [name for verb, name in plan[:n] if verb == "run"]
    idle = [name for name in made if name not in freed | to_come | {work[-1][0]}]
    mib = sum(size for name, _, size in work if name in idle) // MIB
    return (
        f"{mib} MiB are held there by tensors that no later work reads, the first of them "
        f"{idle[0]}. Each can go as soon as its last reader has run."
        if idle
        else ""
    )


def _requests(plan: Plan, work: Work) -> list[Request]:
    nbytes = {name: size for name, _, size in work}
    return [
        ("alloc", name, nbytes[name], 0) if verb == "run" else ("free", name) for verb, name in plan
    ]


def _capacity(work: Work) -> int:
    return int(ROOM * _alive(_batch_by_batch(work, work[-1][0]), work))


def _alive(plan: Plan, work: Work) -> int:
    """The most bytes that tensors hold at once."""
    nbytes, now, most = {name: size for name, _, size in work}, 0, 0
    for verb, name in plan:
        now += nbytes[name] if verb == "run" else -nbytes[name]
        most = max(most, now)
    return most


def _needed_first(
    work: Work, result: str, turned: Callable[[Sequence[str]], Iterable[str]] = iter
) -> list[str]:
    """Names in the order in which the result needs them, depth first. turned: of what one piece of
    work reads, the order in which it is made."""
    reads, order = {name: reads for name, reads, _ in work}, dict[str, None]()

    def make(name: str) -> None:
        for read in turned(reads[name]):
            make(read)
        order.setdefault(name)

    make(result)
    return list(order)


def _freed(order: Sequence[str], work: Work, result: str, *, first: bool = False) -> Plan:
    """The plan in this order, each tensor freed after its last reader (first: after its first)."""
    reads = {name: reads for name, reads, _ in work}
    readers: dict[str, list[str]] = {}
    for name in order:
        for read in reads[name]:
            readers.setdefault(read, []).append(name)
    plan: Plan = []
    for name in order:
        plan.append(("run", name))
        plan += [
            ("free", r)
            for r in dict.fromkeys(reads[name])
            if readers[r][0 if first else -1] == name
        ]
    return plan


def _batch_by_batch(work: Work, result: str) -> Plan:
    return _freed(_needed_first(work, result), work, result)


def _as_written(work: Work) -> list[str]:
    return [name for name, _, _ in work]


@plan_that_fits.wrong(
    "nothing_freed",
    "Nothing is freed, so the last step holds all tensors of all batches. `del` a tensor when its "
    "last reader has run.",
)
def _(work: Work, result: str) -> Plan:
    return [("run", name) for name in _as_written(work)]


@plan_that_fits.wrong(
    "only_reordered",
    "One batch follows the other, and its tensors stay. An order alone frees nothing.",
)
def _(work: Work, result: str) -> Plan:
    return [("run", name) for name in _needed_first(work, result)]


@plan_that_fits.wrong(
    "freed_at_the_end",
    "All frees come after all the work. The peak is before them.",
)
def _(work: Work, result: str) -> Plan:
    order = _needed_first(work, result)
    return [("run", n) for n in order] + [("free", n) for n in order if n != result]


plan_that_fits.wrong(
    "order_as_written",
    "Tensors are freed in time, and the order is the old one: the logits of all batches are alive "
    "before the first of them is used. Finish one batch before the next.",
    plan_that_fits=lambda work, result: _freed(_as_written(work), work, result),
)
plan_that_fits.wrong(
    "freed_after_the_first_reader",
    "A tensor goes after its first reader, and others come later. Count the readers that are still "
    "to run.",
    plan_that_fits=lambda work, result: _freed(
        _needed_first(work, result), work, result, first=True
    ),
)


@plan_that_fits.wrong(
    "freed_before_the_reader",
    "A tensor is freed before the work that reads it has run. Run first, then free.",
)
def _(work: Work, result: str) -> Plan:
    plan = _batch_by_batch(work, result)
    runs = [n for n, (verb, _) in enumerate(plan) if verb == "run"]
    ends = [*runs[1:], len(plan)]
    return [step for a, b in zip(runs, ends, strict=True) for step in (*plan[a + 1 : b], plan[a])]


@plan_that_fits.wrong(
    "computed_twice",
    "What was freed is computed again for its next reader. That fits, and it is checkpointing: "
    "more arithmetic. Here the order alone is enough.",
)
def _(work: Work, result: str) -> Plan:
    reads, plan = {name: reads for name, reads, _ in work}, []

    def make(name: str) -> None:
        for read in dict.fromkeys(reads[name]):
            make(read)
        plan.append(("run", name))
        plan.extend(("free", read) for read in dict.fromkeys(reads[name]))

    make(result)
    return plan


@plan_that_fits.wrong(
    "result_freed",
    "The result has no reader among the work, and was freed with the rest. It is what the step is "
    "for.",
)
def _(work: Work, result: str) -> Plan:
    return [*_batch_by_batch(work, result), ("free", result)]


def _by_size(work: Work) -> Callable[[Sequence[str]], list[str]]:
    nbytes = {name: size for name, _, size in work}
    return lambda reads: sorted(reads, key=lambda name: -nbytes[name])


for _name, _turned in (
    ("read_last_made_first", lambda work: reversed),
    ("largest_first", _by_size),
):

    @plan_that_fits.wrong(
        _name,
        "The running sum was made after what is added to it, so the gradients of all batches are "
        "there before the second is added. What adds to a sum reads that sum first: make it first.",
    )
    def _(work: Work, result: str, _turned: Callable[[Work], Any] = _turned) -> Plan:
        return _freed(_needed_first(work, result, _turned(work)), work, result)


@plan_that_fits.wrong(
    "least_growth_first",
    "Always the work that adds the fewest bytes was run next. So the small batches came before the "
    "large first one, and their gradients wait for the sum that begins with it: finish that batch "
    "first.",
)
def _(work: Work, result: str) -> Plan:
    nbytes = {name: size for name, _, size in work}
    waiting = {name: list(dict.fromkeys(reads)) for name, reads, _ in work}
    plan: Plan = []

    def freed_by(name: str) -> list[str]:
        others = {read for other, reads in waiting.items() if other != name for read in reads}
        return [read for read in waiting[name] if read not in others]

    def growth(name: str) -> int:
        return nbytes[name] - sum(nbytes[read] for read in freed_by(name))

    while waiting:
        ready = [name for name, reads in waiting.items() if not waiting.keys() & set(reads)]
        name = min(ready, key=growth)
        plan += [("run", name), *(("free", read) for read in freed_by(name))]
        del waiting[name]
    return plan


plan_that_fits.wrong(
    "from_the_result_back",
    "Depth first is right, and then each piece of work comes after what it reads, not before.",
    plan_that_fits=lambda work, result: [
        ("run", name) for name in reversed(_needed_first(work, result))
    ],
)


@plan_that_fits.wrong(
    "large_ones_kept",
    "The large tensors are never freed, and they are what fills the device: each goes after the "
    "last of its readers.",
)
def _(work: Work, result: str) -> Plan:
    large = {name for name, _, nbytes in work if nbytes > 2 * MIB}
    return [s for s in _batch_by_batch(work, result) if s[0] == "run" or s[1] not in large]


@plan_that_fits.cost
def _(student: Student, draw: Draw) -> str:
    work = _work([16, 9, 23, 12, 31, 19, 27, 14])
    result = work[-1][0]
    yours = _alive(_checked(student.call("plan_that_fits", work, result), work, result), work)
    all_of_it = sum(nbytes for *_, nbytes in work)
    return f"8 batches: tensors of {all_of_it // MIB} MiB, at most {yours // MIB} MiB at once"
