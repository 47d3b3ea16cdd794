"""What decides a verdict is in the lab's version, and so in the journal's key: a checker that was
put right leaves no old verdict standing."""

from __future__ import annotations

from pathlib import Path

import pytest

import autograder.checks
from autograder.attacks.sample_class import ROOT
from autograder.classroom.intake import deciding
from autograder.classroom.intake.deciding import deciding_files
from autograder.classroom.intake.release import Release, releases

DISPATCHER, STRIDES = "02_dispatcher", "01_strides"
RELEASES = releases(ROOT)


def version(lab: str) -> str:
    """Computed anew: a Release remembers its own."""
    return Release(RELEASES[lab].lab, RELEASES[lab].notebook).version


def names(lab: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in deciding_files(lab)}


@pytest.fixture
def changed(monkeypatch):
    """Makes a file of ours read as one with another line."""
    read_bytes = Path.read_bytes

    def change(name: str) -> None:
        assert (ROOT / name).is_file()
        monkeypatch.setattr(
            Path,
            "read_bytes",
            lambda path: read_bytes(path) + b"\n# changed" * (path == ROOT / name),
        )

    return change


def test_a_text_that_a_question_shows_decides(changed):
    before = version("07_triton"), version(STRIDES)
    changed("autograder/checks/lab07_triton/ptx/sm_80.ptx")
    assert version("07_triton") != before[0]
    assert version(STRIDES) == before[1]


@pytest.mark.parametrize(
    "file",
    [
        "autograder/judge/compare.py",
        "autograder/judge/ask.py",
        "autograder/checks/explaining.py",  # shared by several labs
        "autograder/checks/lab02_dispatcher/__init__.py",
        "onelayer/dispatcher/dispatch.py",  # imported by a check of the lab
        "onelayer/memory/byte_count.py",  # imported by what is imported
    ],
)
def test_a_change_of_what_decides_changes_the_version(changed, file):
    before = version(DISPATCHER)
    changed(file)
    assert version(DISPATCHER) != before


@pytest.mark.parametrize(
    "file",
    [
        "autograder/checks/lab01_strides/__init__.py",  # another lab
        "autograder/notebook/__init__.py",
        "autograder/classroom/reports/page.py",
        "onelayer/__init__.py",  # hands names on, and decides nothing
        "onelayer/autograd/graph_view.py",
        "onelayer/compiler/unbuilt.py",
    ],
)
def test_a_change_elsewhere_changes_nothing(changed, file):
    before = version(DISPATCHER)
    changed(file)
    assert version(DISPATCHER) == before


def test_the_notebook_is_part_of_it():
    lab = RELEASES[STRIDES].lab
    assert Release(lab, RELEASES[STRIDES].notebook + b" ").version != version(STRIDES)


@pytest.mark.parametrize("lab", sorted(RELEASES))
def test_every_lab_has_its_checks_and_the_whole_judge(lab):
    judge = {f"autograder/judge/{p.name}" for p in (ROOT / "autograder/judge").glob("*.py")}
    own = Path(autograder.checks.__path__[0]).glob(f"lab{lab}/*.py")
    assert len(judge) > 5
    assert judge | {str(path.relative_to(ROOT)) for path in own} <= names(lab)


def test_a_name_that_a_package_hands_on_leads_to_the_file_that_defines_it(tmp_path, monkeypatch):
    """Also where it is said as an attribute, inside a function, and from a folder above."""
    texts = {
        "__init__.py": "from .a import first\nfrom .unused import other\n",
        "a.py": "first = 1\n",
        "b.py": "def late():\n    from ..p import c\n    return c.third\n",
        "c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import unused\n",
        "unused.py": "other = 1\n",
        "user.py": "import p\nimport p.b\nprint(p.first)\n",
    }
    (tmp_path / "p").mkdir()
    for name, text in texts.items():
        (tmp_path / "p" / name).write_text(text)
    monkeypatch.setitem(deciding.ROOTS, "p", tmp_path / "p")
    assert set(deciding._imported("p.user")) == {"p.b", "p.a"}
    assert set(deciding._imported("p.b")) == {"p.c"}
    assert set(deciding._imported("p.c")) == set()
