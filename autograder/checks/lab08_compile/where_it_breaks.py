"""Where Dynamo gives up, by the line of the program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal

from . import lab
from .programs import Arguments, compiled, load, remembered

_RAISED = {
    "AttributeError": "A reason's `user_stack` is a list of frames, and each frame has a `lineno`: "
    "`reason.user_stack[-1].lineno`.",
    "IndexError": "A place is not in its list. Line 1 of the text is `source.splitlines()[0]`, "
    "and a program without a break has no `break_reasons`.",
}
# What Dynamo cannot trace, and what looks like it.
BREAKS = (
    ("if y.sum() > {n}:", "    y = y * 0.5"),
    ("top = y.max().item()", "y = y / (1 + abs(top))"),
    ("words = y.argmax(-1).tolist()", "y = y + len(words)"),
    ("torch._dynamo.graph_break()",),
    ("y = y / float(y.norm())",),
    ("if y.dim() == 2:", "    low = y.min().item()", "    y = y - low"),
    ("y = y / max(1.0, y.std().item())  # a number",),
)
DECOYS = (
    ("if x.shape[0] > {n}:", "    y = y + 1"),
    ("for k in range(2):", "    y = y - k"),
    ("y = y if x.dtype == torch.float32 else y.float()",),
    ("assert y.dim() == 2",),
    ("y = torch.where(y > 0, y, y / {n})",),
    ("y = sum([y, y * {n}])",),
)
WITHIN: tuple[str, ...] = ("low = float(", "    y.max().item() - y.min()", ")", "y = y - low")


@lab.question(
    "where_it_breaks",
    points=3,
    minutes=7,
    difficulty=2,
    hints=(
        "Dynamo explains itself: what does `torch._dynamo.explain(step)(*args)` return?",
        "Its `break_reasons` come in the order of the breaks; each has a `user_stack`, a list of "
        "frames with a `lineno` that counts from 1. The last frame is the line itself.",
        "lines[reason.user_stack[-1].lineno - 1].strip()",
    ),
    budget_s=60.0,
    host="What sets the GPU as default is a frame in Dynamo's explanation.",
)
def where_it_breaks(student: Student, draw: Draw) -> None:
    """The lines at which Dynamo breaks the graph of a program, in the order in which it comes to
    them.

    source (defines `step`), args -> list of lines of the text, without their indentation.
    """
    any_of_them = [draw.integer(0, 2) for _ in draw.cases(1)]
    some = (4, 1, *any_of_them, COMMENTED, ALIKE, UPWARDS, AT_THE_END, 0)
    programs = [_program(draw, breaks) for breaks in some]
    programs += [_by_values(draw, sign) for sign in (-1, 1)]  # one text, both of its ways
    for source, args in programs:
        with explaining(_RAISED):
            got = student.call("where_it_breaks", source, args)
        want = _lines(source, [args])
        why = INDENTED if _is_indented(got, want) else _of_a_line(got, want, source, args)
        expect_equal(got, want, why=why)


AT_THE_END = -4  # no operator stands behind the last break: there are two graphs, and two breaks
UPWARDS = -3  # a call over several lines, and a break among its arguments before its own
ALIKE = -2  # two equal lines, and one that stands deeper
COMMENTED = -1  # the one break whose line has a comment, in a text that begins with an empty line


INDENTED = (
    "The lines are right, with white space still around them, such as the indentation: `.strip()`."
)


ANOTHER_ORDER = "These are the right lines, and not in the order in which Dynamo comes to them."


def _is_indented(got: Any, want: list[str]) -> bool:
    lines = got if isinstance(got, (list, tuple)) else []
    return [line.strip() for line in lines if isinstance(line, str)] == want


def _of_a_line(got: Any, want: list[str], source: str, args: Arguments) -> str:
    """What is true of the first line that is listed and does not break, or else of the first that
    breaks and is missing."""
    if not isinstance(got, (list, tuple)) or not all(isinstance(line, str) for line in got):
        return ""
    for line in [line for line in got if line in _suspects(source) and line not in want]:
        if line in _lines(source, [[-tensor for tensor in args]]):
            return (
                f"Dynamo breaks at {line!r} where other numbers lead there, and these do not. "
                "Explain the step with the arguments that came."
            )
        return f"Dynamo does not break at {line!r}: its explanation has no reason there."
    missing = [*(Counter(want) - Counter(got))] if set(got) <= {*want} else []
    for line in missing:
        if line in got:
            return _of_equal_lines(line, source, args)
        if "graph_break" in line:
            return f"{line!r} is missing: the line asks for a break."
        if line.startswith("if "):
            return f"{line!r} is missing: Python goes on by the value of a tensor."
        return f"{line!r} is missing: a number leaves the graph for Python."
    for line in Counter(got) - Counter(want):
        if line in want:
            return f"{line!r} is here more often than Dynamo breaks at it."
    return ANOTHER_ORDER * (Counter(got) == Counter(want))


def _of_equal_lines(line: str, source: str, args: Arguments) -> str:
    """At which lines of the text it breaks with these words."""
    numbers = [reason.user_stack[-1].lineno for reason in _reasons(source, [args])]
    equal = [n for n in numbers if _suspects(source)[n - 1] == line]
    told = ", ".join(map(str, equal))
    return (
        f"{line!r} is here less often than Dynamo breaks at it, which it does in these lines of "
        f"the text: {told}. Each break has an entry."
    )


def _program(draw: Draw, breaks: int) -> tuple[str, list[Any]]:
    """So many lines that break, among others that look like it; never in the order of the alphabet,
    which is not asked for."""
    broken = sorted(draw.shuffled(BREAKS)[:breaks]) if breaks != COMMENTED else [BREAKS[-1]]
    if breaks == ALIKE:
        broken = [BREAKS[3], BREAKS[-2], BREAKS[3]]
    if breaks == AT_THE_END:
        broken = [BREAKS[3], BREAKS[3]]
    if breaks == UPWARDS:
        broken = [WITHIN]
    if breaks == 4:  # neither the first nor the last is an `if` or has an .item()
        broken = [BREAKS[3], *BREAKS[:2], BREAKS[4]]
    between = draw.shuffled(("torch.tanh(y)", "y * 3", "y.relu()"))
    parts = draw.shuffled([*broken, *DECOYS[:2], draw.choice(DECOYS[2:])])
    lines = ["def step(x, w, b):", "    y = F.linear(x, w, b)"]
    for k, part in enumerate([broken.pop() if part in BREAKS else part for part in parts]):
        lines += [f"    {line}" for line in part]
        lines.append(f"    y = {between[k % 3]}")  # not what stands above the part
    if breaks == AT_THE_END:
        lines.append(f"    {BREAKS[3][0]}")
    source = "\n".join([*lines, "    return y", ""]).replace("{n}", str(draw.integer(2, 6)))
    source = f"\n{source}" if breaks == COMMENTED else source
    n, d, v = draw.integer(2, 5), draw.integer(3, 6), draw.integer(7, 9)
    return source, [draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v)]


def _by_values(draw: Draw, sign: int) -> tuple[str, list[Any]]:
    """A program whose numbers decide at which lines it breaks, and that breaks as it returns. sign:
    of the sum that decides."""
    source = """
def step(x, w, b):
    y = F.linear(x, w, b)
    if y.sum() > 0:
        y = y / y.max().item()
    else:
        y = y - y.min().item()
    return torch.tanh(y) * y.std().item()
"""
    n, d, v = draw.integer(2, 5), draw.integer(3, 6), draw.integer(7, 9)
    return source, [draw.tensor(n, d), draw.tensor(v, d), sign * (draw.tensor(v).abs() + 9)]


@remembered
def _lines(source: str, calls: Sequence[Arguments]) -> list[str]:
    """The line of each break, as Dynamo's own explanation has it."""
    numbers = [reason.user_stack[-1].lineno for reason in _reasons(source, calls)]
    return [source.splitlines()[number - 1].strip() for number in numbers]


@remembered
def _reasons(source: str, calls: Sequence[Arguments]) -> list[Any]:
    from torch import _dynamo

    (args,) = calls
    reasons: list[Any] = _dynamo.explain(load(source))(*args).break_reasons
    return reasons


_graphs = remembered(compiled)


def _suspects(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines()]


@where_it_breaks.wrong(
    "one_line_down",
    "These are the lines below. `lineno` counts from 1, and a Python list from 0.",
)
def _(source: str, args: Arguments) -> list[str]:
    lines = _suspects(source)
    return [lines[lines.index(line) + 1] for line in _lines(source, [args])]


@where_it_breaks.wrong(
    "every_if",
    "Every `if` is listed. One on a shape or a dtype is decided while tracing, and leaves a guard; "
    "one on a tensor's values breaks.",
)
def _(source: str, args: Arguments) -> list[str]:
    broken = _lines(source, [args])
    return [n for n in _suspects(source) if n in broken or n.startswith("if ") or " if " in n]


@where_it_breaks.wrong(
    "every_loop",
    "A `for` over a range is listed. Dynamo unrolls it: the graph holds each round.",
)
def _(source: str, args: Arguments) -> list[str]:
    broken = _lines(source, [args])
    return [n for n in _suspects(source) if n in broken or n.startswith("for ")]


where_it_breaks.wrong(
    "first_only",
    "Only the first break is here. Behind a break Dynamo begins a new graph, which may break as "
    "well.",
    where_it_breaks=lambda source, args: _lines(source, [args])[:1],
)


@where_it_breaks.wrong(
    "line_numbers",
    "These are line numbers. The lines themselves were asked for.",
)
def _(source: str, args: Arguments) -> list[int]:
    lines = _suspects(source)
    return [lines.index(line) + 1 for line in _lines(source, [args])]


where_it_breaks.wrong(
    "sorted",
    ANOTHER_ORDER,
    where_it_breaks=lambda source, args: sorted(_lines(source, [args])),
)
where_it_breaks.wrong(
    "without_their_comments",
    "A line lost its comment. The line of the text was asked for, all of it but the indentation.",
    where_it_breaks=lambda source, args: [
        line.partition("#")[0].strip() for line in _lines(source, [args])
    ],
)
where_it_breaks.wrong(
    "last_one_missing",
    "The last break is missing: Dynamo's list of reasons has one for each break.",
    where_it_breaks=lambda source, args: _lines(source, [args])[:-1],
)
where_it_breaks.wrong(
    "return_counted",
    "The `return` ends a graph and breaks none: nothing comes behind it.",
    where_it_breaks=lambda source, args: [*_lines(source, [args]), _suspects(source)[-1]],
)
where_it_breaks.wrong(
    "indented",
    INDENTED,
    where_it_breaks=lambda source, args: [f"    {line}" for line in _lines(source, [args])],
)
where_it_breaks.wrong(
    "reasons",
    "These are Dynamo's reasons. Each has a `user_stack`, whose last frame is the line.",
    where_it_breaks=lambda source, args: [reason.reason for reason in _reasons(source, [args])],
)


where_it_breaks.wrong(
    "nothing_found",
    "Nothing is listed, and Dynamo breaks here. Its explanation has a reason for each break.",
    where_it_breaks=lambda source, args: [],
)
where_it_breaks.wrong(
    "last_only",
    "Only the last break is here. Dynamo's list of reasons has one for each break.",
    where_it_breaks=lambda source, args: _lines(source, [args])[-1:],
)
where_it_breaks.wrong(
    "equal_lines_once",
    "Equal lines were listed once. Each break has a line, also where another one has the same "
    "text.",
    where_it_breaks=lambda source, args: list(dict.fromkeys(_lines(source, [args]))),
)
where_it_breaks.wrong(
    "how_many",
    "This is how many breaks there are. Their lines are asked for.",
    where_it_breaks=lambda source, args: len(_lines(source, [args])),
)
where_it_breaks.wrong(
    "in_one_text",
    "The lines came in one text. A list of lines is asked for.",
    where_it_breaks=lambda source, args: "\n".join(_lines(source, [args])),
)
where_it_breaks.wrong(
    "the_example",
    "This is the line of the example. Ask Dynamo about the program that comes.",
    where_it_breaks=lambda source, args: ["if y.sum() > 0:"],
)
where_it_breaks.wrong(
    "without_its_colon",
    "A line lost its colon. The line of the text was asked for, all of it but the indentation.",
    where_it_breaks=lambda source, args: [line.rstrip(":") for line in _lines(source, [args])],
)


@where_it_breaks.wrong(
    "with_their_numbers",
    "Each line came with its number. The lines alone are asked for.",
)
def _(source: str, args: Arguments) -> list[tuple[int, str]]:
    lines = _suspects(source)
    return [(lines.index(line) + 1, line) for line in _lines(source, [args])]


@where_it_breaks.wrong(
    "one_line_up",
    "These are the lines above. `lineno` counts from 1, a Python list from 0: the line is at "
    "`lineno - 1`.",
)
def _(source: str, args: Arguments) -> list[str]:
    lines = _suspects(source)
    return [lines[lines.index(line) - 1] for line in _lines(source, [args])]


@where_it_breaks.wrong(
    "text_stripped",
    "This is one line too far down, as where the empty line at the beginning is cut off. `lineno` "
    "counts it too.",
)
def _(source: str, args: Arguments) -> list[str]:
    lines = _suspects(source.strip())
    return [lines[reason.user_stack[-1].lineno - 1] for reason in _reasons(source, [args])]


@where_it_breaks.wrong(
    "counted_from_the_def",
    "This is one line too far up, as where lines are counted from the `def`. `lineno` counts from "
    "the first line of the text, which is empty here.",
)
def _(source: str, args: Arguments) -> list[str]:
    lines = _suspects(source)
    first = next(k for k, line in enumerate(lines, 1) if line.startswith("def "))
    return [lines[reason.user_stack[-1].lineno - first] for reason in _reasons(source, [args])]


where_it_breaks.wrong(
    "ifs_that_break",
    "Of the lines that break only the `if` is here. A line breaks as well where a number leaves "
    "the graph for Python, or where it asks for a break.",
    where_it_breaks=lambda source, args: [
        line for line in _lines(source, [args]) if line.startswith("if ")
    ],
)


@where_it_breaks.wrong(
    "last_operations",
    "These are the lines of each graph's last operation. What breaks comes behind it, often in "
    "another line: ask the `break_reasons`.",
)
def _(source: str, args: Arguments) -> list[str]:
    lines, ends = _suspects(source), list[str]()
    for graph_module in _graphs(source, [args]).graphs:
        nodes = [node for node in graph_module.graph.nodes if node.op.startswith("call_")]
        numbers = re.findall(r'"<step>", line (\d+)', nodes[-1].stack_trace or "")
        ends.append(lines[int(numbers[-1]) - 1])
    return ends[:-1]


def _searched(words: Sequence[str]) -> Callable[[str, Arguments], list[str]]:
    return lambda source, args: [n for n in _suspects(source) if any(w in n for w in words)]


def _begun(words: Sequence[str]) -> Callable[[str, Arguments], list[str]]:
    """As searched, but for an `if` at the beginning of a line alone."""
    return lambda source, args: [
        n for n in _suspects(source) if n.startswith("if ") or any(w in n for w in words)
    ]


WORDS = (
    "These lines hold words that often break. Whether a line breaks, Dynamo decides: an `if` on a "
    "shape does not, and `float(y.norm())` does."
)
where_it_breaks.wrong("searched_for_if_lines", WORDS, where_it_breaks=_begun([]))
where_it_breaks.wrong("searched_for_if_lines_and_items", WORDS, where_it_breaks=_begun([".item()"]))
for _name, _words in {
    "ifs": ("if ",),
    "items": (".item()",),
    "items_and_lists": (".item()", ".tolist()"),
    "ifs_and_items": ("if ", ".item()"),
    "all_of_them": ("if ", ".item()", ".tolist()"),
}.items():
    where_it_breaks.wrong(f"searched_for_{_name}", WORDS, where_it_breaks=_searched(_words))


@where_it_breaks.cost
def _(student: Student, draw: Draw) -> str:
    source, args = _program(draw, 2)
    broken = student.call("where_it_breaks", source, args)
    graphs = len(_graphs(source, [args]).graphs)
    return (
        f"{len(broken)} breaks: {graphs} graphs where there could be one; each break costs fusion"
    )
