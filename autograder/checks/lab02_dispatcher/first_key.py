"""Whose turn it is: the highest key of a call."""

from __future__ import annotations

import itertools
from typing import Any

import torch

import onelayer
from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, some
from onelayer.dispatcher.dispatch import in_order

from . import lab
from .keys import C, Names

Call = tuple[Names, list[Names], Names, Names, Names]
_NOTHING_LEFT = dict.fromkeys(
    ("StopIteration", "IndexError", "ValueError"),
    "No key is left in this call. The answer to that is None, not an error.",
)
KEYS = ("AutocastCPU", "AutogradCPU", "ADInplaceOrView", "Negative", "SparseCPU", "CPU")


@lab.question(
    "first_key",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "Which keys are in the call at all? Only then ask which of them is the highest.",
        "Union of all the tensors' keys and the thread's, minus the excluded ones, minus the "
        "fallthroughs. Walk down `priority` until you meet one that is left.",
        "next((key for key in priority if key in keys), None)",
    ),
)
def first_key(student: Student, draw: Draw) -> None:
    """The key whose kernel a call runs first, or None where no key is left.

    priority (all keys, highest first), carried (one list per tensor), included, excluded,
    fallthrough -> a key or None.
    """
    x, sparse = list(onelayer.key_set(torch.ones(2))), list(_keys_of_a_sparse_one())
    order = list(in_order(KEYS))
    always: list[Call] = [
        (order, [x, x], [], ["AutocastCPU"], ["ADInplaceOrView"]),
        (order, [x, x], [], ["AutocastCPU", "AutogradCPU"], ["ADInplaceOrView"]),
        (order, [["CPU", "Negative"]], [], [], []),
        (order, [["CPU", "Negative"], ["CPU"], ["CPU", "SparseCPU"]], [], [], []),
        (order, [["AutogradCPU"], ["CPU"]], [], ["AutogradCPU"], []),  # nothing of the first's
        (order, [["CPU"], ["CPU", "SparseCPU"]], [], [], []),
        (order, [["CPU", "AutogradCPU"], ["CPU"], ["SparseCPU"]], [], [], []),  # nor is the last
        (order, [["AutogradCPU"]], ["CPU"], ["AutogradCPU"], []),
        (order, [["CPU"]], ["Negative"], [], []),
        (order, [["CPU"]], ["ADInplaceOrView"], ["ADInplaceOrView"], []),
        (order, [x, sparse], ["ADInplaceOrView"], ["AutocastCPU", "AutogradCPU"], []),
        (order, [["AutogradCPU"]], [], ["AutogradCPU"], []),
        (order, [x], [], ["AutocastCPU"], ["AutogradCPU", "ADInplaceOrView"]),  # two in a row
        (order, [["ADInplaceOrView"]], [], [], ["ADInplaceOrView"]),  # and nothing behind it
        (order, [["AutogradCPU", "CPU"]], [], ["AutogradCPU"], ["AutogradCPU"]),  # out twice
        (order, [["CPU"], ["CPU"], ["SparseCPU", "CPU"]], [], [], []),
    ]
    always += [_drawn_call(draw) for _ in draw.cases(8)] + some(_every_pair(order), 200)
    calls = [(call, _first_by_torch(*call)) for call in always] + _other_orders()
    answers = student.each("first_key", [call for call, _ in calls])
    for call, first in calls:
        with explaining(_NOTHING_LEFT if first is None else {}):
            got = next(answers)
            expect_equal(got, first, why=_because(got, first, *call))


def _every_pair(order: Names) -> list[Call]:
    """Two keys, each brought by nobody, by the first or the last tensor or by the thread, and each
    excluded, a fallthrough, both or neither; below them one that stays."""
    states = list(itertools.product(("", "first", "last", "thread"), (False, True), (False, True)))
    calls: list[Call] = []
    for pair in itertools.product(states, states):
        which = dict(zip(("Negative", "ADInplaceOrView"), pair, strict=True))
        first, last, thread = (
            [key for key, (by, _, _) in which.items() if by == who]
            for who in ("first", "last", "thread")
        )
        excluded, passed = ([key for key, s in which.items() if s[k]] for k in (1, 2))
        for stays in ([], ["CPU"]):
            calls.append((order, [first, stays, [], last], thread, excluded, passed))
    many = ["SparseCPU", "Negative", "ADInplaceOrView", "AutogradCPU", "AutocastCPU"]
    for k in range(len(many) + 1):
        calls.append((order, [], ["CPU", *many], many[:k], many[k:]))
        calls.append((order, [many, ["CPU"], many], many, many[k:], many[:k]))
        calls += [(order, [["CPU"]] * k + [[key], ["CPU"]], [], [], []) for key in many]
    return calls


def _other_orders() -> list[tuple[Call, str | None]]:
    """`priority` alone says who is higher: here it has another order, or other names."""
    return [
        ((list(names), [list(brought)], [], [], []), names[min(map(names.index, brought))])
        for names in (KEYS, KEYS[::-1], tuple(sorted(KEYS)), ("Trace", "Ban", "CPU"))
        for brought in itertools.permutations(names, 2)
    ]


def _because(
    got: Any,
    first: str | None,
    priority: Names,
    carried: list[Names],
    included: Names,
    excluded: Names,
    fallthrough: Names,
) -> str:
    """Why it is not this key's turn; "" for what is no key."""
    if got is None:
        return f"{first} is left: it was brought, and it is neither excluded nor a fallthrough."
    if not isinstance(got, str):
        return "One key is asked for: its name, or None."
    if got not in priority:
        return ""
    if got not in itertools.chain(*carried, included):
        return f"Neither a tensor nor the thread has brought {got}."
    if got in excluded:
        return f"{got} is excluded, so it is out, whoever has brought it."
    if got in fallthrough:
        return f"The entry of {got} is a fallthrough: it has no kernel that could run."
    return f"{first} is left as well, and `priority` has it before {got}."


def _keys_of_a_sparse_one() -> tuple[str, ...]:
    return onelayer.key_set(torch.empty(2, layout=torch.sparse_coo))


def _drawn_call(draw: Draw) -> Call:
    def some(chance: int) -> Names:
        return [key for key in draw.shuffled(KEYS) if draw.integer(1, chance) == 1]

    carried = [some(2) for _ in range(draw.integer(1, 3))]
    return list(in_order(KEYS)), carried, some(4), some(3), some(4)


def _first_by_torch(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    """As the dispatcher does it: sets of bits, and the highest bit that is left."""
    keys = C.DispatchKeySet.from_raw_repr(0)
    for key in itertools.chain(*carried, included):
        keys = keys | C.DispatchKeySet(C._dispatch_key_parse(key))
    for key in (*excluded, *fallthrough):
        keys = keys.remove(C._dispatch_key_parse(key))
    name = str(C._dispatch_key_name(keys.highestPriorityTypeId()))
    return None if name == "Undefined" else name


def _highest(priority: Names, keys: set[str]) -> str | None:
    return next((key for key in priority if key in keys), None)


@first_key.wrong(
    "lowest_first",
    "This is the lowest key of the call. Autograd must come before the backend, so the highest is "
    "asked first.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = set(included).union(*carried) - {*excluded, *fallthrough}
    return _highest(priority[::-1], keys)


@first_key.wrong(
    "by_another_order",
    "This key came first in another order, the lists' own or the alphabet's. Who is higher is said "
    "by `priority` alone.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return min(set(included).union(*carried) - {*excluded, *fallthrough}, default=None)


@first_key.wrong(
    "first_tensor_only",
    "Only the first tensor was asked for its keys. One sparse or lazy argument changes the call.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = {*included, *carried[0]} - {*excluded, *fallthrough}
    return _highest(priority, keys)


@first_key.wrong(
    "included_forgotten",
    "The thread's own keys are missing: modes work because they add keys that no tensor carries.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return _highest(priority, set().union(*carried) - {*excluded, *fallthrough})


@first_key.wrong(
    "excluded_comes_back",
    "A key that the thread both includes and excludes is out: exclusion comes last.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = (set().union(*carried) - set(excluded)) | set(included)
    return _highest(priority, keys - set(fallthrough))


@first_key.wrong(
    "fallthrough_called",
    "This key's entry is a fallthrough: there is no kernel in it, and the next key is asked.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return _highest(priority, set(included).union(*carried) - set(excluded))


@first_key.wrong(
    "fallthrough_ends_it",
    "A fallthrough does not end the search: it says that this key has nothing to do here, and the "
    "next lower key is asked.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    first = _highest(priority, set(included).union(*carried) - set(excluded))
    return None if first in fallthrough else first


@first_key.wrong(
    "excluded_ignored",
    "An excluded key was asked. Autocast is off because its keys are excluded, not because "
    "tensors do not carry them.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return _highest(priority, set(included).union(*carried) - set(fallthrough))


@first_key.wrong(
    "keys_of_all_tensors",
    "Only keys that every tensor carries were asked. One tensor is enough: the lists are joined.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    shared = set(carried[0]).intersection(*carried)
    return _highest(priority, (shared | set(included)) - {*excluded, *fallthrough})


@first_key.wrong(
    "last_tensor_only",
    "Only the last tensor was asked for its keys. One sparse or lazy argument changes the call.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return _highest(priority, {*included, *carried[-1]} - {*excluded, *fallthrough})


@first_key.wrong(
    "one_fallthrough_only",
    "The key behind a fallthrough was asked, and its entry is one too. Go on until there is a "
    "kernel.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    left = [key for key in priority if key in set(included).union(*carried) - set(excluded)]
    return next(iter(left[1:] if left and left[0] in fallthrough else left), None)


@first_key.wrong(
    "all_keys_left",
    "These are all the keys that are left. The one that is asked first was asked for.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> list[str]:
    keys = set(included).union(*carried) - {*excluded, *fallthrough}
    return [key for key in priority if key in keys]


@first_key.wrong(
    "no_key_is_empty",
    "Where no key is left the answer is None, and not an empty text.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str:
    keys = set(included).union(*carried) - {*excluded, *fallthrough}
    return _highest(priority, keys) or ""


@first_key.wrong(
    "first_in_the_lists",
    "This key came first in the tensors' lists, which have no order of their own. Walk down "
    "`priority`.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    brought = [key for keys in (*carried, included) for key in keys]
    left = (key for key in brought if key not in excluded and key not in fallthrough)
    return next(left, None)


@first_key.wrong(
    "next_without_a_default",
    "No key is left in this call, and `next` raises there. The answer is None: next(..., None).",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = set(included).union(*carried) - {*excluded, *fallthrough}
    return next(key for key in priority if key in keys)


@first_key.wrong(
    "first_of_an_empty_list",
    "No key is left in this call, and an empty list has no first element. The answer is None.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = set(included).union(*carried) - {*excluded, *fallthrough}
    left = [key for key in priority if key in keys]
    return left[0]


@first_key.wrong(
    "least_of_nothing",
    "No key is left in this call, and `min` of nothing raises. The answer is None: min(..., "
    "default=None).",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = set(included).union(*carried) - {*excluded, *fallthrough}
    return min(keys, key=priority.index)


@first_key.wrong(
    "excluded_from_the_thread_only",
    "A key that the thread excludes is out whoever brought it, a tensor too.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = set(included) - set(excluded)
    return _highest(priority, keys.union(*carried) - set(fallthrough))


@first_key.wrong(
    "removed_once",
    "Two tensors have brought this key, and one entry of it was taken away, as list.remove does. "
    "Collect the keys in a set.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = [key for keys in (*carried, included) for key in keys]
    for key in (*excluded, *fallthrough):
        if key in keys:
            keys.remove(key)
    return _highest(priority, set(keys))


@first_key.wrong(
    "fallthrough_for_want_of_another",
    "Only fallthroughs are left here, so no kernel is: the answer is None.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = set(included).union(*carried) - set(excluded)
    return _highest(priority, keys - set(fallthrough)) or _highest(priority, keys)


@first_key.wrong(
    "any_key_of_priority",
    "This key is in `priority`, but nobody brought it: only the keys of the tensors and of the "
    "thread are in the call.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return _highest(priority, set(priority) - {*excluded, *fallthrough})


@first_key.wrong(
    "one_for_each_tensor",
    "This is a key for each tensor. A call has one set, that of all its tensors together.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> list[str | None]:
    out = {*excluded, *fallthrough}
    return [_highest(priority, {*keys, *included} - out) for keys in carried]


@first_key.wrong(
    "place_in_priority",
    "This is the key's place in `priority`. Its name was asked for.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> int | None:
    keys = set(included).union(*carried) - {*excluded, *fallthrough}
    return next((k for k, key in enumerate(priority) if key in keys), None)


@first_key.wrong(
    "included_grew",
    "The list `included` is the caller's, and your function changed it, as `+=` does. Begin with "
    "a set of your own: set(included).",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    for keys in carried:
        included += keys
    return _highest(priority, set(included) - {*excluded, *fallthrough})


@first_key.cost
def _(student: Student, draw: Draw) -> str:
    x = list(onelayer.key_set(torch.ones(2)))
    order, off = list(in_order(KEYS)), ["AutocastCPU"]
    first = student.call("first_key", order, [x, x], [], off, ["ADInplaceOrView"])
    return f"{first} is found by a few ors and ands and two counts of leading zeros, on every call"
