"""Which tests `make test` takes of many, and the page of what `make thorough` saw."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import samples

REPO = Path(__file__).resolve().parents[2]
PLANTED = """
import pytest
from tests.samples import sample

@pytest.mark.parametrize("one", sample(["a", "b", "c"], ["b"]))
def test_one(one):
    pass

@pytest.mark.parametrize(("one", "two"), sample([(1, 2), (3, 4)], [(1, 2)]))
def test_two(one, two):
    assert two == one + 1
"""


def ran(folder: Path, *options: str) -> str:
    (folder / "test_planted.py").write_text(PLANTED)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  thorough: of ours\n")
    words = [sys.executable, "-m", "pytest", "-p", "tests.samples", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, "-v", *options, "."],
        cwd=folder,
        env={"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("options", "wanted"),
    [((), ["one[b]", "two[1-2]"]), (("--thorough",), ["one[a]", "one[c]", "two[3-4]"])],
)
def test_each_test_is_of_one_kind(
    tmp_path: Path, options: tuple[str, ...], wanted: list[str]
) -> None:
    said = ran(tmp_path, *options)
    assert [line.split()[0] for line in said.splitlines() if line.endswith("%]")] == [
        f"test_planted.py::test_{name}" for name in wanted
    ]
    assert f"{5 - len(wanted)} deselected" in said


@pytest.mark.parametrize("taken", [[], ["d"], ["a", "d"]])
def test_a_sample_of_nothing_is_refused(taken: list[str]) -> None:
    with pytest.raises(ValueError, match="a sample of what is not there"):
        samples.sample(["a", "b"], taken)


def test_the_page_tells_what_failed_and_what_was_skipped() -> None:
    files = {
        "passed": Counter({"tests/b.py": 2, "tests/a.py": 30}),
        "failed": Counter({"tests/c.py": 1}),
        "skipped": Counter(),
    }
    text = samples.page(files, datetime.date(2026, 1, 2), "abc123")
    assert "Seen on 2026-01-02 at commit abc123: 32 passed, 1 failed, 0 skipped." in text
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [
        "| `tests/a.py` | 30 | 0 | 0 |",
        "| `tests/b.py` | 2 | 0 | 0 |",
        "| `tests/c.py` | 0 | 1 | 0 |",
    ]
