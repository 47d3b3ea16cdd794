"""Each wall of the jail by itself: there by default, named where missing, refused by grading."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import autograder
from autograder.classroom.run import work
from autograder.classroom.run.job import Job
from autograder.judge import GraderFault, Lab
from autograder.sandbox import Cell, Jail
from autograder.sandbox.engines import bubblewrap
from autograder.sandbox.engines.isolation import WALLS, known, place_name
from autograder.sandbox.inside import face, landlock

PACKAGE = Path(autograder.__file__).parent


def test_an_ordinary_jail_leaves_no_wall_out():
    assert Jail().without == frozenset()
    assert place_name("bubblewrap", frozenset()) == "bubblewrap"


def test_a_wall_that_does_not_exist_cannot_be_left_out():
    with pytest.raises(ValueError, match="no such wall: roof"):
        Jail(without=["roof", "seccomp"])
    assert known(WALLS) == set(WALLS)


def test_grading_refuses_a_jail_with_a_hole():
    job = Job("ada", "00_none", "key", "sha", (), 0, {}, frozenset())
    with pytest.raises(GraderFault, match="without seccomp is not for grading"):
        work.grade(job, Lab("00_none", "None"), Jail(without=["seccomp"]))


def test_only_the_attacks_leave_a_wall_out():
    """No option, no variable, no argument of grading leads there."""
    passing = re.compile(r"\bwithout\s*=")
    outside = [
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if passing.search(path.read_text()) and PACKAGE / "sandbox" not in path.parents
    ]
    assert {path.parts[0] for path in outside} <= {"attacks"}


def test_the_questions_cannot_be_seen_even_where_everything_lies_in_one_folder():
    """As after a plain `pip install`: the package lies among all others, which are bound."""
    assert not any(path.endswith("checks") for path in bubblewrap.own_code())
    above = str(PACKAGE.parent)
    assert str(PACKAGE / "checks") in bubblewrap.hidden([above])
    assert str(PACKAGE / "judge") not in bubblewrap.hidden([above])
    assert bubblewrap.hidden([str(PACKAGE / "checks")]) == []


def test_solutions_are_hidden_where_the_whole_course_lies_below_what_is_bound(
    monkeypatch, tmp_path
):
    for name in ("autograder/judge", "labs", "solutions", "tests"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(bubblewrap, "package_root", lambda: tmp_path)
    both = [str(tmp_path / name) for name in ("solutions", "tests")]
    assert bubblewrap.hidden([str(tmp_path)]) == both
    assert bubblewrap.hidden([str(tmp_path.parent)]) == both
    assert bubblewrap.hidden([str(tmp_path / "labs")]) == []


@pytest.mark.jail
def test_the_face_takes_the_place_of_the_questions():
    source = """
from autograder import answered, check, hint, predict, progress, reveal
from autograder.notebook import doctor
with answered():
    raise ValueError("of an answer above")
def f():
    check("address"); hint("address"); progress(); predict("a", "b"); reveal("a"); doctor()
    try:
        from autograder.checks import labs  # the folder may be seen, empty
    except ImportError:
        return "not there"
"""
    with Jail(readable=[PACKAGE]) as jail, jail.open([Cell("look", source)]) as student:
        assert student.cells[0].error is None, student.cells
        student.begin(may_write=False)
        assert student.call("f") == "not there"


def test_the_face_has_every_function_of_the_notebook():
    from autograder import notebook

    assert set(face.FUNCTIONS) == set(notebook.__all__)


def test_landlock_takes_away_no_more_than_its_version_knows():
    known_bits = {1: 13, 2: 14, 3: 15, 7: 15}
    for version, bits in known_bits.items():
        assert landlock.rights(version) < 1 << bits
    assert landlock.rights(1) & 1 == 0, "executing is left to the mounts"


@pytest.mark.jail
@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
@pytest.mark.parametrize(
    ("lent", "said"), [("/dev/null", "named"), ("/dev/none", "PermissionError")]
)
def test_a_submission_that_is_lent_a_gpu_may_name_its_threads(lent, said):
    """CUDA does, and ends with error 304 where it cannot: seen on an H100 behind Landlock."""
    program = (
        "import ctypes, os; from autograder.sandbox.inside import landlock\n"
        "ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # no new privileges\n"
        f"landlock.GPU = {lent!r}; landlock.install()\n"
        "try: open(f'/proc/self/task/{os.getpid()}/comm', 'w').write('cuda'); print('named')\n"
        "except OSError as error: print(type(error).__name__)\n"
        "try: open('/etc/hostname', 'a')\n"
        "except PermissionError: print('held')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [said, "held"], done.stderr


def test_without_landlock_in_the_kernel_the_jail_still_stands(monkeypatch):
    monkeypatch.setattr(landlock, "version", lambda: 0)
    landlock.install()  # in this very process: it must not bind it
    assert Path("/proc/self/comm").write_text("pytest")


def test_packages_beside_the_interpreter_come_along_and_their_neighbours_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU node, where torch is the node's own and the rest is a folder on PYTHONPATH."""
    for folder in ("site/IPython", "homework"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    assert bubblewrap.sites() == []
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), str(tmp_path), *sys.path])
    assert bubblewrap.sites() == [str(tmp_path / "site")]
    assert str(tmp_path / "site") in bubblewrap.visible()
    assert not any(str(tmp_path) == path for path in bubblewrap.visible())
    command = " ".join(bubblewrap.python("pass"))
    assert f"'{tmp_path / 'site'}'" in command
    assert "homework" not in command
