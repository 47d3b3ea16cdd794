"""Who serves a key: one cell of an operator's table."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, some
from onelayer.dispatcher.dispatch import dispatch_table

from . import lab
from .keys import EXPLICIT, IMPLICIT, C, Names

_library: Any = torch.library.Library  # untyped

REGISTRABLE = ("CPU", "SparseCPU", "AutogradCPU", "AutocastCPU", "Autograd", EXPLICIT, IMPLICIT)
CELLS = ("CPU", "SparseCPU", "AutogradCPU", "ADInplaceOrView", "AutocastCPU")
_SERVED_BY = {
    "default backend kernel": EXPLICIT,
    "math kernel": IMPLICIT,
    "autograd kernel": "Autograd",
    "backend fallback": "fallback",
}

_RAISED = dict.fromkeys(
    ("StopIteration", "IndexError"),
    "Nothing was found, and Python raised. Where no registration serves the key its fallback does, "
    "if it has one, and else the answer is None.",
)


@lab.question(
    "serves",
    points=5,
    minutes=12,
    difficulty=3,
    hints=(
        "The stub lists the names that may serve a key, best first. Which names belong there for "
        "AutogradCPU, and when does one of them not?",
        "Backend keys: own, explicit, implicit. AutogradCPU: own, implicit (only without a CPU or "
        "explicit kernel), Autograd. Others: own. Then the fallback, then None.",
        "next((name for name in candidates if name in registered), 'fallback' if key in fallbacks "
        "else None)",
    ),
)
def serves(student: Student, draw: Draw) -> None:
    """Which registration serves a key: the rule by which the dispatcher fills an operator's table.

    registered (names given at registration), key, fallbacks (keys that have one) -> a name,
    "fallback" or None.
    """
    fallbacks = [key for key in CELLS if C._dispatch_has_backend_fallback(_parse(key))]
    always: list[tuple[Names, str]] = [
        (["CPU", IMPLICIT], "CPU"),
        (["Autograd", IMPLICIT], "AutogradCPU"),
        (["CPU", "Autograd"], "AutogradCPU"),
        (["Autograd"], "AutogradCPU"),
        ([IMPLICIT, "Autograd"], "AutogradCPU"),
        ([EXPLICIT], "SparseCPU"),
        ([EXPLICIT], "AutogradCPU"),
        (["SparseCPU", IMPLICIT], "AutogradCPU"),
        (["CPU", IMPLICIT], "AutogradCPU"),
        ([EXPLICIT, IMPLICIT], "CPU"),
        ([EXPLICIT, IMPLICIT, "Autograd"], "AutogradCPU"),
        ([IMPLICIT], "ADInplaceOrView"),
        ([IMPLICIT], "AutocastCPU"),
        (["Autograd"], "ADInplaceOrView"),
        (["Autograd"], "AutocastCPU"),
        ([EXPLICIT, IMPLICIT], "AutogradCPU"),
        (["CPU", EXPLICIT], "CPU"),
        (["AutocastCPU"], "AutocastCPU"),
        (["CPU"], "SparseCPU"),
        ([], "AutogradCPU"),
    ]
    drawn = [(_registrations(draw), draw.choice(CELLS)) for _ in draw.cases(10)]
    cases = [(registered, key, fallbacks) for registered, key in always + drawn]
    others = [key for key in CELLS if key not in fallbacks]  # have one in these calls alone
    every: list[tuple[Names, str, Names]] = []
    for registered, key in itertools.product(_every_set(), CELLS):
        every += [(registered, key, fallbacks), (registered[::-1], key, [])]
        every.append((registered[::-1], key, others))
    cases += some(every, 300)
    answers = student.each("serves", cases)
    for registered, key, having in cases:
        served = _served_by_torch(registered, key)
        if served in (None, "fallback"):
            served = "fallback" if key in having else None
        with explaining(_RAISED):
            got = next(answers)
        expect_equal(got, served, why=_because(got, served, key))
    for key in ("AutogradCPU", "AutocastCPU"):  # have a fallback in torch, and none in this call
        got = student.call("serves", [], key, [])
        expect_equal(got, None, why=_because(got, None, key))
    for key in ("CPU", "SparseCPU"):  # have none in torch, and one in this call
        got = student.call("serves", [], key, [key])
        expect_equal(got, "fallback", why=_because(got, "fallback", key))


def _because(got: Any, served: str | None, key: str) -> str:
    """Which rule applies; "" for what is no such answer."""
    if not (got is None or isinstance(got, str)):
        return ""
    rules = {key: 1, EXPLICIT: 2, IMPLICIT: 3, "Autograd": 4, "fallback": 5, None: 6}
    if got in REGISTRABLE and got not in (key, *_ALIASES.get(key, ())):
        return (
            f"A registration for {got} does not serve {key}. Of the rules, the first that applies "
            f"here is rule {rules[served]}."
        )
    return f"Of the rules, the first that applies to {key} here is rule {rules[served]}."


_ALIASES = {
    "CPU": (EXPLICIT, IMPLICIT),
    "SparseCPU": (EXPLICIT, IMPLICIT),
    "AutogradCPU": (IMPLICIT, "Autograd"),
}
"""That may serve a key. The other keys have none."""


def _parse(key: str) -> Any:
    return C._dispatch_key_parse(key)


def _registrations(draw: Draw) -> Names:
    return [name for name in draw.shuffled(REGISTRABLE) if draw.integer(0, 2) == 0]


def _every_set() -> list[Names]:
    """All that may be registered together, nothing included."""
    sizes = range(len(REGISTRABLE) + 1)
    return [[*names] for n in sizes for names in itertools.combinations(REGISTRABLE, n)]


def _served_by_torch(registered: Names, key: str) -> str | None:
    entry = _tables()[frozenset(registered)].get(key)
    return None if entry is None else _SERVED_BY.get(entry.kind, key)


@cache
def _tables() -> dict[frozenset[str], dict[str, Any]]:
    """Registers an operator in each way, and reads its table."""
    library, tables = _library("onelayer_lab02", "FRAGMENT"), {}
    try:
        for place, registered in enumerate(_every_set()):
            library.define(f"probe{place}(Tensor x) -> Tensor")
            for name in registered:
                library.impl(f"probe{place}", lambda x: x, name)
            tables[frozenset(registered)] = dispatch_table(f"onelayer_lab02::probe{place}")
    finally:
        library._destroy()
    return tables


def _serves(
    registered: Names,
    key: str,
    fallbacks: Names,
    *,
    backend: tuple[str, ...] = (EXPLICIT, IMPLICIT),
    autograd: tuple[str, ...] = (IMPLICIT, "Autograd"),
    blocks: tuple[str, ...] = ("CPU", EXPLICIT),
    other: tuple[str, ...] = (),
    own_first: bool = True,
    fallback_first: bool = False,
) -> str | None:
    """The rule with its parts as arguments, so that each can be bent."""
    if key == "AutogradCPU":
        blocked = set(blocks) & set(registered)
        aliases = tuple(a for a in autograd if a != IMPLICIT or not blocked)
    else:
        aliases = backend if key in ("CPU", "SparseCPU") else other
    candidates = (key, *aliases) if own_first else (*aliases, key)
    found = next((name for name in candidates if name in registered), None)
    if fallback_first and found != key and key in fallbacks:
        return "fallback"
    return "fallback" if found is None and key in fallbacks else found


serves.wrong(
    "implicit_despite_a_kernel",
    "A kernel of one's own cannot be differentiated through parts that it does not call: with CPU "
    "or an explicit composite registered, CompositeImplicitAutograd does not serve AutogradCPU.",
    serves=lambda registered, key, fallbacks: _serves(registered, key, fallbacks, blocks=()),
)
serves.wrong(
    "explicit_does_not_block",
    "CompositeExplicitAutograd is a kernel for CPU as well: like a registration for CPU itself, it "
    "keeps CompositeImplicitAutograd out of AutogradCPU.",
    serves=lambda registered, key, fallbacks: _serves(registered, key, fallbacks, blocks=("CPU",)),
)


@serves.wrong(
    "autograd_serves_others",
    "The alias Autograd stands for autograd's keys. ADInplaceOrView and autocast's key are none of "
    "them.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, other=("Autograd",))


@serves.wrong(
    "fallback_before_aliases",
    "The fallback was taken although an alias of this operator serves AutogradCPU: rules 3 and 4 "
    "come before rule 5.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, fallback_first=True)


serves.wrong(
    "alias_before_own",
    "A registration for the key itself comes before any alias: that is how a backend replaces a "
    "composite.",
    serves=lambda registered, key, fallbacks: _serves(registered, key, fallbacks, own_first=False),
)


@serves.wrong(
    "autograd_before_implicit",
    "Where the composite may serve AutogradCPU, it comes before Autograd.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, autograd=("Autograd", IMPLICIT))


@serves.wrong(
    "implicit_before_explicit",
    "CompositeExplicitAutograd comes before CompositeImplicitAutograd.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, backend=(IMPLICIT, EXPLICIT))


@serves.wrong(
    "explicit_serves_autograd",
    "CompositeExplicitAutograd serves backends only. Explicit means: autograd needs a formula of "
    "its own.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, autograd=(EXPLICIT, IMPLICIT, "Autograd"))


@serves.wrong(
    "any_backend_blocks",
    "AutogradCPU asks for a kernel of CPU. SparseCPU's does not stop the composite here.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, blocks=("CPU", "SparseCPU", EXPLICIT))


@serves.wrong(
    "implicit_serves_everything",
    "CompositeImplicitAutograd stands for backends and autograd keys, not for ADInplaceOrView or "
    "autocast.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, other=(IMPLICIT,))


serves.wrong(
    "fallback_forgotten",
    "No registration serves this key, but the key has a fallback, which serves every operator.",
    serves=lambda registered, key, fallbacks: _serves(registered, key, []),
)


serves.wrong(
    "autograd_forgotten",
    "The alias `Autograd` serves AutogradCPU where nothing before it does.",
    serves=lambda registered, key, fallbacks: _serves(
        registered, key, fallbacks, autograd=(IMPLICIT,)
    ),
)
serves.wrong(
    "cpu_does_not_block",
    "A kernel for CPU was registered, and AutogradCPU was served by the composite all the same: a "
    "kernel of one's own has no parts to differentiate.",
    serves=lambda registered, key, fallbacks: _serves(
        registered, key, fallbacks, blocks=(EXPLICIT,)
    ),
)
serves.wrong(
    "key_in_place_of_fallback",
    'Where the fallback serves, the answer is the word "fallback", and not the key.',
    serves=lambda registered, key, fallbacks: (
        key if (found := _serves(registered, key, fallbacks)) == "fallback" else found
    ),
)


@serves.wrong(
    "fallback_of_any_key",
    "This key has no fallback. The list says which keys have one.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, [*fallbacks, key] if fallbacks else [])


serves.wrong(
    "composite_never_serves_autograd",
    "CompositeImplicitAutograd serves AutogradCPU too, where neither CPU nor the explicit "
    "composite is registered.",
    serves=lambda registered, key, fallbacks: _serves(
        registered, key, fallbacks, autograd=("Autograd",)
    ),
)


@serves.wrong(
    "autograd_only_with_a_kernel",
    "The alias `Autograd` serves AutogradCPU also where CPU has no kernel. Only the implicit "
    "composite depends on that.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    own = {"CPU", EXPLICIT} & set(registered)
    alias = "Autograd" if own else IMPLICIT
    return _serves(registered, key, fallbacks, autograd=(alias,))


@serves.wrong(
    "autograd_only_without_a_kernel",
    "With a kernel for CPU or the explicit composite, AutogradCPU is not left empty: `Autograd` "
    "serves it.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    own = {"CPU", EXPLICIT} & set(registered)
    aliases = () if own else (IMPLICIT, "Autograd")
    return _serves(registered, key, fallbacks, autograd=aliases)


serves.wrong(
    "fallback_of_autograd_only",
    "Not only AutogradCPU can have a fallback: any key of the list has one.",
    serves=lambda registered, key, fallbacks: _serves(
        registered, key, fallbacks if key == "AutogradCPU" else []
    ),
)
serves.wrong(
    "no_fallback_of_backends",
    "A backend key may have a fallback as well: here it is in the list.",
    serves=lambda registered, key, fallbacks: _serves(
        registered, key, [] if key in ("CPU", "SparseCPU") else fallbacks
    ),
)


@serves.wrong(
    "order_of_registration",
    "The registration that came first was taken. Their order says nothing: the rules do.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    own = {"CPU", EXPLICIT} & set(registered)
    backend = (EXPLICIT, IMPLICIT) if key in ("CPU", "SparseCPU") else ()
    aliases: tuple[str, ...] = backend
    if key == "AutogradCPU":
        aliases = ("Autograd",) if own else (IMPLICIT, "Autograd")
    found = next((name for name in registered if name in (key, *aliases)), None)
    return "fallback" if found is None and key in fallbacks else found


serves.wrong(
    "stub_as_it_was",
    "This is what the stub knows, rule 1 and the backends. AutogradCPU and the fallback are "
    "missing.",
    serves=lambda registered, key, fallbacks: _serves(registered, key, [], autograd=()),
)


serves.wrong(
    "word_none",
    'This is the text "None". The answer is None itself.',
    serves=lambda registered, key, fallbacks: _serves(registered, key, fallbacks) or "None",
)


@serves.cost
def _(student: Student, draw: Draw) -> str:
    one = student.call("serves", [IMPLICIT], "CPU", [])
    cells = [entry for entry in dispatch_table("aten::linear").values() if entry.composite]
    return f"one registration of {one} fills {len(cells)} cells of the table of aten::linear"
