"""The page docs/matrix.md: what passed on which torch, and by name what did not."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

HEAD = """# The same course on every torch it promises

Written by `make matrix`, and not by hand: how to run it stands in
[CONTRIBUTING.md](../CONTRIBUTING.md#the-matrix). Each column is an environment of its own, measured
on the day it names. Seconds are of the clock on the wall, one thing after the other, with the start
of each notebook's kernel; on a busy machine they are longer.
"""
MISSED = ("failed", "skipped")


@dataclass(frozen=True)
class Outcome:
    """One test. unit: the chapter or lab it is about, "" where it is about none.
    state: "passed", "failed" or "skipped". why: one line, where it did not pass."""

    file: str
    test: str
    unit: str
    state: str
    seconds: float
    why: str


@dataclass(frozen=True)
class Measured:
    """A row of the matrix as it was found on a day. facts: what the environment says of itself."""

    torch: str
    python: str
    date: str
    commit: str
    facts: dict[str, str]
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> bool:
        """Whether something was tested, and nothing of it failed."""
        states = {outcome.state for outcome in self.outcomes}
        return "passed" in states and "failed" not in states

    @classmethod
    def from_json(cls, text: str) -> "Measured":
        """The row as `dataclasses.asdict` and JSON keep it."""
        kept = json.loads(text)
        outcomes = tuple(Outcome(**outcome) for outcome in kept.pop("outcomes"))
        return cls(**kept, outcomes=outcomes)


def tally(outcomes: Iterable[Outcome]) -> str:
    """How many of `outcomes` passed, failed and were skipped, and how long they took."""
    found = list(outcomes)
    if not found:
        return "not run"
    counts = Counter(outcome.state for outcome in found)
    parts = [f"{counts['passed']} passed"] if counts["passed"] else []
    parts += [f"**{counts['failed']} failed**"] if counts["failed"] else []
    parts += [f"{counts['skipped']} skipped"] if counts["skipped"] else []
    return f"{', '.join(parts)}, {sum(outcome.seconds for outcome in found):.1f} s"


def verdict(outcomes: Iterable[Outcome]) -> str:
    """The one outcome of a test of a unit: its state and its seconds."""
    for outcome in outcomes:
        state = "**failed**" if outcome.state == "failed" else outcome.state
        return f"{state}, {outcome.seconds:.1f} s"
    return "not run"


def page(rows: Sequence[Measured]) -> str:
    """The whole page, for the rows that were ever measured here."""
    units, others = about_units(rows), about_none(rows)
    parts = [
        HEAD,
        "## Environments\n",
        table("", rows, {name: fact(name) for name in facts_of(rows)}),
        "## Chapters and labs\n",
        table("", rows, {f"{said(t)}: {u}": of(t, u) for t, u in units}),
        "## Tests\n",
        table("file", rows, {f"`{file}.py`": within(file) for file in others}),
        "## What did not pass\n",
        "\n".join(missed(rows)) or "Nothing failed and nothing was skipped.",
    ]
    return "\n".join(parts) + "\n"


def table(
    corner: str, rows: Sequence[Measured], lines: dict[str, Callable[[Measured], str]]
) -> str:
    """A Markdown table: a column per row of the matrix, a line per name in `lines`."""
    head = [corner, *(f"torch {row.torch}" for row in rows)]
    body = [[name, *(cell(row) for row in rows)] for name, cell in lines.items()]
    texts = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in texts) + "\n"


def facts_of(rows: Sequence[Measured]) -> list[str]:
    """What is told of each environment, in order."""
    noted = dict.fromkeys(name for row in rows for name in row.facts)
    return ["all together", "measured on", "at commit", *noted]


def fact(name: str) -> Callable[[Measured], str]:
    """What a row says under `name`."""
    own: dict[str, Callable[[Measured], str]] = {
        "all together": lambda row: tally(row.outcomes),
        "measured on": lambda row: row.date,
        "at commit": lambda row: row.commit,
    }
    return own.get(name, lambda row: row.facts.get(name, "unknown"))


def about_units(rows: Sequence[Measured]) -> list[tuple[str, str]]:
    """Each test that is about single chapters or labs, with each unit that it is about."""
    pairs = dict.fromkeys((o.test, o.unit) for row in rows for o in row.outcomes if o.unit)
    order = list(dict.fromkeys(test for test, _ in pairs))
    return sorted(pairs, key=lambda pair: (order.index(pair[0]), pair[1]))


def about_none(rows: Sequence[Measured]) -> list[str]:
    """Each file with tests that are about no single unit."""
    found = (o.file for row in rows for o in row.outcomes if o.file and not o.unit)
    return sorted(dict.fromkeys(found))


def of(test: str, unit: str) -> Callable[[Measured], str]:
    """What a row says of a test of one unit."""
    return lambda row: verdict(o for o in row.outcomes if (o.test, o.unit) == (test, unit))


def within(file: str) -> Callable[[Measured], str]:
    """What a row says of a file's other tests."""
    return lambda row: tally(o for o in row.outcomes if o.file == file and not o.unit)


def said(test: str) -> str:
    """A test's name as a person says it."""
    return test.removeprefix("test_").replace("_", " ")


def missed(rows: Sequence[Measured]) -> list[str]:
    """A line for each test of each row that failed or was skipped, the failed ones first."""
    found = [(o, row) for row in rows for o in row.outcomes if o.state in MISSED]
    return [line(o, row) for o, row in sorted(found, key=lambda pair: pair[0].state)]


def line(o: Outcome, row: Measured) -> str:
    """What failed or was skipped, where, and why in a line."""
    why = o.why.replace("|", "\\|").replace("`", "'")[:300]
    name = f"{o.file}: {said(o.test)}" if o.file else o.test
    about = f" ({o.unit})" if o.unit else ""
    return f"- torch {row.torch}, **{o.state}**: {name}{about}: `{why}`"
