"""The detective case: three kernels that look right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.checks.cpp_admission import expect_admitted
from autograder.judge import (
    LAYOUTS,
    Draw,
    KnownAnswer,
    Student,
    Wrong,
    clean_room,
    describe,
    expect_close,
    expect_equal,
    expect_kind,
    expect_tuple,
    within,
)

from . import harness, lab
from .bench import BUILD_S, explained, needs_compiler
from .faults import SENTENCES as FAULTS
from .heads import head, without_the_rest
from .suspects import edited

KINDS = {"Ada": "out_of_bounds", "Bo": "race", "Cy": "divergent_barrier"}
Found = tuple[str, Tensor]

_STILL = {kind: f"With your edits there is a fault. {means}" for kind, means in FAULTS.items()}
_RAISED = {
    **_STILL,
    "ValueError": "An edit is a line as it stands in the suspect, once, and what to put there: at "
    "most four of them, each of at most 100 characters.",
    "KeyError": 'There are three suspects: "Ada", "Bo" and "Cy".',
    "CompileError": "With your edits it does not compile any more.",
}


@lab.question(
    "repair",
    points=6,
    minutes=16,
    difficulty=4,
    hints=(
        "Run each with N = 19, V = 600, D = 64, and read what is reported: the line, the block, "
        "the thread. What does it do there, and what do the others of its block?",
        "Ada's mask lets n = N and v = V through. Bo's threads begin the next tile while others "
        "still read this one. Cy's threads beyond the edge leave before the barrier: let them "
        "stay, mask their load of x, and mask the store.",
        '"Ada": ("out_of_bounds", [("n > N || v > V", "n >= N || v >= V")])',
    ),
    function="repaired",
    budget_s=2 * BUILD_S,
    simulated=True,
)
def repair(student: Student, draw: Draw) -> None:
    """Detective case: name the fault of each of three CUDA kernels, and repair it with few edits.

    "Ada", "Bo" or "Cy" -> (kind of fault, list of (line as it stands, what to put there)).
    """
    needs_compiler()
    with clean_room(student, harness) as room:
        with explained(_RAISED):
            room.value_of("take", "repair", _edited(student))
        _expect_repaired(room, draw)


def _edited(student: Student) -> dict[str, tuple[str, str]]:
    """Of each suspect, the kind of fault that is named and the text as it was edited."""
    found = {}
    for suspect in KINDS:
        answer = student.value_of("repair", suspect)
        if isinstance(student, KnownAnswer):
            continue  # which models what its edits do
        kind, edits = expect_tuple(answer, 2, "the kind of fault, and edits")
        found[suspect] = expect_kind(kind, str, "the kind of fault"), _text(suspect, edits)
        expect_admitted(student, found[suspect][1])
    return found


def _text(suspect: str, edits: Any) -> str:
    pairs = [expect_tuple(pair, 2, "edits") for pair in expect_tuple(edits, None, "edits")]
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise Wrong(expected="pairs of text", got=describe(edits), why=_RAISED["ValueError"])
    try:
        return edited(suspect, [(line, instead) for line, instead in pairs])
    except ValueError as none:
        got = f"ValueError: {none}"
        raise Wrong(expected="a value", got=got, why=_RAISED["ValueError"]) from None


def _expect_repaired(room: Student, draw: Draw) -> None:
    for suspect, kind in KINDS.items():
        for n in draw.sizes(19, 1, 0, high=40):
            v, d = 16 * draw.integer(1, 3) + draw.integer(1, 9), draw.integer(33, 60)
            x = draw.tensor(n, d, layout=draw.choice(LAYOUTS))
            w, b = draw.tensor(v, d), draw.tensor(v)
            with explained(_RAISED):
                got = room.call("repaired", "repair", suspect, x, w, b)
            _expect_found(got, kind, suspect, head(x, w, b))


_NOT_THE_HEAD = (
    "Your edits leave no fault in this call, and y is not the head's. y[n, v] is b[v] and D "
    "products, for each n below N and each v below V; threads that have no such element bring "
    "their places of the tiles all the same."
)


def _expect_found(got: Any, kind: str, suspect: str, want: Tensor) -> None:
    found, y = expect_tuple(got, 2, "the kind of fault, and y")
    with within("", why=_NOT_THE_HEAD):
        expect_close(y, want)
    why = f"Here the repair works, and the fault has another name. {FAULTS[kind]}"
    with within(f"of {suspect}'s kernel", why=why):
        expect_equal(found, kind)


def _finding(
    kinds: dict[str, str] | None = None, left: str = "", cut: bool = False
) -> Callable[..., Found]:
    """Names these kinds; leaves the fault `left` in; with `cut`, Ada's edge is never computed."""
    named = KINDS | (kinds or {})

    def repaired(name: str, suspect: str, x: Tensor, w: Tensor, b: Tensor) -> Found:
        if left == KINDS[suspect]:
            raise RuntimeError(f"{left}: still there")
        y = head(x, w, b)
        return named[suspect], without_the_rest(y, len(x) - 1, len(w) - 1) if cut else y

    return repaired


_WRONG = {
    "mask_left": (
        f"Ada's kernel still goes out of bounds. {FAULTS['out_of_bounds']}",
        _finding(left="out_of_bounds"),
    ),
    "barrier_left_out": (
        f"Bo's kernel still has a race. {FAULTS['race']}",
        _finding(left="race"),
    ),
    "return_left": (
        f"Cy's kernel still has a divergent barrier. {FAULTS['divergent_barrier']}",
        _finding(left="divergent_barrier"),
    ),
    "mask_too_narrow": (
        "Now the last token and the last word are never computed: n = N - 1 and v = V - 1 still "
        "lie inside.",
        _finding(cut=True),
    ),
    "race_for_divergence": (
        "Bo's barrier is reached by all: what is missing is a second one. Two threads that meet in "
        "memory without a barrier between them are a race.",
        _finding({"Bo": "divergent_barrier"}),
    ),
    "race_for_unwritten": (
        "Bo's tiles are whole before anybody reads them. They are overwritten while others still "
        "read: a race.",
        _finding({"Bo": "unwritten_shared"}),
    ),
    "divergence_for_race": (
        "Cy has both barriers. Not all of the block's threads reach them: the barrier diverges.",
        _finding({"Cy": "race"}),
    ),
    "divergence_for_bounds": (
        "Cy's threads touch nothing that is not theirs. They leave while others wait for them.",
        _finding({"Cy": "out_of_bounds"}),
    ),
}
for _key, (_sentence, _answer) in _WRONG.items():
    repair.wrong(_key, _sentence, repaired=_answer)


@repair.cost
def _(student: Student, draw: Draw) -> str:
    x, w, b = draw.tensor(19, 64), draw.tensor(600, 64), torch.zeros(600)
    with clean_room(student, harness) as room:
        room.value_of("take", "repair", _edited(student))
        found = [room.call("repaired", "repair", suspect, x, w, b)[1] for suspect in KINDS]
    right = sum(int(y.isfinite().sum()) for y in found)
    return f"3 kernels, {right:,} logits, and not a fault left"
