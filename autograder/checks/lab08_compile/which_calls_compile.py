"""Guards: which call finds a graph that fits, and which one compiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .programs import compiled

Seen = tuple[int, torch.dtype, bool]
_NARROW = (torch.float16, torch.bfloat16)
PROGRAM = """
def step(x, training):
    y = x * 2
    if training:
        y = y + 1
    if x.shape[0] > {limit}:
        y = y.relu()
    return y
"""


@lab.question(
    "which_calls_compile",
    points=4,
    minutes=14,
    difficulty=4,
    hints=(
        "What does Dynamo check before it runs a graph that it has? List, for each graph, what was "
        "true of the call that it was made for.",
        "dtype and training must be equal. The first graph is for one N. Once two different N have "
        "been compiled, N is a symbol in each new graph: that graph serves every N from 2 on that "
        "lies on the same side of `limit`. 0 and 1 never become a symbol.",
        "fits = same and (n == size if size is not None else n >= 2 and (n > limit) == above)",
    ),
    budget_s=60.0,
)
def which_calls_compile(student: Student, draw: Draw) -> None:
    """Which of these calls of one compiled step compile, and which find a graph that fits.

    calls (list of (n, dtype, training): x is (n, 3) of that dtype), limit -> a bool for each call.
    """
    f32, f64 = torch.float32, torch.float64
    limit = draw.integer(5, 6)
    small = draw.shuffled(range(2, limit))
    big = draw.shuffled(range(limit + 1, 12))
    cases: list[list[Seen]] = [
        [(n, f32, True) for n in (big[0], big[0], big[1], big[2], big[3], 1, 1, big[0])],
        [(n, f32, True) for n in (small[0], small[0], small[1], small[2], 1, 1, small[0])],
        [(n, f32, False) for n in (small[0], big[0], big[1], small[1], small[2], big[2])],
        # A graph with a symbol, and one with a plain N on the other side of the limit, which stays.
        [(n, f32, True) for n in (small[0], big[0], small[0], small[1])],
        [(n, f32, True) for n in (big[0], small[0], big[0], big[1])],
        [(small[0], f32, t) for t in (True, False, True)]
        + [(small[0], f64, True), (small[1], f64, False), (limit, f64, False)]
        + [(small[1], f32, False), (limit, f32, False)],
        [(n, f32, True) for n in (3, 4, 0)],  # no symbol serves 0, which has no graph yet
        [(n, f32, True) for n in (1, small[0], small[1], 0, 1, big[0], big[1])],
        [(n, f32, True) for n in (0, 1, 0, small[0], limit, limit + 1)],
        [(n, f32, True) for n in (3, 2, 4)],  # 2 can be a symbol, and a graph with one serves 2
        [(n, f32, True) for n in (3, 4, 2)],
        [(n, f32, True) for n in (big[0], limit, small[0])],
        [(small[k], dtype, True) for k, dtype in ((0, f32), (1, f64), (0, f32), (2, f32))],
        [(small[k], dtype, True) for k, dtype in ((0, f32), (1, f64), (2, f64))],
        [(small[k], dtype, True) for k, dtype in ((0, f32), (1, f32), (0, f64), (2, f64))],
        [(1, f32, True), (small[0], f64, True), (1, f64, True)],  # 1 was met, of another dtype
        [(small[0], f32, True), (small[1], f32, False), (small[2], f32, False)],
        [(small[0], f32, False), (small[1], f32, False), (small[2], f32, True)],
        [(small[0], dtype, True) for dtype in (f32, f64, *_NARROW, torch.int64, f64, *_NARROW)],
        [(n, dtype, True) for n in (0, 1) for dtype in (f32, f64, f64)],
        [(n, f32, True) for n in (big[0], 40, 300)],
        *([_call(draw, limit) for _ in range(6)] for _ in draw.cases(1)),
    ]
    asked = [(calls, limit) for calls in cases]
    # Early: nobody's limit is the example's 5 in all cases, and who has it there makes that mistake
    # before any other.
    asked[1:1] = [([(n, f32, False) for n in (2, 3, k, k + 1, k + 2)], k) for k in (4, 7)]
    for calls, limit in asked:
        got, want = student.call("which_calls_compile", calls, limit), _torchs(calls, limit)
        with saying(_reason(got, want, calls)):
            expect_equal(got, want)


def _reason(got: Any, want: list[bool], calls: Sequence[Seen]) -> str:
    """Why the first call that is answered wrongly compiles, or does not."""
    listed = isinstance(got, (list, tuple)) and len(got) == len(want)
    if not listed or not all(isinstance(compiles, bool) for compiles in got):
        return ""
    k = next((k for k, compiles in enumerate(want) if got[k] is not compiles), 0)
    n, *kind = calls[k]
    alike = [calls[j][0] for j in range(k) if want[j] and [*calls[j][1:]] == kind]
    if not want[k] and calls[k] in calls[:k]:
        j = calls.index(calls[k])
        return (
            f"Call {k} compiles nothing: it is like call {j}, and the graph that served that one "
            "is kept. Dynamo keeps all graphs of a function, up to a limit."
        )
    if not want[k]:
        return f"Call {k} compiles nothing: a graph of a call before it serves N = {n} as well."
    if not alike:
        return f"Call {k} compiles: no graph was made before for its dtype and its `training`."
    if n < 2:
        return (
            f"Call {k} compiles: no graph of its dtype and `training` was made for N = {n}, and "
            "one with a symbol serves neither 0 nor 1."
        )
    return (
        f"Call {k} compiles: the last graph of its dtype and `training` was made for "
        f"N = {alike[-1]}, and none of them serves N = {n}. Each holds a plain N, or the other "
        "side of `limit`."
    )


def _call(draw: Draw, limit: int) -> Seen:
    n = draw.choice((0, 1, 2, limit, limit + 1, draw.integer(2, 12), draw.integer(2, 12)))
    return n, draw.choice((torch.float32,) * 3 + (torch.float64,)), draw.choice((True, True, False))


def _torchs(calls: Sequence[Seen], limit: int) -> list[bool]:
    return list(_by_dynamo(tuple(calls), limit))


@lru_cache(64)
def _by_dynamo(calls: tuple[Seen, ...], limit: int) -> tuple[bool, ...]:
    """By experiment: whether a backend is given a graph."""
    arguments = [(torch.ones(n, 3, dtype=dtype), training) for n, dtype, training in calls]
    return tuple(map(bool, compiled(PROGRAM.format(limit=limit), arguments).by_call))


@dataclass(frozen=True)
class _Graph:
    """A graph that was compiled, and what its guards remember; size is None where N is a symbol."""

    size: int | None
    dtype: torch.dtype
    training: bool
    above: bool

    def is_plain(self, dtype: torch.dtype, training: bool) -> bool:
        """Whether it is of this dtype and flag, for one N that could be a symbol."""
        alike = (self.dtype, self.training) == (dtype, training)
        return alike and self.size is not None and self.size >= 2


@dataclass(frozen=True)
class _Rules:
    """Dynamo's rules, and what people take them for."""

    symbols: bool = True
    from_the_start: bool = False
    ones_too: bool = False
    sides: bool = True
    dtypes: bool = True
    flags: bool = True
    latest_only: bool = False
    symbols_stay: bool = True
    by_kind: bool = False  # what N was is remembered for each dtype and flag apart
    by_dtype: bool = False  # for each dtype apart
    enough: int = 1  # other sizes that make N a symbol
    second_graph: bool = False  # the second graph has a symbol, whatever it was made for
    limit_above: bool = False
    small_count: bool = True  # 0 and 1 count as sizes that were met
    small_alike: bool = False  # 0 and 1 have one graph
    symbols_replace: bool = False  # a graph with a symbol takes the place of those without
    symbols_replace_alike: bool = False  # of those for its dtype and flag, but not of N = 0 and 1
    ones_become: bool = False  # a graph made for 0 or 1 has a symbol, which serves 2 and more

    def predict(self, calls: Sequence[Seen], limit: int) -> list[bool]:
        graphs: list[_Graph] = []
        met: list[Seen] = []  # that were compiled
        compiles = []
        for n, dtype, training in calls:
            found = graphs[-1:] if self.latest_only else graphs
            fits = any(self.fits(graph, n, dtype, training, limit) for graph in found)
            compiles.append(not fits)
            if not fits:
                least = 0 if self.small_count else 2
                same_kind = [(m, kind) for m, *kind in met if m >= least]
                asked = [dtype, training] if self.by_kind else [dtype] if self.by_dtype else []
                sizes = {m for m, kind in same_kind if kind[: len(asked)] == asked}
                met.append((n, dtype, training))
                varies = len(sizes - {n}) >= self.enough and (self.symbols_stay or n not in sizes)
                varies = varies or (self.second_graph and len(graphs) > 0)
                symbol = self.symbols and (varies or self.from_the_start)
                size = None if symbol and (n >= 2 or self.ones_too or self.ones_become) else n
                if symbol and self.symbols_replace:
                    graphs = [graph for graph in graphs if graph.size is None]
                if size is None and self.symbols_replace_alike:
                    graphs = [graph for graph in graphs if not graph.is_plain(dtype, training)]
                graphs.append(_Graph(size, dtype, training, self.above(n, limit)))
        return compiles

    def above(self, n: int, limit: int) -> bool:
        return n >= limit if self.limit_above else n > limit

    def fits(self, graph: _Graph, n: int, dtype: torch.dtype, training: bool, limit: int) -> bool:
        same = (graph.dtype == dtype or not self.dtypes) and (
            graph.training == training or not self.flags
        )
        if graph.size is not None:
            if self.small_alike and max(n, graph.size) < 2:
                return same
            return same and n == graph.size
        side = self.above(n, limit) == graph.above or not self.sides
        return same and side and (n >= 2 or self.ones_too)


which_calls_compile.wrong(
    "every_new_size",
    "Each new N compiles here. From the second size on Dynamo makes N a symbol, and such a graph "
    "serves every N from 2 on that lies on its side of `limit`.",
    which_calls_compile=_Rules(symbols=False).predict,
)
which_calls_compile.wrong(
    "dynamic_from_the_start",
    "The first graph is for its own N only. Dynamo makes N a symbol when it sees a second size, "
    "not before.",
    which_calls_compile=_Rules(from_the_start=True).predict,
)
which_calls_compile.wrong(
    "one_is_like_the_others",
    "Here N = 1 compiles nothing, and no graph was made for it. Sizes 0 and 1 are never symbols: "
    "a 1 broadcasts and a 0 is empty, so each has a graph of its own.",
    which_calls_compile=_Rules(ones_too=True).predict,
)
which_calls_compile.wrong(
    "branch_leaves_no_guard",
    "`if x.shape[0] > limit` was decided while tracing, so the graph holds one side only, and "
    "guards that N stays on it.",
    which_calls_compile=_Rules(sides=False).predict,
)
which_calls_compile.wrong(
    "limit_counts_as_above",
    "N = limit is on the lower side: the step asks whether N is greater than `limit`.",
    which_calls_compile=_Rules(limit_above=True).predict,
)
which_calls_compile.wrong(
    "symbol_forgotten",
    "Once a second N has come, N is a symbol in every graph that is made for an N from 2 on, also "
    "for one that was compiled before.",
    which_calls_compile=_Rules(symbols_stay=False).predict,
)
which_calls_compile.wrong(
    "small_sizes_not_counted",
    "A step that was compiled for N = 0 or 1 has met that size: the next other N is a second one, "
    "and from 2 on it becomes a symbol.",
    which_calls_compile=_Rules(small_count=False).predict,
)
which_calls_compile.wrong(
    "nought_and_one_share",
    "N = 0 and N = 1 have a graph each: neither is a symbol, so each is guarded as a number.",
    which_calls_compile=_Rules(small_alike=True).predict,
)
which_calls_compile.wrong(
    "sizes_by_kind",
    "The sizes that were met count for the whole step, and not for each dtype and each `training` "
    "apart: a second N makes a symbol there too.",
    which_calls_compile=_Rules(by_kind=True).predict,
)
which_calls_compile.wrong(
    "dtype_not_guarded",
    "Another dtype was served by the same graph. The operators in it were chosen for one dtype, "
    "which is guarded.",
    which_calls_compile=_Rules(dtypes=False).predict,
)
which_calls_compile.wrong(
    "flag_not_guarded",
    "`training` is a Python bool: its branch was taken while tracing, and the graph guards it.",
    which_calls_compile=_Rules(flags=False).predict,
)
which_calls_compile.wrong(
    "only_the_latest",
    "An older graph would have fitted. Dynamo keeps all graphs of a function, up to a limit, and "
    "tries their guards one after the other.",
    which_calls_compile=_Rules(latest_only=True).predict,
)
which_calls_compile.wrong(
    "turned_round",
    "True and False are the wrong way round: True stands for a call that compiles.",
    which_calls_compile=lambda calls, limit: [not compiles for compiles in _torchs(calls, limit)],
)


which_calls_compile.wrong(
    "symbols_replace_numbers",
    "Here an older graph, with a plain N, serves no longer once N is a symbol. It stays, and "
    "serves its own N: Dynamo keeps all graphs of a function.",
    which_calls_compile=_Rules(symbols_replace=True).predict,
)
which_calls_compile.wrong(
    "symbols_replace_numbers_alike",
    "Here an older graph, with a plain N, serves no longer once N is a symbol. It stays, and "
    "serves its own N: Dynamo keeps all graphs of a function.",
    which_calls_compile=_Rules(symbols_replace_alike=True).predict,
)
which_calls_compile.wrong(
    "limit_of_the_example",
    "This would be right for a limit of 5, that of the example. The limit is the second argument.",
    which_calls_compile=lambda calls, limit: _Rules().predict(calls, 5),
)
which_calls_compile.wrong(
    "symbol_made_for_one",
    "Here a graph that was compiled for N = 0 or 1 serves another N. 0 and 1 never become a "
    "symbol: such a graph serves its own N alone.",
    which_calls_compile=_Rules(ones_become=True).predict,
)


which_calls_compile.wrong(
    "third_size",
    "N became a symbol with the third size. The second one is enough.",
    which_calls_compile=_Rules(enough=2).predict,
)
which_calls_compile.wrong(
    "sizes_by_dtype",
    "The sizes that were met count for the whole step, and not for each dtype apart: a second N "
    "makes a symbol there too.",
    which_calls_compile=_Rules(by_dtype=True).predict,
)
which_calls_compile.wrong(
    "second_graph_has_a_symbol",
    "Here a graph serves another N, and no second N had come when it was made: another dtype or "
    "flag is none. Only a second N makes N a symbol.",
    which_calls_compile=_Rules(second_graph=True).predict,
)
which_calls_compile.wrong(
    "unlike_the_call_before",
    "Here a call compiles when its N is not the one before. Older graphs are kept, and a graph "
    "with a symbol serves other N.",
    which_calls_compile=lambda calls, limit: [
        k == 0 or calls[k - 1] != call for k, call in enumerate(calls)
    ],
)
which_calls_compile.wrong(
    "numbers_for_bools",
    "These are 0 and 1. True or False is asked for each call.",
    which_calls_compile=lambda calls, limit: [*map(int, _torchs(calls, limit))],
)
which_calls_compile.wrong(
    "how_many",
    "This is how many calls compile. True or False is asked for each call.",
    which_calls_compile=lambda calls, limit: sum(_torchs(calls, limit)),
)
which_calls_compile.wrong(
    "their_places",
    "These are the places of the calls that compile. True or False is asked for each call.",
    which_calls_compile=lambda calls, limit: [
        k for k, compiles in enumerate(_torchs(calls, limit)) if compiles
    ],
)


@which_calls_compile.cost
def _(student: Student, draw: Draw) -> str:
    calls: list[Any] = [(n, torch.float32, True) for n in (2, 2, 3, 4, 5, 1)]
    compiles = sum(student.call("which_calls_compile", calls, 9))
    return f"{compiles} compiles for {len(calls)} calls with 5 sizes; one for each size would be 5"
