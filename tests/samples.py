"""Of many tests that differ little, `make test` runs some, and `make thorough` the others.

Those others are marked `thorough`. In the dark one page of the site is read like the next, and a
reader's rules take ten seconds for each; untouched, each lab says the same of its questions. What
`make thorough` saw it writes down in docs/thorough.md, with its date.
"""

from __future__ import annotations

import datetime
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "thorough.md"
ABOVE = """\
# What is too much for every change

Written by `make thorough`, and not by hand: the tests of which `make test` runs a sample. Run it
before a release, and after a change to what all pages or all labs share.

Seen on {day} at commit {commit}: {said}.

| tests of | passed | failed | skipped |
| --- | --- | --- | --- |
"""
COLUMNS = ("passed", "failed", "skipped")


def sample(cases: Iterable[Any], taken: Collection[Any]) -> list[Any]:
    """The values of `cases` for `pytest.mark.parametrize`, all but those `taken` marked `thorough`.
    Each of `taken` has to be a case: else nothing would be run in its name."""
    cases = list(cases)
    if not taken or any(case not in cases for case in taken):
        raise ValueError(f"a sample of what is not there: {taken}")
    return [case if case in taken else _left(case) for case in cases]


def _left(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thorough)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="what `make test` leaves out")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--thorough")
    others = [item for item in items if bool(item.get_closest_marker("thorough")) != wanted]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Of a whole run, and of no part of it that somebody asked for, writes the page."""
    is_whole = config.args_source is not config.ArgsSource.ARGS and not config.option.collectonly
    if config.getoption("--thorough") and is_whole:
        seen = {name: terminalreporter.stats.get(name, []) for name in (*COLUMNS, "error")}
        files = {
            name: Counter(report.nodeid.partition("::")[0] for report in reports)
            for name, reports in seen.items()
        }
        files["failed"] += files.pop("error")
        PAGE.write_text(page(files, datetime.date.today(), _commit()), "utf-8")


def page(files: Mapping[str, Counter[str]], day: datetime.date, commit: str) -> str:
    """The page in Markdown. files: for each of COLUMNS how many tests of which file."""
    names = sorted(set().union(*files.values()))
    said = ", ".join(f"{files[name].total()} {name}" for name in COLUMNS)
    rows = [[f"`{file}`", *(str(files[name][file]) for name in COLUMNS)] for file in names]
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return ABOVE.format(day=day, commit=commit, said=said) + "".join(lines)


def _commit() -> str:
    words = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
