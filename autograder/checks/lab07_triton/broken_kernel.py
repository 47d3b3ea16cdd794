"""The detective case: kernels that look right, each with one line that is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, text

from . import lab
from .admitted import Refused
from .kernels import HOST, Case, judged, launcher
from .memory import Fault
from .suspects import INF, Suspect, drawn

_FORM = "(number of the line, the line as it should be), or None"
_REPAIR = "(number of the line, the line as it should be)"
_PAIR = (
    "Of a kernel with a wrong line two things come back: (number of the line, the line as it "
    "should be)."
)
_FROM_ONE = "The number comes first. Lines are counted from 1, the `def`, and comments count."
_ONE_LINE = "The line as it should be is one line of text. The rest of the kernel stays as it is."
MAX_LINE = 300
Repair = tuple[int, str] | None
_RAISED = {
    "AttributeError: 'NoneType'": "A pattern was not found, so there is no match to ask. Kernels "
    "are drawn: most of them have none of the lines that a rule looks for.",
    **dict.fromkeys(
        ("TypeError: 'NoneType'", "TypeError: cannot unpack non-iterable NoneType"),
        "A pattern was not found, so there is nothing to take from it. Some of the kernels are "
        "right: there none of the rules finds anything.",
    ),
    "KeyError": "Every name is drawn, those of kernels, pointers, sizes and tiles too: take them "
    "from the text.",
}


@lab.question(
    "broken_kernel",
    points=5,
    minutes=12,
    difficulty=4,
    hints=(
        "Which line of each of the five breaks which rule? Then write the rule as a change of a "
        "line that changes no line which is right: the first line that it changes is the one.",
        "Ada's masked lanes take part in the maximum. Bo's last tile hangs over D. Cy's programs "
        "leave words out. Di forgets what the tiles before had as their maximum. Ed's programs "
        "meet in one element. Find names by their place: the tile of an index stands in its "
        "tl.arange(0, ...), its size behind its `<`.",
        'r"program_id\\((\\d)\\) \\* \\w+ \\+ tl\\.arange\\(0, (\\w+)\\)" becomes '
        'r"program_id(\\1) * \\2 + tl.arange(0, \\2)"',
    ),
    host=HOST,
)
def broken_kernel(student: Student, draw: Draw) -> None:
    """Detective case: in each kernel one line is wrong. Which, and how should it read?

    source, the text of a kernel -> (number of the line, from 1, the line as it should be).
    """
    suspects = drawn(draw.seed, draw.rounds)
    with explaining(_RAISED):
        said = list(student.each("broken_kernel", [(s.source,) for s in suspects]))
    repairs = [_repair(suspect, got) for suspect, got in zip(suspects, said, strict=True)]
    answers = sorted(zip(suspects, repairs, strict=True), key=lambda pair: not pair[0].kind)
    for suspect, repair in answers:
        if repair is not None and (wrong := _judged(suspect, repair)) is not None:
            student.call("broken_kernel", suspect.source)  # of this text the verdict speaks
            raise Wrong(expected=wrong.expected, got=wrong.got, where=wrong.where, why=wrong.why)
    for suspect, repair in answers:
        if repair is None and suspect.kind:
            student.call("broken_kernel", suspect.source)
            raise Wrong(
                expected=_REPAIR,
                got="None",
                where=f"for a kernel that {_BREAKS[suspect.kind]}",
                why="There is no repair of this kernel yet.",
            )


_BREAKS: Mapping[str, str] = {
    "other": "gives masked lanes a number that counts",
    "mask": "leaves one edge of a tile unmasked",
    "step": "moves on by another distance than a block is wide",
    "carried": "forgets what the turns before have found",
    "meet": "stores where programs meet",
}


def _repair(suspect: Suspect, got: Any) -> Repair:
    if got is None:
        return None
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        raise Wrong(expected=_FORM, got=describe(got), why=_PAIR)
    number, line = got
    last = len(suspect.source.splitlines())
    if type(number) is not int or not 1 <= number <= last:
        raise Wrong(expected=f"a line, 1 to {last}", got=describe(number), why=_FROM_ONE)
    if not isinstance(line, str) or len(line) > MAX_LINE or "\n" in line:
        form = f"one line, at most {MAX_LINE} characters"
        raise Wrong(expected=form, got=describe(line), why=_ONE_LINE)
    return number, line


@lru_cache(maxsize=1024)
def _judged(suspect: Suspect, repair: tuple[int, str]) -> Wrong | None:
    """What is wrong with a repair. Kept: a diagnosis asks for the same ones many times."""
    number, line = repair
    try:
        judged(launcher(suspect.with_line(number, line)), suspect.cases)
    except Wrong as wrong:
        was = suspect.source.splitlines()[number - 1].strip()
        place = f"with your line {number}, {line.strip()!r} for {was!r},"
        return Wrong(
            expected=wrong.expected,
            got=wrong.got,
            where=text("within", place=place, rest=wrong.where),
            why=_why(suspect, repair) or wrong.why or _not_yet(suspect, repair[0]),
        )
    return None


def _why(suspect: Suspect, repair: tuple[int, str]) -> str:
    """The sentence of what fails alike in every case: the kernel as it was, or a known repair of
    the same line."""
    if not suspect.kind:
        return WAS_RIGHT
    if repair[0] != suspect.line and _judged(suspect, (suspect.line, repair[1])) is None:
        right = suspect.line
        return f"As line {right} this is right. The first line is the `def`, and comments count."
    mine = _outcomes(suspect, repair)
    first = suspect.source.splitlines()[0]
    if _outcomes(suspect, (1, first)) == mine:
        return MISSED[suspect.kind]
    for known, sentence in _REPAIRS.values():
        theirs = known(suspect.source)
        same = theirs is not None and theirs[0] == repair[0]
        if theirs and same and _outcomes(suspect, theirs) == mine:
            return sentence
    return ""


def _not_yet(suspect: Suspect, number: int) -> str:
    return NOT_YET[suspect.kind] if number == suspect.line else ""


@lru_cache(maxsize=1024)
def _outcomes(suspect: Suspect, repair: tuple[int, str]) -> list[Any]:
    source = suspect.with_line(*repair)
    return [_outcome(source, case) for case in suspect.cases]


def _outcome(source: str, case: Case) -> Any:
    try:
        stored = launcher(source)(case)
    except (Wrong, Refused):
        return "refused"
    except Fault as fault:
        return fault.kind
    return [stored[name].nan_to_num(nan=1e30).tolist() for name in case.want]


WAS_RIGHT = (
    "This kernel was right as it is, and your line makes it wrong. A rule changes no line that is "
    "right, and `None` says that there is none to change."
)
MISSED: Mapping[str, str] = {
    "other": "Masked lanes still take part. What they hold must lose against every number: -inf "
    "in a maximum, inf in a minimum.",
    "mask": "Lanes beyond an edge of the tile still take part: each index that may go beyond its "
    "size is compared with it, in the line that makes the mask, and both have to hold.",
    "step": "Programs beside each other, or turns of a loop, still begin another distance apart "
    "than a block is wide: elements are left out, or come twice.",
    "carried": "The loop gives what it gave before your line: what earlier turns have found still "
    "does not reach the later ones as it should.",
    "meet": "Programs still store where others do: in an element that they share, what the last "
    "one stores is all that is left. tl.atomic_add adds.",
}
"""What is true of a kernel whose line is as wrong as it was, by the rule that it breaks."""


NOT_YET: Mapping[str, str] = {
    "other": "This is the line, and it is not right yet. Masked lanes hold -inf in a maximum, and "
    "inf in a minimum.",
    "mask": "This is the line, and it is not right yet. Each of the two indices is compared with "
    "its own size, and both have to hold.",
    "step": "This is the line, and it is not right yet. Programs and turns of a loop begin as far "
    "apart as a block is wide: tl.arange says how wide.",
    "carried": "This is the line, and it is not right yet. A sum keeps what was found before by "
    "+=, a maximum by tl.maximum.",
    "meet": "This is the line, and it is not right yet. Programs that meet in one element add "
    "there with tl.atomic_add.",
}
"""What follows a line in the place of the wrong one that does not repair it, by the rule."""


def _edited(source: str, pattern: str, instead: str, *, only: str = "") -> Repair:
    """The first line that has `pattern`, with `instead` for it; None where none has, or where the
    text has no `only`."""
    for number, line in enumerate(source.splitlines(), 1):
        if re.search(only, source) and re.search(pattern, line) and "#" not in line:
            return number, re.sub(pattern, instead, line).strip()
    return None


_WRONG_STEP = r"program_id\((\d)\) \* (\w+) \+ tl\.arange\(0, (?!\2\))(\w+)\)"
_ONE_EDGE = r"= \((\w+) < (\w+)\)\[([^]]+)\]$"
_OTHER = r"other=(?:0\.0|float\(\"-inf\"\))"
_OLD = r"= tl\.max\((\w+), 0\)$"
_SHARED = r"tl\.store\((\w+) \+ (\w+), (\w+), mask=(.*)\)$"
_BY_COLUMN = r"tl\.sum\(\w+, 0\)\n"


def _other(in_a_maximum: str, in_a_minimum: str, pattern: str = _OTHER) -> Callable[[str], Repair]:
    """Other words for what masked lanes hold; None where that is right as it is."""

    def repair(source: str) -> Repair:
        if re.search(r"tl\.min\(", source):
            return _edited(source, pattern, in_a_minimum)
        wrong = pattern.replace("float", "never")  # -inf is right in a maximum
        return _edited(source, wrong, in_a_maximum, only=r"tl\.max\(")

    return repair


def _other_edge(form: str) -> Callable[[str], Repair]:
    """A mask with the index that it left out; `form` has {mine}, the mask that was there, and
    {theirs}."""

    def repair(source: str) -> Repair:
        if not (mine := re.search(_ONE_EDGE, source, re.MULTILINE)):
            return None
        place = "None, :" if mine[3] == ":, None" else ":, None"
        for index in re.findall(rf"(\w+)\[{place}\]", source):
            if size := re.search(rf"mask={index} < (\w+)", source):
                theirs = f"({index} < {size[1]})[{place}]"
                said = form.format(mine=mine[0][2:], theirs=theirs)
                return _edited(source, _ONE_EDGE, f"= {said}")
        return None

    return repair


def _first_maximum(source: str) -> Repair:
    old = re.search(r"tl\.exp\((\w+) - \w+\)", source)
    return _edited(source, _OLD, f"= {old[1]}") if old else None


def _kept_too_late(source: str) -> Repair:
    names = re.search(r"tl\.exp\((\w+) - (\w+)\)", source)
    if not names:
        return None
    top, higher = names[1], names[2]
    instead = f"{top} = tl.maximum({top}, {higher})"
    return _edited(source, rf"\b{top} = {higher}$", instead, only=rf"(?m){_OLD}")


_REPAIRS: Mapping[str, tuple[Callable[[str], Repair], str]] = {
    "other_is_small": (
        _other("other=-1.0", "other=1.0"),
        "The masked lanes still take part where a row has no number beyond what they hold. Only "
        "one number loses against every other.",
    ),
    "other_wins": (
        _other(f"other={INF}", "other=-1e30"),
        "What masked lanes hold now wins against every number. In a maximum it has to be the "
        "smallest there is, in a minimum the largest.",
    ),
    "no_mask": (
        _other(")", ")", rf", mask=\w+ < \w+, {_OTHER}\)"),
        "Lanes beyond the row take part now, as without a mask: they read the next one, and behind "
        "the last row what is nobody's.",
    ),
    "other_edge_alone": (
        _other_edge("{theirs}"),
        "Lanes beyond one edge take part now, as where the other edge alone is masked: a tile has "
        "two.",
    ),
    "either_edge": (
        _other_edge("{mine} | {theirs}"),
        "With | a lane takes part where one of its two indices is inside. Both have to be: &.",
    ),
    "narrower_block": (
        lambda source: _edited(
            source, _WRONG_STEP, r"program_id(\1) * \2 + tl.arange(0, \2)"
        ),
        "The width of the block was right, and the step was not: the grid has one program for "
        "each block of that width.",
    ),
    "other_axis": (
        lambda source: _edited(
            source,
            _WRONG_STEP,
            r"program_id(1 - \1) * \3 + tl.arange(0, \3)",
            only=r"program_id\(1\)",
        ),
        "The axis of the grid was right. Now rows and words have the same number: only tiles on "
        "the diagonal are computed.",
    ),
    "old_maximum": (
        _first_maximum,
        "The maximum never grows: it stays at -inf, and -inf - (-inf) is no number.",
    ),
    "maximum_kept_too_late": (
        _kept_too_late,
        "The larger maximum is kept here only after the sum was scaled to that of the tile alone. "
        "Both count in one unit: it has to be the larger where the new maximum is made.",
    ),
    "scale_turned": (
        lambda source: _edited(
            source, r"\* tl\.exp\((\w+) - (\w+)\)", r"* tl.exp(\2 - \1)", only=rf"(?m){_OLD}"
        ),
        "The line of the sum was right: the old sum shrinks by exp(old - new). What the new "
        "maximum is, the line before says.",
    ),
    "added_by_hand": (
        lambda source: _edited(
            source,
            _SHARED,
            r"tl.store(\1 + \2, tl.load(\1 + \2, mask=\4) + \3, mask=\4)",
            only=_BY_COLUMN,
        ),
        "Read, add and store are three steps: another program may do its own between them. The "
        "three have to be one.",
    ),
    "added_without_mask": (
        lambda source: _edited(
            source, _SHARED, r"tl.atomic_add(\1 + \2, \3)", only=_BY_COLUMN
        ),
        "Lanes beyond the last column add to what is nobody's, as without a mask. tl.atomic_add "
        "takes one as tl.store does.",
    ),
}  # fmt: skip
"""Repairs of one line that are none: what each makes of a kernel, None where it has nothing to
change, and its sentence."""

for _key, (_known, _sentence) in _REPAIRS.items():
    broken_kernel.wrong(_key, _sentence, broken_kernel=_known)
for _kind, _pattern in {
    "other": rf"(?<=, ){_OTHER}\)$",
    "mask": _ONE_EDGE,
    "step": _WRONG_STEP,
    "carried": _OLD,
    "meet": _SHARED,
}.items():
    broken_kernel.wrong(
        f"{_kind}_missed",
        MISSED[_kind],
        broken_kernel=lambda source, kind=_kind, pattern=_pattern: _edited(
            source,
            pattern,
            r"\g<0>",
            only={"other": r"tl\.min\(", "meet": _BY_COLUMN}.get(kind, ""),
        ),
    )

broken_kernel.wrong(
    "changes_what_is_right",
    WAS_RIGHT,
    broken_kernel=lambda source: _edited(
        source, r"tl\.store\(", "tl.atomic_add(", only=r'(?s)other=float\("inf"\).*tl\.min\('
    ),
)


@broken_kernel.cost
def _(student: Student, draw: Draw) -> str:
    suspects = [suspect for suspect in drawn(draw.seed, draw.rounds) if suspect.kind]
    lines = [len(suspect.source.splitlines()) for suspect in suspects]
    return f"{len(lines)} of {sum(lines)} lines changed, under names that were drawn"
