"""The least time that some kernels take on a machine, and what each of them is bound by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autograder.checks.same_call import known_by_this_call
from autograder.judge import Draw, Student, Wrong, describe, expect_equal, expect_tuple, within

from . import lab

Kernel = Mapping[str, int]
Machine = Mapping[str, float]
Bound = tuple[float, list[str]]
ROOFS = ("bytes", "flops", "exps")
_FORM = "(seconds, the roof of each kernel)"


@lab.question(
    "roofline_time",
    points=3,
    minutes=5,
    difficulty=2,
    hints=(
        "One kernel: how long do its bytes take, how long its flops, its exps? They go on at once.",
        "A kernel takes at least as long as the slowest of the three: that one is its roof. "
        "Kernels run one after the other, so their times add.",
        "times = {roof: kernel[roof] / machine[roof] for roof in machine}; max(times, key=...)",
    ),
)
def roofline_time(student: Student, draw: Draw) -> None:
    """The least time of kernels that run one after the other, and the roof of each.

    kernels: list of {"bytes": ..., "flops": ..., "exps": ...}, what each does in all; machine: the
    same keys, in each second -> (seconds, list of "bytes", "flops" or "exps").
    """
    fixed = [("flops", "exps", "bytes"), ("flops",), ("exps", "exps"), ("bytes", "bytes", "flops")]
    fixed.append(("flops", "exps", "flops"))
    drawn = [[draw.choice(ROOFS) for _ in range(draw.integer(1, 5))] for _ in draw.cases(3)]
    for roofs in (*fixed, *drawn):
        machine = _machine(draw)
        lengths = [draw.integer(100, 900) for _ in roofs]
        if len(roofs) > 2:  # neither the first nor the last is the longest
            lengths[1] = max(lengths) + 60
        kernels = [
            _kernel(draw, machine, roof, us) for roof, us in zip(roofs, lengths, strict=True)
        ]
        if roofs == fixed[4]:  # the same kernel, launched once more
            kernels[2] = dict(kernels[0])
        if roofs == fixed[0]:  # bytes have not the lowest rate here: it is the exps'
            machine = {**machine, "bytes": 8e12}
            kernels = [
                _kernel(draw, machine, roof, us) for roof, us in zip(roofs, lengths, strict=True)
            ]
            # The exps go beyond flops that go beyond bytes: only who leaves the exps out fails.
            kernels[1] = {**kernels[1], "bytes": kernels[1]["flops"] // 200}
        if roofs in (
            fixed[1],
            fixed[2],
        ):  # one that does nothing else, its figures in another order
            kernels = [
                {one: kernel[one] if one == roof else 0 for one in draw.shuffled(ROOFS)}
                for roof, kernel in zip(roofs, kernels, strict=True)
            ]
            machine = {one: machine[one] for one in reversed(list(kernels[0]))}
        got = student.call("roofline_time", kernels, machine)
        seconds, named = expect_tuple(got, 2, _FORM)
        with known_by_this_call(roofline_time, student, (seconds, named), kernels, machine):
            _expect_seconds(seconds, sum(max(_times(kernel, machine)) for kernel in kernels))
            with within("the roofs,"):
                expect_equal(named, list(roofs), why=_names(named, roofs))


def _machine(draw: Draw) -> Machine:
    """No two of its figures are near each other, and they are those of no GPU."""
    return {
        "bytes": draw.integer(300, 900) * 1e9,
        "flops": draw.integer(20, 90) * 1e12,
        "exps": draw.integer(2, 6) * 1e12,
    }


def _kernel(draw: Draw, machine: Machine, roof: str, length: int) -> Kernel:
    """Its roof takes some hundred microseconds; the others between a fifth and four fifths of
    that, so no roof is far away."""
    us = length + 0.37  # no whole number of them: who rounds is seen
    shares = {other: draw.integer(20, 80) / 100 for other in ROOFS} | {roof: 1.0}
    return {other: round(machine[other] * us * 1e-6 * shares[other]) for other in ROOFS}


def _times(kernel: Kernel, machine: Machine) -> list[float]:
    return [kernel[roof] / machine[roof] for roof in ROOFS]


def _expect_seconds(got: Any, want: float) -> None:
    if not isinstance(got, float) or not abs(got - want) <= 1e-6 * want:
        why = _LONGEST if isinstance(got, float) else ""
        raise Wrong(expected=f"{want:.6g} s", got=describe(got), why=why)


_LONGEST = (
    "Of each kernel the longest of three times counts, that of its bytes, its flops or its exps, "
    "each at its own rate alone. The kernels' times add up."
)


def _names(named: Any, roofs: Sequence[str]) -> str:
    """What is wrong with the names of roofs, if they are not the right ones in another order."""
    if not isinstance(named, (list, tuple)) or any(name not in ROOFS for name in named):
        return (
            'A roof is named as in the dictionaries: a list with "bytes", "flops" or "exps" for '
            "each kernel."
        )
    if len(named) != len(roofs) or sorted(named) == sorted(roofs):
        return ""
    place = next(k for k, roof in enumerate(roofs) if named[k] != roof)
    return f"Of kernel {place + 1} the {roofs[place]} take longest: each kernel has its own roof."


def _all_at_once(kernels: Sequence[Kernel], machine: Machine) -> float:
    """As if the bytes of one kernel could hide the flops of another."""
    return max(sum(kernel[roof] for kernel in kernels) / machine[roof] for roof in ROOFS)


def _bound(
    each: Callable[[list[float]], float] = max,
    roofs: Sequence[str] = ROOFS,
    pick: Callable[..., Any] = max,
) -> Callable[..., Bound]:
    def answer(kernels: Sequence[Kernel], machine: Machine) -> Bound:
        times = [{roof: kernel[roof] / machine[roof] for roof in roofs} for kernel in kernels]
        named = [pick(of, key=of.__getitem__) for of in times]
        return sum(each(list(of.values())) for of in times), named

    return answer


def _beyond_the_ridge(kernel: Kernel, machine: Machine) -> bool:
    """Whether its flops take longer than its bytes."""
    of_bytes, of_flops, _ = _times(kernel, machine)
    return of_flops > of_bytes


def _together(parts: Iterable[Bound]) -> Bound:
    seconds, named = zip(*parts, strict=True)
    return sum(seconds), [roof for roofs in named for roof in roofs]


roofline_time.wrong(
    "times_added",
    "Within one kernel the times are added. Loads, products and exps go on at the same time: the "
    "slowest of them is the bound.",
    roofline_time=_bound(each=sum),
)
roofline_time.wrong(
    "shortest",
    "This takes the shortest of the three times. The others have not finished then.",
    roofline_time=_bound(each=min, pick=min),
)
roofline_time.wrong(
    "one_kernel",
    "All kernels are taken as one. One after the other, the bytes of one cannot hide the flops of "
    "another: each has its own roof, and the times add.",
    roofline_time=lambda kernels, machine: (
        _all_at_once(kernels, machine),
        _bound()(kernels, machine)[1],
    ),
)
roofline_time.wrong(
    "no_exps",
    "The exps are left out. They have a unit and a rate of their own, and of a fused loss they can "
    "be the roof.",
    roofline_time=_bound(roofs=("bytes", "flops")),
)
roofline_time.wrong(
    "ridge_point",
    "The exps were looked at only where the flops take longer than the bytes. All three times are "
    "compared at once.",
    roofline_time=lambda kernels, machine: _together(
        _bound(roofs=ROOFS if _beyond_the_ridge(kernel, machine) else ROOFS[:1])([kernel], machine)
        for kernel in kernels
    ),
)
roofline_time.wrong(
    "longest_kernel",
    "This is the time of the longest kernel. They run one after the other, so their times add.",
    roofline_time=lambda kernels, machine: (
        max(max(_times(kernel, machine)) for kernel in kernels),
        _bound()(kernels, machine)[1],
    ),
)
roofline_time.wrong(
    "most_work",
    "The roof is named after the largest count. Counts have different units: what counts is the "
    "time that each takes on this machine.",
    roofline_time=lambda kernels, machine: (
        _bound()(kernels, machine)[0],
        [max(ROOFS, key=kernel.__getitem__) for kernel in kernels],
    ),
)
roofline_time.wrong(
    "microseconds",
    "These are microseconds. Per-second rates give seconds.",
    roofline_time=lambda kernels, machine: (
        1e6 * _bound()(kernels, machine)[0],
        _bound()(kernels, machine)[1],
    ),
)


def _each(kernels: Sequence[Kernel], times_of: Callable[[Kernel], Mapping[str, float]]) -> Bound:
    times = list(map(times_of, kernels))
    return sum(max(of.values()) for of in times), [max(of, key=of.__getitem__) for of in times]


_right = _bound()


def _by_work(kernels: Sequence[Kernel], machine: Machine) -> Bound:
    most = [max(ROOFS, key=kernel.__getitem__) for kernel in kernels]
    pairs = zip(kernels, most, strict=True)
    return sum(kernel[roof] / machine[roof] for kernel, roof in pairs), most


def _computing_added(kernels: Sequence[Kernel], machine: Machine) -> Bound:
    seconds, roofs = 0.0, []
    for kernel in kernels:
        moving, flops, exps = _times(kernel, machine)
        seconds += max(moving, flops + exps)
        computing = "flops" if flops > exps else "exps"
        roofs.append("bytes" if moving > flops + exps else computing)
    return seconds, roofs


def _equal_times_once(kernels: Sequence[Kernel], machine: Machine) -> Bound:
    """By a dictionary from times to roofs."""
    each = [_right([kernel], machine) for kernel in kernels]
    roofs = {seconds: named[0] for seconds, named in each}
    return sum(roofs), list(roofs.values())


def _right_of_all(kernels: Sequence[Kernel], machine: Machine) -> Bound:
    """One bound for what all kernels do together, and its roof for each."""
    work = {roof: sum(kernel[roof] for kernel in kernels) for roof in ROOFS}
    seconds, named = _right([work], machine)
    return seconds, named * len(kernels)


_MORE: dict[str, tuple[str, Callable[..., Any]]] = {
    "each_roof_once": (
        "Each roof is named once. Asked for is that of each kernel, in their order: two kernels "
        "may have the same.",
        lambda kernels, machine: (
            _right(kernels, machine)[0],
            list(dict.fromkeys(_right(kernels, machine)[1])),
        ),
    ),
    "milliseconds": (
        "These are milliseconds. Per-second rates give seconds.",
        lambda kernels, machine: (1e3 * _right(kernels, machine)[0], _right(kernels, machine)[1]),
    ),
    "shortest_named": (
        "The roof is named after the shortest of the three times. The longest one is the bound.",
        lambda kernels, machine: (
            _right(kernels, machine)[0],
            _bound(pick=min)(kernels, machine)[1],
        ),
    ),
    "no_exps_in_the_time": (
        "The roofs are right, and the time leaves the exps out: where they are the roof, they are "
        "the time.",
        lambda kernels, machine: (
            _bound(roofs=ROOFS[:2])(kernels, machine)[0],
            _right(kernels, machine)[1],
        ),
    ),
    "flops_and_exps_added": (
        "The times of flops and exps are added. They have units of their own, which work at the "
        "same time.",
        _bound(each=lambda times: max(times[0], times[1] + times[2])),
    ),
    "bytes_added": (
        "The time of the bytes is added to that of the computing. Within a kernel loads go on "
        "while others compute.",
        _bound(each=lambda times: times[0] + max(times[1:])),
    ),
    "bytes_and_flops_added": (
        "The times of bytes and flops are added. Within a kernel loads go on while others compute.",
        _bound(each=lambda times: max(times[0] + times[1], times[2])),
    ),
    "exps_as_flops": (
        "The exps are added to the flops. Other units compute them, at a rate of their own.",
        lambda kernels, machine: _bound(roofs=ROOFS[:2])(
            [{**kernel, "flops": kernel["flops"] + kernel["exps"]} for kernel in kernels], machine
        ),
    ),
    "rate_by_work": (
        "This divides rates by work. Work divided by a rate is a time.",
        lambda kernels, machine: _each(
            kernels, lambda kernel: {roof: machine[roof] / kernel[roof] for roof in ROOFS}
        ),
    ),
    "rate_times_work": (
        "This multiplies rates with work. Work divided by a rate is a time.",
        lambda kernels, machine: _each(
            kernels, lambda kernel: {roof: machine[roof] * kernel[roof] for roof in ROOFS}
        ),
    ),
    "whole_seconds": (
        "Of the times only whole seconds are left, as by //, and a kernel takes less than one: "
        "these times are divided with /.",
        lambda kernels, machine: _each(
            kernels, lambda kernel: {roof: kernel[roof] // machine[roof] for roof in ROOFS}
        ),
    ),
    "mean": (
        "This is the mean of the kernels' times. They run one after the other, so their times add.",
        lambda kernels, machine: (
            _right(kernels, machine)[0] / len(kernels),
            _right(kernels, machine)[1],
        ),
    ),
    "not_added": (
        "These are the times of the kernels. Asked for is one number: their sum.",
        lambda kernels, machine: (
            [max(_times(kernel, machine)) for kernel in kernels],
            _right(kernels, machine)[1],
        ),
    ),
    "last_kernel": (
        "Only the last kernel is here: each kernel has a roof, and their times add.",
        lambda kernels, machine: _right(kernels[-1:], machine),
    ),
    "one_kernel_and_its_roof": (
        "All kernels are taken as one. One after the other, the bytes of one cannot hide the flops "
        "of another: each has its own roof, and the times add.",
        lambda kernels, machine: _right_of_all(kernels, machine),
    ),
    "by_their_places": (
        "Work and rates are paired by their places in the dictionaries, whose order may differ. "
        "They belong together by their names.",
        lambda kernels, machine: _each(
            kernels,
            lambda kernel: {
                roof: work / rate
                for (roof, work), rate in zip(kernel.items(), machine.values(), strict=True)
            },
        ),
    ),
    "equal_times_once": (
        "Kernels that take equally long are counted once. Each of them runs, so each time is added "
        "and each roof named.",
        lambda kernels, machine: _equal_times_once(kernels, machine),
    ),
    "first_kernel": (
        "Only the first kernel is here: each kernel has a roof, and their times add.",
        lambda kernels, machine: _right(kernels[:1], machine),
    ),
    "roofs_first": (
        "The roofs stand first. Asked for are the seconds, then the roofs.",
        lambda kernels, machine: _right(kernels, machine)[::-1],
    ),
    "no_roofs": (
        "This is the time alone. The roof of each kernel is asked for too: (seconds, roofs).",
        lambda kernels, machine: _right(kernels, machine)[0],
    ),
    "time_of_the_last_kernel": (
        "The time is that of the last kernel alone. They run one after the other, so their "
        "times add.",
        lambda kernels, machine: (_right(kernels[-1:], machine)[0], _right(kernels, machine)[1]),
    ),
    "most_work_and_its_time": (
        "Flops are named for every kernel, and the time is theirs. They are the most by number: "
        "compare the times that the three take.",
        lambda kernels, machine: _by_work(kernels, machine),
    ),
    "bytes_alone": (
        "Only the bytes are counted. Flops and exps can be the roof as well.",
        _bound(roofs=ROOFS[:1]),
    ),
    "flops_and_exps_in_a_row": (
        "The times of flops and exps are added. They have units of their own, which work at the "
        "same time.",
        lambda kernels, machine: _computing_added(kernels, machine),
    ),
    "by_intensity": (
        "The roof comes from bytes and flops alone, as by flops per byte. Exps have a rate of "
        "their own, and may be the roof whatever that quotient is.",
        lambda kernels, machine: (
            _right(kernels, machine)[0],
            _bound(roofs=ROOFS[:2])(kernels, machine)[1],
        ),
    ),
    "second_longest": (
        "This is the second of the three times. The slowest is the bound.",
        _bound(each=lambda times: sorted(times)[1], pick=lambda of, key: sorted(of, key=key)[1]),
    ),
}
for _key, (_sentence, _function) in _MORE.items():
    roofline_time.wrong(_key, _sentence, roofline_time=_function)


@roofline_time.cost
def _(student: Student, draw: Draw) -> str:
    n, v, d = 65_536, 600, 64
    z = {"bytes": 2 * n * v, "flops": 2 * n * v * d, "exps": n * v}
    eager = [z | {"exps": 0}, z | {"flops": 0}]
    fused = [z | {"bytes": 2 * (n + v) * d}]
    machine = {"bytes": 3e11, "flops": 6e13, "exps": 2e12}
    times = [student.call("roofline_time", kernels, machine) for kernels in (eager, fused)]
    (before, _), (after, (roof,)) = times
    return (
        f"the head's loss of 65,536 tokens on a GPU of 300 GB/s: {before * 1e6:,.0f} us in two "
        f"kernels, {after * 1e6:,.0f} us fused, and its roof is the {roof}"
    )
