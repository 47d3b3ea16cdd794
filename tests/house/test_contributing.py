"""The question that CONTRIBUTING.md prints is a real one: added word for word to a copy of the
course, it passes the build, the self-test, the types and the lint."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "solutions/01_strides/01_strides.py"
CHECK = "autograder/checks/lab01_strides/row_bytes.py"
NEEDED = ("autograder", "onelayer", "solutions", "notebooks", "labs", "pyproject.toml")


def printed(marker: str) -> str:
    """The one code block of the guide that holds `marker`."""
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    (block,) = [block for block in blocks if marker in block]
    return textwrap.dedent(block)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course, in which somebody has done what the guide says, and built it."""
    root = tmp_path_factory.mktemp("course")
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, root / name)
    source = root / SOURCE
    before, free_text, after = source.read_text("utf-8").partition(
        '# %% [markdown] id="why-silent"'
    )
    assert free_text
    source.write_text(f"{before}{printed('BEGIN SOLUTION')}\n\n{free_text}{after}", "utf-8")
    (root / CHECK).write_text(printed("@lab.question"), "utf-8")
    with (root / CHECK).with_name("__init__.py").open("a") as questions:
        questions.write("from . import row_bytes\n")
    run(root, "autograder.authoring", "build")
    return root


def run(root: Path, module: str, *words: str) -> str:
    """What the command prints, run in `root`; it must succeed."""
    command = [sys.executable, "-m", module, *words]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_page_has_its_number_and_its_worth(course: Path) -> None:
    page = (course / "labs/01_strides/01_strides.ipynb").read_text("utf-8")
    assert "## 1.11 The bytes of a row" in page
    assert "*5 minutes · difficulty 1 of 5 · 1 point*" in page
    assert "## 1.12 In your own words" in page


@pytest.mark.slow
def test_the_self_test_finds_no_fault(course: Path) -> None:
    said = run(course, "autograder.cli", "selftest", "01_strides", "row_bytes")
    assert re.search(r"01_strides\W+1\W+2\W+3\W+0\W", said), said


@pytest.mark.slow
def test_the_self_test_of_the_copy_can_fail(course: Path) -> None:
    """The same command, after somebody changed a wrong answer into a right one."""
    check = course / CHECK
    right = check.read_text("utf-8")
    check.write_text(right.replace("itemsize: 4 * stride[0]", "itemsize: itemsize * stride[0]"))
    try:
        with pytest.raises(AssertionError, match="'always_float32' is not rejected"):
            run(course, "autograder.cli", "selftest", "01_strides", "row_bytes")
    finally:
        check.write_text(right, "utf-8")


@pytest.mark.slow
def test_the_types_hold(course: Path) -> None:
    if (ROOT / ".mypy_cache").is_dir():  # what it knows of torch holds here too
        shutil.copytree(ROOT / ".mypy_cache", course / ".mypy_cache")
    run(course, "mypy", CHECK)


@pytest.mark.parametrize("words", [("check",), ("format", "--check")])
def test_the_lint_is_clean(course: Path, words: tuple[str, ...]) -> None:
    run(course, "ruff", *words, CHECK, SOURCE)
