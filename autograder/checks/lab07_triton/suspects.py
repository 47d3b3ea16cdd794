"""The kernels of the detective case: like the five of the page, and drawn.

A kernel is drawn from a right one: lines that may change places do, every name is drawn anew, a
comment moves the numbers of the lines, and one fragment of one line is made wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from autograder.judge import Draw

from .kernels import Case, blocks, output

CasesOf = Callable[[Draw], list[Case]]


@dataclass(frozen=True)
class Flaw:
    """One line made wrong. kind: the rule that it breaks, "" for none; right, wrong: the
    fragment."""

    kind: str
    right: str
    wrong: str


NONE = Flaw("", "", "")


@dataclass(frozen=True)
class Plan:
    """A right kernel. Neighbours that may change places are one group of lines; `cases` are
    launches in which each flaw shows."""

    groups: tuple[tuple[str, ...], ...]
    flaws: tuple[Flaw, ...]
    cases: CasesOf


@dataclass(frozen=True, eq=False)
class Suspect:
    """A kernel with one wrong line: its text, the number of that line (from 1), the rule that the
    line breaks ("" and 0 of a kernel that is right), and launches with what each must store."""

    source: str
    line: int
    kind: str
    cases: list[Case]

    def with_line(self, number: int, line: str) -> str:
        """The text with that line instead, indented as the one before."""
        lines = self.source.splitlines()
        before = lines[number - 1]
        lines[number - 1] = before[: len(before) - len(before.lstrip())] + line.strip()
        return "\n".join(lines)


@lru_cache(maxsize=4)
def drawn(seed: int, rounds: int) -> tuple[Suspect, ...]:
    """Each flaw of each plan, and each plan as it should be, in a fresh order and under fresh
    names. Kept: a diagnosis asks for those of a seed again, once for each known mistake."""
    draw = Draw(seed, rounds=rounds)
    flaws = draw.shuffled([(plan, flaw) for plan in PLANS for flaw in (*plan.flaws, NONE)])
    return tuple(_suspect(draw, plan, flaw) for plan, flaw in flaws)


def _suspect(draw: Draw, plan: Plan, flaw: Flaw) -> Suspect:
    lines = [line for group in plan.groups for line in draw.shuffled(group)]
    place = next(n for n, line in enumerate(lines) if flaw.right in line)
    lines[place] = lines[place].replace(flaw.right, flaw.wrong)
    names = _names(draw, lines)
    lines = [_renamed(line, names) for line in lines]
    above = draw.integer(1, len(lines) - 1)
    indent = " " * (len(lines[above]) - len(lines[above].lstrip()))
    said = draw.choice(_COMMENTS) if flaw.kind != "meet" else _COMMENTS[-1]  # a store that is none
    lines.insert(above, f"{indent}# {said}")
    source = "\n".join(lines) + "\n"
    cases = [_case_renamed(case, names) for case in plan.cases(draw)]
    line = place + 1 + (place >= above) if flaw.kind else 0
    return Suspect(source, line, flaw.kind, cases)


_COMMENTS = (
    "which part is mine", "where is it", "one program of many", "compute", "the block",
    "was: tl.store(old_ptr + at, part, mask=at < many)",  # names that no kernel gets
)  # fmt: skip
_POOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"[a-z]+_ptr", ("x_ptr", "a_ptr", "u_ptr", "z_ptr", "in_ptr", "out_ptr", "y_ptr", "p_ptr",
                     "given_ptr", "made_ptr", "left_ptr", "g_ptr")),
    (r"[A-Z]{2,}", ("ROWS", "WORDS", "FEATURES", "BLOCK", "TILE", "WIDTH", "HEIGHT", "STEP",
                    "LANES", "PART", "SPAN", "CHUNK")),
    (r"[A-Z]", ("N", "V", "D", "M", "K", "L", "C", "T", "H", "R", "S", "B")),
    (r"[a-z][a-z_]*", ("i", "j", "k", "n", "v", "d", "m", "r", "c", "q", "s", "t", "x", "y", "z",
                       "u", "w", "e", "g", "h", "row", "word", "lane", "place", "begin", "found",
                       "so_far", "partial", "block", "value", "near", "far", "some", "logits",
                       "kept", "share", "item", "cell", "token", "feature")),
)  # fmt: skip
"""A name of a plan takes another one from the first pool whose pattern it has."""
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*")


def _names(draw: Draw, lines: list[str]) -> dict[str, str]:
    """Of each name of these lines its new one, no two alike."""
    own = re.findall(r"def (\w+)", lines[0]) + re.findall(r"(\w+)(?:, |\)|: )", lines[0])
    own += [m[1] for line in lines[1:] if (m := re.match(r"\s+(?:for )?(\w+) (?:\+?=|in) ", line))]
    own = list(dict.fromkeys(name for name in own if name != "constexpr"))
    fresh = {pattern: iter(draw.shuffled(pool)) for pattern, pool in _POOLS}
    return {name: next(fresh[next(p for p, _ in _POOLS if re.fullmatch(p, name))]) for name in own}


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found[0], found[0]), text)


def _case_renamed(case: Case, names: Mapping[str, str]) -> Case:
    given = {names[name]: value for name, value in case.given.items()}
    return replace(case, given=given, want={names[k]: want for k, want in case.want.items()})


def _maximum(draw: Draw) -> list[Case]:
    """Numbers below 0, and V no power of two."""
    return [_row_case(draw, n, v, shift) for n, v, shift in ((3, 21, -9.0), (2, 33, 5.0))]


def _minimum(draw: Draw) -> list[Case]:
    return [_row_case(draw, n, v, shift, -1) for n, v, shift in ((2, 19, 9.0), (3, 40, -5.0))]


def _row_case(draw: Draw, n: int, v: int, shift: float, sign: int = 1) -> Case:
    """The largest of each row, or for sign = -1 the smallest."""
    x = draw.tensor(n, v) + shift
    given = {"x_ptr": x, "top_ptr": output(draw, n), "V": v, "x_n": v, "BLOCK": 64}
    return Case((n,), given, {"top_ptr": sign * (sign * x).amax(1)})


def _product(draw: Draw) -> list[Case]:
    tiles = draw.choice(((8, 16), (16, 4), (4, 32), (16, 8)))
    return [_product_case(draw, n, d, tiles) for n, d in ((5, 21), (19, 41))]


def _product_case(draw: Draw, n: int, d: int, tiles: tuple[int, int]) -> Case:
    x, u = draw.tensor(n, d), draw.tensor(d)
    given = {"x_ptr": x, "u_ptr": u, "y_ptr": output(draw, n), "N": n, "D": d,
             "ROWS": tiles[0], "WIDTH": tiles[1]}  # fmt: skip
    return Case((blocks(n, tiles[0]),), given, {"y_ptr": (x.double() @ u.double()).float()})


def _bias(draw: Draw) -> list[Case]:
    tiles = draw.choice(((8, 32), (16, 8), (4, 16)))
    return [_bias_case(draw, n, v, tiles) for n, v in ((9, 70), (19, 33))]


def _bias_case(draw: Draw, n: int, v: int, tiles: tuple[int, int]) -> Case:
    z, b = draw.tensor(n, v), draw.tensor(v)
    given = {"z_ptr": z, "b_ptr": b, "y_ptr": output(draw, n, v), "N": n, "V": v,
             "ROWS": tiles[0], "WORDS": tiles[1]}  # fmt: skip
    return Case((blocks(n, tiles[0]), blocks(v, tiles[1])), given, {"y_ptr": z + b})


def _lse(draw: Draw) -> list[Case]:
    """The last: a first tile that is higher, and so little that nothing overflows. There a maximum
    that each tile forgets does no harm, and one that does not go with its sum does."""
    cases = [_lse_case(draw, n, v, 130) for n, v in ((4, 75), (3, 100))]
    return [*cases, _lse_case(draw, 2, 11, -130), _lse_case(draw, 3, 40, 9)]


def _lse_case(draw: Draw, n: int, v: int, first: float) -> Case:
    z = draw.tensor(n, v)
    z[:, :16] += first
    given = {"z_ptr": z, "lse_ptr": output(draw, n), "V": v, "WORDS": 16}
    return Case((n,), given, {"lse_ptr": z.double().logsumexp(1).float()})


def _sums(draw: Draw) -> list[Case]:
    return [_sum_case(draw, n, v) for n, v in ((5, 21), (18, 30))]


def _sum_case(draw: Draw, n: int, v: int) -> Case:
    z = draw.tensor(n, v)
    given = {"z_ptr": z, "sum_ptr": torch.zeros(v), "N": n, "V": v, "ROWS": 4, "BLOCK": 32}
    return Case((blocks(n, 4),), given, {"sum_ptr": z.double().sum(0).float()})


MINUS_INF, INF = 'float("-inf")', 'float("inf")'
_I = "    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)"
_STEP_I = "program_id(0) * ROWS"
_INSIDE = "    inside = (i < N)[:, None] & (j < V)[None, :]"
_J_UNMASKED = Flaw("mask", " & (j < V)[None, :]", "")

PLANS = (
    Plan(
        (
            ("def row_maximum(x_ptr, top_ptr, V, x_n, BLOCK: tl.constexpr):",),
            ("    row = tl.program_id(0)", "    j = tl.arange(0, BLOCK)"),
            (f"    x = tl.load(x_ptr + row * x_n + j, mask=j < V, other={MINUS_INF})",),
            ("    tl.store(top_ptr + row, tl.max(x, 0))",),
        ),
        (Flaw("other", MINUS_INF, "0.0"),),
        _maximum,
    ),
    Plan(
        (
            ("def row_minimum(x_ptr, top_ptr, V, x_n, BLOCK: tl.constexpr):",),
            ("    row = tl.program_id(0)", "    j = tl.arange(0, BLOCK)"),
            (f"    x = tl.load(x_ptr + row * x_n + j, mask=j < V, other={INF})",),
            ("    tl.store(top_ptr + row, tl.min(x, 0))",),
        ),
        (Flaw("other", INF, "0.0"), Flaw("other", INF, MINUS_INF)),
        _minimum,
    ),
    Plan(
        (
            ("def product(x_ptr, u_ptr, y_ptr, N, D, ROWS: tl.constexpr, WIDTH: tl.constexpr):",),
            (_I, "    y = tl.zeros((ROWS,), tl.float32)"),
            ("    for start in range(0, D, WIDTH):",),
            ("        k = start + tl.arange(0, WIDTH)",),
            (
                "        u = tl.load(u_ptr + k, mask=k < D, other=0.0)",
                "        inside = (i < N)[:, None] & (k < D)[None, :]",
            ),
            (
                "        x = tl.load(x_ptr + i[:, None] * D + k[None, :], mask=inside, other=0.0)",
            ),
            ("        y += tl.sum(x * u[None, :], 1)",),
            ("    tl.store(y_ptr + i, y, mask=i < N)",),
        ),
        (
            Flaw("mask", " & (k < D)[None, :]", ""),
            Flaw("mask", "(i < N)[:, None] & ", ""),
            Flaw("step", _STEP_I, "program_id(0) * WIDTH"),
            Flaw("step", "range(0, D, WIDTH)", "range(0, D, ROWS)"),
            Flaw("carried", "y +=", "y ="),
        ),
        _product,
    ),
    Plan(
        (
            (
                "def add_bias(z_ptr, b_ptr, y_ptr, N, V, ROWS: tl.constexpr, WORDS: tl.constexpr):",
            ),
            (_I, "    j = tl.program_id(1) * WORDS + tl.arange(0, WORDS)"),
            (
                _INSIDE,
                "    at = i[:, None] * V + j[None, :]",
                "    b = tl.load(b_ptr + j, mask=j < V, other=0.0)",
            ),
            ("    z = tl.load(z_ptr + at, mask=inside)",),
            ("    tl.store(y_ptr + at, z + b[None, :], mask=inside)",),
        ),
        (
            Flaw("step", _STEP_I, "program_id(0) * WORDS"),
            Flaw("step", "program_id(1) * WORDS", "program_id(1) * ROWS"),
            _J_UNMASKED,
        ),
        _bias,
    ),
    Plan(
        (
            ("def log_sum_exp(z_ptr, lse_ptr, V, WORDS: tl.constexpr):",),
            (
                "    row = tl.program_id(0)",
                f"    top = {MINUS_INF}",
                "    total = 0.0",
            ),
            ("    for start in range(0, V, WORDS):",),
            ("        j = start + tl.arange(0, WORDS)",),
            (f"        z = tl.load(z_ptr + row * V + j, mask=j < V, other={MINUS_INF})",),
            ("        higher = tl.maximum(top, tl.max(z, 0))",),
            ("        total = total * tl.exp(top - higher) + tl.sum(tl.exp(z - higher), 0)",),
            ("        top = higher",),
            ("    tl.store(lse_ptr + row, top + tl.log(total))",),
        ),
        (
            Flaw("carried", "tl.maximum(top, tl.max(z, 0))", "tl.max(z, 0)"),
            Flaw("other", f"other={MINUS_INF}", "other=0.0"),
        ),
        _lse,
    ),
    Plan(
        (
            (
                "def column_sums(z_ptr, sum_ptr, N, V, ROWS: tl.constexpr, BLOCK: tl.constexpr):",
            ),
            (_I, "    j = tl.arange(0, BLOCK)"),
            (_INSIDE,),
            ("    z = tl.load(z_ptr + i[:, None] * V + j[None, :], mask=inside, other=0.0)",),
            ("    part = tl.sum(z, 0)",),
            ("    tl.atomic_add(sum_ptr + j, part, mask=j < V)",),
        ),
        (
            Flaw("meet", "tl.atomic_add(", "tl.store("),
            Flaw("step", _STEP_I, "program_id(0) * BLOCK"),
            _J_UNMASKED,
        ),
        _sums,
    ),
)  # fmt: skip
