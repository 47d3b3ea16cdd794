"""A test matrix in which every two values meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab

Axes = Mapping[str, Sequence[Any]]
Place = tuple[str, Any]  # (axis, value)
Pair = frozenset[Place]
Run = dict[str, Any]
Excluded = Sequence[tuple[Place, Place]]
OFFERED = {
    "torch": ("2.11", "2.12", "2.13", "2.14", "2.15"),
    "python": ("3.10", "3.11", "3.12", "3.13", "3.14"),
    "os": ("linux", "macos", "windows"),
    "device": ("cpu", "cuda", "mps"),
    "dtype": ("float64", "float32", "bfloat16", "float16"),
    "mode": ("eager", "compiled"),
}
IMPOSSIBLE = (
    (("device", "cuda"), ("os", "macos")),
    (("device", "mps"), ("os", "linux")),
    (("device", "mps"), ("os", "windows")),
    (("dtype", "float64"), ("device", "mps")),
    (("torch", "2.11"), ("python", "3.14")),
)
NO_RUN = "A run names one value of every axis, as a dict: a machine has to run it."
EXCLUDED = "A run has two values that cannot meet: nobody can run it, so it tests nothing."
TOO_MANY = (
    "These are more runs than `most`. A run covers a pair for every two axes: choose runs that "
    "cover many new ones."
)
VALUES_ALONE = (
    "These two meet in no run, though the same values do on other axes. A pair is counted with its "
    "axes, not by its values alone."
)


@lab.question(
    "pairs_covered",
    points=5,
    minutes=11,
    difficulty=4,
    hints=(
        "How many pairs does one run cover? And how many are there in all?",
        "List all runs that are allowed: their pairs are those that have to be covered. Then take "
        "the run that covers the most pairs not covered yet, until none is left.",
        "best = max(allowed, key=lambda run: len(pairs(run) & left))",
    ),
)
def pairs_covered(student: Student, draw: Draw) -> None:
    """Runs such that every two values of different axes that can meet do so in one of them.

    axes: a dict of values by axis; excluded: pairs ((axis, value), (axis, value)); most: how many
    runs there may be -> a list of runs, each a dict of one value for each axis.
    """
    fixed = [_tangled(draw), _plain(draw), _at_the_ends(draw), _same_values(draw)]
    fixed += [(fixed[-1][0], [])]  # the axes of the call before, and nothing excluded any more
    fixed += [_kept_apart(draw), _of_two(draw), _all_axes(draw), _of_options(draw), _rare(draw)]
    for axes, excluded in [*fixed, *(_drawn(draw) for _ in draw.cases(1))]:
        allowed = _allowed(axes, excluded)
        most = _most(allowed)
        got = student.call("pairs_covered", dict(axes), list(excluded), most)
        _expect(got, axes, allowed, excluded, most)


def _expect(got: Any, axes: Axes, allowed: Sequence[Run], excluded: Excluded, most: int) -> None:
    runs = [_run(one, k, axes) for k, one in enumerate(expect_tuple(got, None, "a list of runs"))]
    for k, run in enumerate(runs):
        bad = [pair for pair in map(frozenset, excluded) if pair <= _places(run)]
        if bad:
            raise Wrong(
                expected="values that can meet", got=_said(bad[0]), where=f"[{k}]", why=EXCLUDED
            )
    left = pairs_of(allowed) - pairs_of(runs)
    if left:
        first = min(left, key=sorted)
        raise Wrong(
            expected=f"{_said(first)} in one run",
            got=f"in none (runs: {len(runs)}, such pairs: {len(left)})",
            why=VALUES_ALONE if _met_elsewhere(left, runs) else _missing(first, allowed),
        )
    if len(runs) > most:
        raise Wrong(expected=f"at most {most} runs", got=f"{len(runs)} runs", why=TOO_MANY)


def _missing(pair: Pair, allowed: Sequence[Run]) -> str:
    """With a run that has both: whoever found none learns that there is one."""
    run = next(run for run in allowed if pair <= _places(run))
    both = ", ".join(f"{axis} {value}" for axis, value in run.items())
    return (
        "Two values that can meet do so in no run: what fails with both of them is not seen. This "
        f"allowed run has both: {both}."
    )


def _met_elsewhere(left: Iterable[Pair], runs: Iterable[Run]) -> bool:
    """Whether each of these pairs has two values that meet, on other axes, in one of the runs."""
    met = {frozenset(value for _, value in pair) for pair in pairs_of(runs)}
    each = [frozenset(value for _, value in pair) for pair in left]
    return all(len(values) == 2 and values in met for values in each)


def _run(got: Any, k: int, axes: Axes) -> Run:
    """`got`, if it has one of its values for each axis."""
    whole = isinstance(got, dict) and got.keys() == axes.keys()
    if not whole or any(value not in axes[axis] for axis, value in got.items()):
        raise Wrong(
            expected=f"a value for each of {', '.join(axes)}",
            got=describe(got),
            where=f"[{k}]",
            why=NO_RUN,
        )
    return dict(got)


def _said(pair: Pair) -> str:
    return " with ".join(f"{axis} {value}" for axis, value in sorted(pair))


def _most(allowed: Sequence[Run]) -> int:
    """A third more than the greedy choice needs, and two."""
    needed = len(greedy(allowed, pairs_of(allowed)))
    return needed + needed // 3 + 2


def _places(run: Run) -> frozenset[Place]:
    return frozenset(run.items())


def _pairs(run: Run) -> set[Pair]:
    return {frozenset(pair) for pair in combinations(run.items(), 2)}


def pairs_of(runs: Iterable[Run]) -> set[Pair]:
    return {pair for run in runs for pair in _pairs(run)}


def all_runs(axes: Axes) -> list[Run]:
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _allowed(axes: Axes, excluded: Iterable[Iterable[Place]]) -> list[Run]:
    bad = [frozenset(pair) for pair in excluded]
    return [run for run in all_runs(axes) if not any(pair <= _places(run) for pair in bad)]


def greedy(runs: Sequence[Run], left: set[Pair]) -> list[Run]:
    """Each time the run that covers the most of what is left."""
    covers = [(run, _pairs(run)) for run in runs]
    chosen: list[Run] = []
    while left:
        run, pairs = max(covers, key=lambda one: len(one[1] & left))
        if not pairs & left:
            break
        chosen.append(run)
        left = left - pairs
    return chosen


def _some(draw: Draw, axis: str, n: int) -> list[str]:
    """n values of an axis, in their order."""
    taken = draw.shuffled(OFFERED[axis])[:n]
    return [value for value in OFFERED[axis] if value in taken]


def _tangled(draw: Draw) -> tuple[Axes, Excluded]:
    """Exclusions of both orders, on more than one axis."""
    axes = {
        "torch": ["2.11", *_some(draw, "torch", 5)[-3:]],
        "python": [*_some(draw, "python", 5)[:3], "3.14"],
        "os": list(OFFERED["os"]),
        "device": list(OFFERED["device"]),
        "dtype": _some(draw, "dtype", 2),
    }
    return _mixed(draw, axes), _turned(draw, axes)


def _plain(draw: Draw) -> tuple[Axes, Excluded]:
    axes = {"torch": _some(draw, "torch", 3), "os": _some(draw, "os", 2)}
    return _mixed(draw, axes | {"mode": list(OFFERED["mode"])}), []


def _at_the_ends(draw: Draw) -> tuple[Axes, Excluded]:
    """The first values of two axes cannot meet, nor the last ones: who fills a run up with either
    makes one that cannot be. Each pair names its axes in the other order, and they are no
    neighbours."""
    axes = {
        "os": ["linux", "windows", "macos"],
        "torch": _some(draw, "torch", 5),
        "device": ["mps", "cpu", "cuda"],
        "dtype": _some(draw, "dtype", 4),
    }
    return axes, [pair for pair in IMPOSSIBLE if pair[1][0] == "os"]


def _same_values(draw: Draw) -> tuple[Axes, Excluded]:
    """Two axes have the same values: float32 of one is not float32 of the other."""
    values = _some(draw, "dtype", 3)
    axes = {"dtype": values, "accumulator": list(values), "os": list(OFFERED["os"])}
    return axes, [(("accumulator", values[1]), ("dtype", values[0]))]


def _kept_apart(draw: Draw) -> tuple[Axes, Excluded]:
    """cuda and mps each meet one system alone, so what this one excludes is kept apart from them;
    Python 3.14 meets no torch, and stands in no run."""
    axes = {
        "python": list(OFFERED["python"]),
        "device": list(OFFERED["device"]),
        "mode": list(OFFERED["mode"]),
        "os": ["linux", "macos"],
        "dtype": ["float32", "float64"],
        "torch": ["2.11", "2.12"],
    }
    apart = (("dtype", "float64"), ("os", "macos")), (("mode", "compiled"), ("os", "linux"))
    alone = (("torch", "2.12"), ("python", "3.14"))
    return _mixed(draw, axes), [*_turned(draw, axes), *apart, alone]


def _of_two(draw: Draw) -> tuple[Axes, Excluded]:
    """Two axes, one of which has one value."""
    device, *others = draw.shuffled(OFFERED["device"])
    axes = {"os": ["macos"], "device": [device, *others]}
    return _mixed(draw, axes), _turned(draw, axes)


def _all_axes(draw: Draw) -> tuple[Axes, Excluded]:
    axes = {name: _some(draw, name, 2) for name in OFFERED}
    return axes, _turned(draw, axes)


def _of_options(draw: Draw) -> tuple[Axes, Excluded]:
    """Values that are no text, None and False among them."""
    axes: dict[str, Sequence[Any]] = {"softcap": [8.0, None], "bias": [True, False]}
    axes["dtype"] = _some(draw, "dtype", 3)
    return _mixed(draw, axes), []


def _rare(draw: Draw) -> tuple[Axes, Excluded]:
    """One pair can meet in one run alone, of 1296."""
    axes = {axis: list(range(6)) for axis in draw.shuffled("abcd")}
    apart = [(("c", 0), (other, n)) for other in "abd" for n in range(1, 6)]
    return axes, draw.shuffled(apart)


def _drawn(draw: Draw) -> tuple[Axes, Excluded]:
    names = draw.shuffled(list(OFFERED))[: draw.integer(3, 5)]
    axes = {name: _some(draw, name, draw.integer(2, min(4, len(OFFERED[name])))) for name in names}
    return axes, _turned(draw, axes)


def _mixed(draw: Draw, axes: Axes) -> Axes:
    return {axis: draw.shuffled(axes[axis]) for axis in draw.shuffled(list(axes))}


def _turned(draw: Draw, axes: Axes) -> Excluded:
    """What is impossible of these axes; every second pair the other way round."""
    there = [
        (a, b)
        for a, b in draw.shuffled(IMPOSSIBLE)
        if a[1] in axes.get(a[0], ()) and b[1] in axes.get(b[0], ())
    ]
    order = list(axes)
    sorted_pairs = [tuple(sorted(pair, key=lambda at: order.index(at[0]))) for pair in there]
    return [(a, b) if k % 2 else (b, a) for k, (a, b) in enumerate(sorted_pairs)]


Chooser = Callable[[Axes, Excluded, int], Any]


def _wrong(name: str, sentence: str) -> Callable[[Chooser], Chooser]:
    return pairs_covered.wrong(name, sentence)


pairs_covered.wrong(
    "everything",
    TOO_MANY,
    pairs_covered=lambda axes, excluded, most: _allowed(axes, excluded),
)


@_wrong("excluded_ignored", EXCLUDED)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    runs = all_runs(axes)
    return greedy(runs, pairs_of(runs))


@_wrong(
    "excluded_one_way",
    "An excluded pair was missed: it names its two axes in the other order. A pair has no order.",
)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    order = list(axes)
    seen = [pair for pair in excluded if order.index(pair[0][0]) < order.index(pair[1][0])]
    runs = _allowed(axes, seen)
    return greedy(runs, pairs_of(runs))


@_wrong(
    "impossible_runs_dropped",
    "Runs that cannot be were thrown away at the end, and with them the pairs that no other run "
    "has. Choose among the runs that can be.",
)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    runs, allowed = all_runs(axes), _allowed(axes, excluded)
    return [run for run in greedy(runs, pairs_of(runs)) if run in allowed]


@_wrong(
    "each_value_once",
    "Each value stands in a run, and not each pair. A fault of two values together is in no value "
    "alone.",
)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    allowed = _allowed(axes, excluded)
    left = {(axis, value) for axis, values in axes.items() for value in values}
    chosen = []
    while left:
        run = max(allowed, key=lambda one: len(_places(one) & left))
        chosen.append(run)
        left -= _places(run)
    return chosen


def _between(axes: Axes, excluded: Excluded, wanted: Callable[[int, int], bool]) -> list[Run]:
    """Covers the pairs of the axes with these numbers alone."""
    allowed, order = _allowed(axes, excluded), list(axes)
    left = {
        pair for pair in pairs_of(allowed) if wanted(*sorted(order.index(axis) for axis, _ in pair))
    }
    return greedy(allowed, left)


@_wrong(
    "with_the_first_axis",
    "Pairs with a value of the first axis are covered. Two values of other axes have to meet too.",
)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    return _between(axes, excluded, lambda a, b: a == 0)


@_wrong(
    "neighbouring_axes",
    "Pairs of neighbouring axes are covered. Two axes need not stand side by side to break "
    "something together.",
)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    return _between(axes, excluded, lambda a, b: b == a + 1)


@_wrong(
    "axes_forgotten",
    "Two axes may have the same values: float32 with bfloat16 is another pair than bfloat16 with "
    "float32. A value counts with its axis.",
)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    def values(pair: Iterable[Place]) -> frozenset[str]:
        return frozenset(value for _, value in pair)

    bad = {values(pair) for pair in excluded}
    runs = [
        run
        for run in all_runs(axes)
        if not bad & {values(pair) for pair in combinations(run.items(), 2)}
    ]
    return greedy(runs, pairs_of(runs))


@_wrong("excluded_wanted_no_more", EXCLUDED)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    runs = all_runs(axes)
    return greedy(runs, pairs_of(_allowed(axes, excluded)))


@_wrong("pairs_as_runs", NO_RUN)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    return [dict(pair) for pair in sorted(map(sorted, pairs_of(_allowed(axes, excluded))))]


@_wrong(
    "last_run_lost",
    "The last run is missing, and with it the pairs that were left for it.",
)
def _(axes: Axes, excluded: Excluded, most: int) -> list[Run]:
    allowed = _allowed(axes, excluded)
    return greedy(allowed, pairs_of(allowed))[:-1]


@pairs_covered.cost
def _(student: Student, draw: Draw) -> str:
    axes, excluded = _tangled(draw)
    allowed = _allowed(axes, excluded)
    runs = student.call("pairs_covered", dict(axes), list(excluded), _most(allowed))
    return f"{len(runs)} runs for {len(pairs_of(allowed))} pairs, of {len(allowed)} possible runs"
