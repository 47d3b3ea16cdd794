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


TREE = {
    "__init__.py": "if typing.TYPE_CHECKING:\n    from .a import first as one, second\n",
    "a.py": "first = second = 1\n",
    "b.py": "",
    "between.py": "from .a import first\n",
    "sub/__init__.py": "from .c import third\nfrom ..b import fourth\n",
    "sub/c.py": "from .. import b\nfrom ...p import sub\n",
    "sub/d.py": "import torch\nfrom torch import nn\nprint(torch.nn, nn.Linear)\n",
    "judge/__init__.py": "from .verdict import Verdict\n",
    "judge/verdict.py": "import json\n",
    "judge/alone.py": "import p.judge.verdict\n",
    "judge/notes.txt": "",
    "checks/labx/__init__.py": "from . import asked\n",
    "checks/labx/asked.py": "from p import one\n",
    "checks/labx/text.txt": "",
    "checks/labx/kernels/sm.ptx": "",
    "checks/labx/asked.pyc": "",
    "checks/laby.py": "import p.sub.c\n",
    "checks/beside.txt": "",
    "unused.py": "",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A package p of ours, with a judge and the checks of the labs x and y."""
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setitem(deciding.ROOTS, "p", tmp_path)
    monkeypatch.setattr(deciding, "JUDGE", "p.judge")
    monkeypatch.setattr(deciding, "CHECKS", "p.checks")
    deciding._nodes.cache_clear()  # of the tree of another test
    return tmp_path


JUDGE = ["judge/__init__.py", "judge/alone.py", "judge/verdict.py"]


@pytest.mark.parametrize(
    ("lab", "own"),
    [
        (
            "x",
            [
                "a.py",
                "checks/labx/__init__.py",
                "checks/labx/asked.py",
                "checks/labx/kernels/sm.ptx",
                "checks/labx/text.txt",
            ],
        ),
        ("y", ["b.py", "checks/laby.py", "sub/__init__.py", "sub/c.py"]),
    ],
)
def test_the_files_that_decide_are_each_named_once_in_order(tree, lab, own):
    found = [str(path.relative_to(tree)) for path in deciding_files(lab)]
    assert found == sorted([*own, *JUDGE])


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import p as q\nq.one\n", ["p.a"]),
        ("import p\np.second\n", ["p.a"]),
        ("import p\nprint(p.one.p, other.one)\n", ["p.a"]),
        ("import p\n", []),
        ("import p.sub\n", []),
        ("import p.sub\np.sub.third\n", ["p.sub"]),
        ("import p.sub as s\ns.third, s.fourth\n", ["p.sub.c", "p.b"]),
        ("import p.b as other\nother.one\n", ["p.b"]),
        ("import p.sub.c, p.b\n", ["p.sub.c", "p.b"]),
        ("from p import one, b\n", ["p.a", "p.b"]),
        ("from p import unknown\n", ["p"]),
        ("from p.b import one\n", ["p.b"]),
        ("from p.between import first\n", ["p.between"]),
        ("from p.sub import c, third\n", ["p.sub.c", "p.sub.c"]),
        ("from .sub import fourth\n", ["p.b"]),
        ("from torch import nn\nimport json\njson.loads\n", []),
        ("from p import b\nb.one\n", ["p.b"]),
        ("if TYPE_CHECKING:\n    import p.b\nelse:\n    import p.a\n", ["p.a"]),
        ("if DEBUG:\n    import p.b\nelse:\n    import p.a\n", ["p.b", "p.a"]),
    ],
)
def test_what_a_module_imports_is_what_it_depends_on(tree, text, modules):
    (tree / "user.py").write_text(text)
    assert sorted(m for m in deciding._imported("p.user") if deciding._file(m)) == sorted(modules)


@pytest.mark.parametrize(
    ("module", "modules"),
    [("p.sub", ["p.sub.c", "p.b"]), ("p.sub.c", ["p.b", "p.sub"]), ("p.sub.d", [])],
)
def test_a_relative_import_begins_where_its_module_lies(tree, module, modules):
    found = [m for m in deciding._imported(module) if deciding._file(m)]
    assert sorted(found) == sorted(modules)
