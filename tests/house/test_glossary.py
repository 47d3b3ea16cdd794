"""Every word that a module is called by stands in the glossary of docs/house.md."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
# A question is called by its function, an attack by its number in the threat model.
NAMED_OTHERWISE = re.compile(r"autograder/(checks/lab\d\d_\w+|attacks/corpus)/")


def glossary(page: str) -> set[str]:
    """The words of the lists, and those in the table's first column."""
    _, _, section = page.partition("## Glossary\n")
    lists = re.findall(r"^- \*\*.*?:\*\* (.*?)(?=^- |^$)", section, re.MULTILINE | re.DOTALL)
    rows = [row for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) if row != "ours"]
    return set(re.findall(r"[a-z0-9]+", " ".join([*lists, *rows])))


def words_of(files: Iterable[str]) -> dict[str, str]:
    """Each word in the name of a module or room -> the first file that is called by it."""
    found: dict[str, str] = {}
    for file in files:
        for name in Path(file).with_suffix("").parts[1:]:
            for word in [] if name.startswith("__") else name.split("_"):
                found.setdefault(word, file)
    return found


def modules() -> list[str]:
    roots = ("onelayer", "autograder", "setup_env")
    files = (f.relative_to(REPO).as_posix() for root in roots for f in (REPO / root).rglob("*.py"))
    return sorted(file for file in files if not NAMED_OTHERWISE.match(file))


@pytest.fixture(scope="module")
def known() -> set[str]:
    return glossary((REPO / "docs/house.md").read_text(encoding="utf-8"))


def test_no_module_is_called_by_a_private_word(known: set[str]) -> None:
    words = words_of(modules())
    assert len(words) > 100, "found nothing to check"
    assert {word: file for word, file in words.items() if word not in known} == {}


def test_a_planted_word_is_caught(known: set[str]) -> None:
    """A word that only its author knows, beside one that everybody does."""
    planted = words_of(["autograder/sandbox/host/warden.py", "onelayer/memory/traffic.py"])
    assert planted.keys() - known == {"warden"}
