"""`make matrix` without its environments: what it runs, what its page shows, what it returns.

The rows run on this Python and its torch, with planted files of tests in place of the course's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench import matrix, matrix_page

UNIT = "import pytest\n\n@pytest.mark.parametrize('unit', ['01_strides'])\n"
GOOD = f"{UNIT}def test_it(unit): pass\n"
BAD = f"{UNIT}def test_it(unit): assert unit == 'x'\n"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, whose rows all run on the Python of this test."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "constraints.txt").write_text(
        "# pins\nnumpy==2.4.6\nsetuptools==84.2.1\ntorch==2.13.0\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n'
    )
    monkeypatch.setattr(matrix, "ROOT", tmp_path)
    monkeypatch.setattr(matrix, "COURSE", "tests/matrix_course")
    monkeypatch.setattr(matrix, "environment", lambda row: Path(sys.executable))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they are not needed, and slow
    monkeypatch.setattr(matrix, "files", lambda: sorted((tmp_path / "tests").glob("*.py")))
    return tmp_path


def plant(root: Path, name: str, source: str) -> None:
    (root / "tests" / f"{name}.py").write_text(source)


def shown(root: Path) -> str:
    return (root / "docs" / "matrix.md").read_text()


def test_what_passes_is_shown_by_unit_and_by_file_and_the_exit_code_is_0(planted: Path) -> None:
    plant(planted, "matrix_course", GOOD)
    plant(planted, "test_bytes", "def test_a(): pass\n\ndef test_b(): pass\n")
    assert matrix.main(["2.13"]) == 0
    text = shown(planted)
    assert "| it: 01_strides | passed, 0.0 s |" in text
    assert "| `tests/test_bytes.py` | 2 passed, 0.0 s |" in text
    assert "Nothing failed and nothing was skipped." in text


def test_what_fails_is_shown_by_name_in_its_own_row_and_the_exit_code_is_1(planted: Path) -> None:
    plant(planted, "matrix_course", GOOD)
    assert matrix.main(["2.11"]) == 0
    plant(planted, "matrix_course", BAD)
    assert matrix.main(["2.15"]) == 1
    text = shown(planted)
    assert "| it: 01_strides | passed, 0.0 s | **failed**, 0.0 s |" in text
    assert "- torch 2.15, **failed**: tests/matrix_course: it (01_strides): `AssertionError" in text
    assert "torch 2.11, **failed**" not in text
    plant(planted, "matrix_course", GOOD)
    assert matrix.main(["2.15"]) == 0
    assert "**failed**" not in shown(planted)


OTHER_WAYS = {
    "a_death": ("import os\n\ndef test_x(): os._exit(6)\n", "pytest ended with exit code 6"),
    "a_late_death": (
        "import atexit, os\n\natexit.register(os._exit, 7)\n\ndef test_x(): pass\n",
        "pytest ended with exit code 7",
    ),
    "an_import": ("import nowhere\n", "collection failure"),
    "no_tests": ("x = 1\n", "pytest ended with exit code 5"),
    "a_warning": ("import warnings\n\ndef test_x(): warnings.warn('w')\n", "UserWarning: w"),
    "a_fixture": ("def test_x(nothing): pass\n", "failed on setup"),
}


@pytest.mark.slow
def test_every_other_way_to_fail_is_a_failure_too(planted: Path) -> None:
    plant(planted, "test_good", "def test_y(): pass\n")
    for name, (source, _) in OTHER_WAYS.items():
        plant(planted, name, source)
    assert matrix.main(["2.13"]) == 1
    told = [line for line in shown(planted).splitlines() if line.startswith("- ")]
    for name, (_, said) in OTHER_WAYS.items():
        (line,) = [line for line in told if f"**failed**: tests/{name}:" in line]
        assert said in line
    assert len(told) == len(OTHER_WAYS)


def test_what_is_skipped_is_named_and_nothing_but_skipped_is_no_pass(planted: Path) -> None:
    plant(planted, "test_x", "import pytest\n\ndef test_x(): pytest.skip('no jail | here')\n")
    assert matrix.main(["2.13"]) == 1
    assert "- torch 2.13, **skipped**: tests/test_x: x: `no jail \\| here`" in shown(planted)


def test_nothing_to_run_is_a_failure(planted: Path) -> None:
    assert matrix.main(["2.13"]) == 1


def test_a_file_that_never_ends_is_stopped(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "PATIENCE_S", 0.05)
    plant(planted, "test_x", "def test_x(): pass\n")
    assert matrix.main(["2.13"]) == 1
    assert "exit code 124" in shown(planted)


def test_the_facts_that_the_course_notes_stand_on_the_page_and_no_others(planted: Path) -> None:
    note = "def test_x(record_testsuite_property): record_testsuite_property('torch', '{}')\n"
    plant(planted, "matrix_course", note.format("2.15.7+x"))
    plant(planted, "test_x", note.format("another"))
    matrix.main(["2.15"])
    assert "| torch | 2.15.7+x |" in shown(planted)
    assert "another" not in shown(planted)


# ---- environments -------------------------------------------------------------------------------


def test_a_missing_python_is_one_line_and_a_failed_row(
    planted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(matrix, "ROOT", planted)
    monkeypatch.setattr(matrix, "answers", lambda command: False)
    assert matrix.main(["2.11"]) == 1
    line = "Row 2.11 needs Python 3.13 and none runs here: put python3.13 on the PATH"
    assert capsys.readouterr().err.strip() == line
    assert f"- torch 2.11, **failed**: the environment: `{line}`" in shown(planted)


def program(path: Path, exits: int, says: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {exits}\n")
    path.chmod(0o755)
    return path


def test_a_shim_that_does_not_run_is_passed_over_for_pyenvs_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = program(tmp_path / "shims" / "python3.13", exits=127)
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(matrix.Unmade, match=r"needs Python 3\.13 and none runs here"):
        matrix.python_for(matrix.ROWS["2.11"])
    own = program(tmp_path / "versions" / "3.13.0" / "bin" / "python", exits=0)
    assert matrix.python_for(matrix.ROWS["2.11"]) == str(own)


def test_an_environment_that_cannot_be_made_is_a_failed_row_with_the_reason(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(matrix, "ROOT", planted)
    full = program(planted / "python", exits=1, says="Cannot go on. The disk is full")
    monkeypatch.setattr(matrix, "python_for", lambda row: str(full))
    assert matrix.main(["2.15"]) == 1
    said = "- torch 2.15, **failed**: the environment: `Cannot go on. The disk is full`"
    assert said in shown(planted)


def test_a_row_that_is_none_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["2.12"]) == 2
    assert capsys.readouterr().err == "No row 2.12: there are 2.11, 2.13, 2.15.\n"


def test_a_row_keeps_every_pin_but_those_that_it_cannot(planted: Path) -> None:
    rows = matrix.ROWS
    assert matrix.constraints(rows["2.15"]) == "numpy==2.4.6\nsetuptools==84.2.1\ntorch==2.15.*\n"
    changed = "setuptools<82\nnumpy<2.4\ntorch==2.11.*\n"
    assert matrix.constraints(rows["2.11"]) == changed


def test_the_rows_are_the_oldest_the_pinned_and_the_newest_torch_on_each_python() -> None:
    assert [row.torch for row in matrix.ROWS.values()] == ["2.11", "2.13", "2.15"]
    assert {row.python for row in matrix.ROWS.values()} == {"3.11", "3.12", "3.13"}
    assert "\ntorch==2.13.0\n" in (matrix.ROOT / "constraints.txt").read_text()
    assert '"torch>=2.11,<2.16"' in (matrix.ROOT / "pyproject.toml").read_text()


def test_what_imports_onelayer_is_run_and_so_are_the_notebooks() -> None:
    names = {path.stem for path in matrix.files()}
    assert names >= {"matrix_course", "test_notebooks", "test_dispatch", "test_storage"}
    assert "test_house" not in names
    assert all(path.is_file() for path in matrix.files())


def test_nothing_of_another_environment_is_found_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    variables = matrix.own_variables(matrix.ROWS["2.11"])
    assert "PYTHONPATH" not in variables
    assert variables["PATH"].startswith(str(matrix.ROOT / ".venv-matrix-2.11" / "bin"))


def test_a_row_is_read_back_as_it_was_kept(planted: Path) -> None:
    plant(planted, "matrix_course", GOOD)
    matrix.main(["2.13"])
    (again,) = matrix.remembered()
    assert matrix_page.page([again]) == shown(planted)
    assert again.passed
