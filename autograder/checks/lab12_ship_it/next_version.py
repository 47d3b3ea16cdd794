"""What a change to operators' schemas is to their callers, and the version that says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_equal, expect_tuple, within

from . import lab
from .schemas import (
    BREAK,
    CHANGES,
    FEATURE,
    PAIRS,
    PATCH,
    RETURNS,
    Argument,
    Reading,
    Schema,
    decisive,
    drawn_schema,
    effect,
)

Schemas = list[Schema]
Case = tuple[str, Schemas, Schemas]
Answer = tuple[str, list[str]]
_RAISED = {
    "IndexError": "Two lists of operators, or of arguments, need not be as long as each other, "
    "nor in one order, and may be empty. Find each operator by its name, with its "
    "overload, and each argument by its own.",
    "KeyError": "An operator or an argument may be gone in the new version, or new in it.",
}


@lab.question(
    "next_version",
    points=5,
    minutes=13,
    difficulty=4,
    hints=(
        "Whose code is it that breaks? Take one caller with positional arguments and one with "
        "keywords: which of the old calls still run, and mean the same?",
        "Compare operator by operator (name and overload), then argument by argument under its "
        "name. Everything that is neither gone, changed nor in the way is a feature or a fix.",
        "schema = torch._C.parse_schema(text); a = schema.arguments[0]; a.name, str(a.type), "
        "a.kwarg_only, a.has_default_value(), a.default_value, a.alias_info",
    ),
)
def next_version(student: Student, draw: Draw) -> None:
    """The next version of a library of operators, and the operators whose callers break.

    version: as "1.4.2"; old, new: lists of schemas as texts -> (the next version, list of names).
    """
    for version, old, new in _cases(draw):
        with explaining(_RAISED):
            got = student.call("next_version", version, [*map(str, old)], [*map(str, new)])
        _expect(got, judged((version, old, new), Reading()), (version, old, new))


def _expect(got: Any, want: Answer, case: Case) -> None:
    came, broken = expect_tuple(got, 2, "(the next version, a list of names)")
    names = list(expect_tuple(broken, None, "a list of names"))
    with within(_difference(*case[1:])):
        if any(not isinstance(name, str) for name in names) or sorted(names) != want[1]:
            why = _why_these(names, want[1], case)
            raise Wrong(expected=f"{want[1]} break", got=describe(names), why=why)
        expect_equal(came, want[0], why=_why_this_version(came, want, case))


def _why_these(names: list[Any], broken: list[str], case: Case) -> str:
    """What is true of the first operator that was judged wrong, from its two schemas; "" where
    something else than names came."""
    if not all(isinstance(name, str) for name in names):
        return ""
    _, old, new = case
    before, after = ({s.name: s for s in one} for one in (old, new))
    if any(name not in before and name not in after for name in names):
        return _OPERATORS["no_name"]
    for name in [*before, *after]:
        if (name in names) == (name in broken):
            continue
        if name not in before:
            return _OPERATORS["come"]
        if name not in after:
            return _OPERATORS["gone"]
        reading = decisive(before[name], after[name])
        if before[name] == after[name]:
            overload = next((one for one in broken if one.startswith(f"{name}.")), "")
            if overload and overload not in names:
                return (
                    f"`{name}` has the schema that it had. What breaks is `{overload}`, which is "
                    "an operator of its own: its name has the overload."
                )
            return f"`{name}` {_OPERATORS['unchanged']}"
        if reading == "types_free" and _sized_otherwise(before[name], after[name]):
            return _OPERATORS["sized"]
        return _CHANGES.get(reading, _OPERATORS["breaks" if name in broken else "does_not"])
    return _OPERATORS["twice"]


def _sized_otherwise(old: Schema, new: Schema) -> bool:
    """Whether an argument's type became another one that torch's parser reads as the same list."""
    was = {argument.name: argument.type for argument in old.arguments}
    pairs = [(was.get(argument.name, ""), argument.type) for argument in new.arguments]
    differ = [pair for pair in pairs if pair[0] and pair[0] != pair[1]]
    return bool(differ) and all(_unsized(a) == _unsized(b) for a, b in differ)


def _unsized(type_: str) -> str:
    return re.sub(r"\[\d+\]", "[]", type_)


def _why_this_version(came: Any, want: Answer, case: Case) -> str:
    """The rule by which the version is another one, where the names are right."""
    version, old, new = case
    if not isinstance(came, str):
        return _VERSIONS["text"]
    if misread := _misraised(version, came, want[0]):
        return misread
    if version.startswith("0."):
        return _VERSIONS["zero_break" if want[1] else "zero_else"]
    if want[1]:
        raised = came.split(".")[0] == want[0].split(".")[0]
        return _VERSIONS["reset" if raised else "break"]
    if want[0].endswith(".0"):
        raised = came.split(".")[:2] == want[0].split(".")[:2]
        return _VERSIONS["reset" if raised else "feature"]
    return _VERSIONS["fix" if sorted(map(str, old)) != sorted(map(str, new)) else "same"]


def _misraised(version: str, came: str, want: str) -> str:
    """A sentence where the number that is to be raised became neither 1 more nor stayed, and those
    before it stayed."""
    three = [[int(n) for n in one.split(".") if n.isdecimal()] for one in (version, came, want)]
    if any(len(numbers) != 3 for numbers in three):
        return ""
    for was, mine, true in zip(*three, strict=True):
        if was != true and mine not in (was, true):
            return f"The number that is raised is {was} here: 1 more is {true}."
        if was != true or mine != was:
            return ""
    return ""


def _difference(old: Schemas, new: Schemas) -> str:
    """The first operator that is not as it was."""
    before, after = ({s.name: str(s) for s in one} for one in (old, new))
    for name in [*before, *after]:
        if before.get(name) != after.get(name):
            was, now = before.get(name, "nothing"), after.get(name, "nothing")
            if name in before and name in after:
                was, now = _shortened(was, now), _shortened(now, was)
            return f"changed from {was} to {now}:"
    return "with nothing changed"


def _shortened(schema: str, other: str) -> str:
    """A schema with those arguments alone that stand beside what is not the same in the other one:
    a row has no room for two whole ones."""
    (head, mine, back), (_, its, _) = _in_parts(schema), _in_parts(other)
    start = _same(mine, its)
    end = len(mine) - _same(mine[start:][::-1], its[start:][::-1])
    first, last = max(start - 1, 0), min(end + 1, len(mine))
    before, after = ["..."] * (first > 0), ["..."] * (last < len(mine))
    return f"{head}({', '.join([*before, *mine[first:last], *after])}) -> {back}"


def _in_parts(schema: str) -> tuple[str, list[str], str]:
    """The name, the arguments and the results of a schema's text."""
    head, _, rest = schema.partition("(")
    arguments, _, back = rest.rpartition(") -> ")
    return head, arguments.split(", "), back


def _same(one: list[str], other: list[str]) -> int:
    """How many of the first are the same in both."""
    pairs = zip(one, other, strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _cases(draw: Draw) -> list[Case]:
    """Each change alone, then several at once."""
    found = [_changed(draw, name, zero=False) for name in CHANGES]
    found += [_changed(draw, name, zero=True) for name in ("renamed", "at_the_end")]
    found += [_come(draw, "head_logits"), _come(draw, None), _gone(draw), _unchanged(draw)]
    found.append((_version(draw), [], []))
    found += [_changed(draw, "changed_default", "keyword_only", zero=False)]
    found.append(_changed_twice(draw))
    names = list(CHANGES)
    found += [_pair(draw, *pair) for pair in PAIRS]
    found += [_pair(draw, "Tensor x", "Tensor x", *pair) for pair in RETURNS]
    found += _come_and_gone(draw)
    for version in ("1.0.0", "0.0.3"):  # no longer before 1.0; and no number before the last
        found.append((version, *_changed(draw, "renamed", zero=False)[1:]))
    for _ in draw.cases(3):
        some = [draw.choice(names) for _ in range(draw.integer(1, 3))]
        found.append(_changed(draw, *some, zero=bool(draw.integer(0, 1))))
    return found


def _library(draw: Draw) -> Schemas:
    """Three operators, two of which are overloads of one."""
    lib = draw.choice(("onelayer", "fused", "wide", "headloss"))
    names = (f"{lib}::head_loss", f"{lib}::head_loss.weighted", f"{lib}::temper")
    return [drawn_schema(draw, name) for name in names]


def _version(draw: Draw, *, zero: bool = False) -> str:
    major = 0 if zero else draw.integer(1, 12)
    return f"{major}.{draw.integer(9, 99)}.{draw.integer(9, 99)}"


def _changed(draw: Draw, *changes: str, zero: bool) -> Case:
    """One operator after the other is changed."""
    old = _library(draw)
    new = list(old)
    for k, name in zip(draw.shuffled(range(3)), changes, strict=False):
        new[k] = CHANGES[name][0](draw, new[k])
    return _version(draw, zero=zero), old, draw.shuffled(new)


def _changed_twice(draw: Draw) -> Case:
    """One operator breaks in two ways, and another one gives a feature."""
    old = _library(draw)
    twice = CHANGES["changed_default"][0](draw, CHANGES["writes"][0](draw, old[1]))
    new = [old[0], twice, CHANGES["at_the_end"][0](draw, old[2])]
    return _version(draw), old, draw.shuffled(new)


def _come(draw: Draw, name: str | None) -> Case:
    """A new operator, or a new overload."""
    old = _library(draw)
    lib = old[0].name.partition("::")[0]
    more = drawn_schema(draw, f"{lib}::{name}" if name else f"{old[2].name}.scaled")
    return _version(draw), old, draw.shuffled([*old, more])


def _gone(draw: Draw) -> Case:
    """An overload is gone; its name stays."""
    old = _library(draw)
    return _version(draw), old, [old[0], old[2]]


def _pair(draw: Draw, old: str, new: str, *returns: str) -> Case:
    """One operator of two has other arguments, or other returns."""
    name = f"fused::{draw.choice(('gate', 'blend', 'warp'))}"
    stays = drawn_schema(draw, f"{name}.scaled")
    made = zip((old, new), returns or ("Tensor", "Tensor"), strict=True)
    before, after = (_parsed(f"{name}({inside}) -> ({back})") for inside, back in made)
    return _version(draw), [before, stays], draw.shuffled([after, stays])


def _come_and_gone(draw: Draw) -> list[Case]:
    """Also both at once, which is what another name is; before 1.0; from nothing and to nothing."""
    old = _library(draw)
    renamed = [replace(old[0], name=f"{old[2].name}_loss"), *old[1:]]
    found = [(_version(draw), old, renamed), (_version(draw), old, old[1:])]
    found += [(_version(draw, zero=True), a, b) for a, b in ((old, old[1:]), (old[:2], old))]
    return [*found, (_version(draw), [], old[:1]), (_version(draw), old[:1], [])]


def _unchanged(draw: Draw) -> Case:
    old = _library(draw)
    lib = old[0].name.partition("::")[0]
    old.append(Schema(f"{lib}::warm_up", ()))  # without an argument
    return _version(draw), old, draw.shuffled(old)


def judged(
    case: Case,
    read: Reading,
    *,
    overloads: bool = True,
    new_breaks: bool = False,
    zero_breaks: bool = False,
    reset: bool = True,
    one_for_each: bool = False,
    carried: bool = False,
    features_lost: bool = False,
) -> Answer:
    """The right answer, and ways to get it wrong."""
    version, old, new = case
    later = {_key(s, overloads): s for s in new}
    effects = {}
    for schema in old:
        there = later.get(_key(schema, overloads))
        effects[schema.name] = BREAK if there is None else effect(schema, there, read)
    names = {_key(s, overloads) for s in old}
    come = [BREAK if new_breaks else FEATURE for s in new if _key(s, overloads) not in names]
    broken = sorted(name for name, one in effects.items() if one == BREAK)
    most = max([PATCH, *effects.values(), *come])
    most = PATCH if features_lost and most == FEATURE else most
    numbers = [int(part) for part in version.split(".")]
    if numbers[0] == 0 and not zero_breaks:
        most = max(PATCH, most - 1)
    place = 2 - most
    numbers[place] += max(1, len(broken)) if one_for_each else 1
    if reset:
        numbers[place + 1 :] = [0] * (2 - place)
    if carried:
        numbers = _carried(numbers)
    return ".".join(map(str, numbers)), broken


def _key(schema: Schema, overloads: bool) -> str:
    return schema.name if overloads else schema.name.partition(".")[0]


def _carried(numbers: list[int]) -> list[int]:
    """As if 1.9 were followed by 2.0."""
    major, minor, patch = numbers
    minor, patch = minor + patch // 10, patch % 10
    return [major + minor // 10, minor % 10, patch]


def _parsed(text: str) -> Schema:
    """One of the schemas that are drawn here, from its text."""
    name, _, rest = text.partition("(")
    inside, _, returned = rest.rpartition(") -> ")
    arguments, by_keyword = [], False
    for part in filter(None, inside.split(", ")):
        if part == "*":
            by_keyword = True
            continue
        kind, _, named = part.partition(" ")
        argument, _, default = named.partition("=")
        arguments.append(Argument(argument, kind, default, by_keyword))
    returns = returned.strip("()").split(", ")
    return Schema(name, tuple(arguments), tuple(filter(None, returns)))


def _answering(read: Reading, **how: bool) -> Any:
    def answered(version: str, old: Sequence[str], new: Sequence[str]) -> Answer:
        return judged((version, [*map(_parsed, old)], [*map(_parsed, new)]), read, **how)

    return answered


_CHANGES: dict[str, str] = {}
"""What is true of a change, by the way to misread it on which its effect hangs."""
_ZERO = (
    "Before 1.0 a break raises the minor version: 0.9.3 is followed by 0.10.0. All else raises the "
    "patch, to 0.9.4."
)
_VERSIONS = {
    "text": 'The version is a text with two dots, as the one that is given: "1.4.2".',
    "zero_break": "Before 1.0 a break raises the minor version, and 0 stands behind it: 0.9.3 is "
    "followed by 0.10.0.",
    "zero_else": "Before 1.0 a feature or a fix raises the patch: 0.9.3 is followed by 0.9.4.",
    "break": "An operator breaks: that raises the major version, and 0.0 stands behind it.",
    "feature": "A feature raises the minor version (before 1.0 the patch): who relies on it has to "
    "be able to ask for it.",
    "fix": "Nothing breaks and nothing is new, so it is a fix: it raises the patch number alone.",
    "same": "No schema changed. Released is released: it is a fix, and raises the patch number.",
    "reset": "The numbers behind the one that was raised begin at 0 again: 1.4.2, 1.5.0.",
}
_OPERATORS = {
    "come": "A new operator was called a break. Nobody calls it yet: a feature.",
    "gone": "An operator is gone, and its callers get an error. An overload is an operator of its "
    "own: another one that stays does not help.",
    "unchanged": "has the schema that it had, and was called a break. Compare each overload with "
    "itself.",
    "sized": "The number in `int[2]` is part of the type: with another one, or with none, it is "
    "another type, and a break. torch's parser has List[int] for all of them: compare the types "
    "as the schemas write them.",
    "breaks": "This change breaks old calls, and in more than one way. Go through all that "
    "breaks, rule by rule.",
    "does_not": "All old calls still run after this change, and mean the same: nothing breaks.",
    "no_name": "An operator's name has its namespace, and its overload if it has one: "
    "`lib::head_loss.weighted`.",
    "twice": "An operator that breaks in two ways is one operator that breaks: name it once.",
}


def _misread(name: str, sentence: str, **how: bool) -> None:
    (reading,) = how
    _CHANGES[reading] = sentence
    next_version.wrong(name, sentence, next_version=_answering(Reading(**how)))


def _wrong(name: str, sentence: str, **how: bool) -> None:
    next_version.wrong(name, sentence, next_version=_answering(Reading(), **how))


_misread(
    "default_changed",
    "A default was changed, and the old call still runs: with another result. That is a break that "
    "no error tells of.",
    defaults_free=True,
)
_misread(
    "new_required",
    "A new argument without a default is missing in every old call.",
    required_free=True,
)
_misread(
    "new_with_default",
    "A new argument with a default, in nobody's way, was called a break. Old calls run as before: "
    "a feature.",
    new_default_breaks=True,
)
_misread(
    "in_the_middle",
    "Another argument stands in front of old positional ones now, a new one or one that was "
    "keyword-only. Calls by position give it the value that was meant for the next.",
    places_free=True,
)
_misread(
    "renamed",
    "A positional argument has another name. Who wrote the old one as a keyword gets an error.",
    names_free=True,
)
_misread(
    "keyword_order",
    "Keyword-only arguments were moved among themselves. Nobody can give them by position, so "
    "nothing breaks.",
    keyword_order_counts=True,
)
_misread(
    "optional",
    "`T` became `T?`: it takes all that it took, and None. That is a feature.",
    optional_breaks=True,
)
_misread(
    "narrowed",
    "`T?` became `T`: who gave None gets an error.",
    narrowing_free=True,
)
_misread(
    "returned",
    "It returns something else: another number of results, or other types. The old call runs, "
    "and its caller gets what it does not count on.",
    returns_free=True,
)
_misread(
    "writes",
    "`Tensor(a!)`: an argument is overwritten now that callers wanted to keep, or is no longer, "
    "and they wait for what is written.",
    writes_free=True,
)
_misread(
    "made_keyword_only",
    "A positional argument became keyword-only. Who gave it by position gets an error.",
    keyword_only_free=True,
)
_misread(
    "default_removed",
    "A default was taken away: who relied on it gets an error.",
    default_removed_free=True,
)
_misread(
    "default_given",
    "An argument got a default where it had none. All old calls gave a value, and still do: a "
    "feature.",
    default_given_breaks=True,
)
_misread(
    "argument_gone",
    "An argument is gone. Who gives it gets an error.",
    gone_free=True,
)
_misread(
    "other_type",
    "An argument has another type: a break. Only `T` that became `T?` is none.",
    types_free=True,
)
_misread(
    "swapped",
    "Positional arguments changed places, or a new one came between them. A call by position now "
    "gives a value that was meant for another.",
    order_free=True,
)
_misread(
    "made_positional",
    "A keyword-only argument became positional, behind all that were. It can still be given by "
    "keyword: a feature.",
    positional_breaks=True,
)
_misread(
    "results_named",
    "The results have other names, and the same types. A call does not name them: nothing breaks.",
    result_names_count=True,
)
_wrong(
    "overloads_as_one",
    "`head_loss` and `head_loss.weighted` are two operators with a schema each. Compare each "
    "overload with itself.",
    overloads=False,
)
_wrong(
    "new_operator",
    _OPERATORS["come"],
    new_breaks=True,
)
_wrong(
    "features_lost",
    _VERSIONS["feature"],
    features_lost=True,
)
_wrong(
    "zero_as_one",
    _ZERO,
    zero_breaks=True,
)
_wrong(
    "not_reset",
    _VERSIONS["reset"],
    reset=False,
)
_wrong(
    "one_for_each",
    "The major version was raised once for each operator that breaks. A release is one step.",
    one_for_each=True,
)
_wrong(
    "carried",
    "A version is three integers, not one number: 1.9 is followed by 1.10.",
    carried=True,
)


def _bent(bend: Callable[[str, list[str], str], Answer]) -> Any:
    """`bend` of the right version, the right names and the version before."""

    def answered(version: str, old: Sequence[str], new: Sequence[str]) -> Answer:
        case = version, [*map(_parsed, old)], [*map(_parsed, new)]
        return bend(*judged(case, Reading()), version)

    return answered


def _patch_stays(came: str, broken: list[str], before: str) -> Answer:
    (major, _, patch), (was, *_, last) = came.split("."), before.split(".")
    return (f"{came[: came.rindex('.')]}.{last}" if major == was and patch == "0" else came), broken


def _minor_stays(came: str, broken: list[str], before: str) -> Answer:
    (major, *_), (was, minor, _) = came.split("."), before.split(".")
    return (came if major == was else f"{major}.{minor}.0"), broken


next_version.wrong(
    "patch_not_reset",
    "The patch number begins at 0 again when the minor version was raised: 1.4.2, 1.5.0.",
    next_version=_bent(_patch_stays),
)
next_version.wrong(
    "minor_not_reset",
    "The minor version begins at 0 again when the major one was raised: 1.4.2, 2.0.0.",
    next_version=_bent(_minor_stays),
)


@next_version.cost
def _(student: Student, draw: Draw) -> str:
    version, old, new = _changed(draw, "changed_default", "at_the_end", zero=False)
    came, broken = student.call("next_version", version, [*map(str, old)], [*map(str, new)])
    return f"{len(old)} schemas compared: {version} to {came}, {len(broken)} operator breaks"
