"""The command `autograder`: an instructor's mistake costs one line, never a traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile

import click
import pytest
from click.testing import CliRunner
from filelock import FileLock

from autograder import atomic_write, cli
from autograder.attacks.sample_class import NAME, PUPILS, ROOT
from autograder.classroom.intake import taking
from autograder.classroom.run import grading
from autograder.sandbox import Tier

pytestmark = pytest.mark.usefixtures("nothing_begins")


@pytest.fixture
def autograder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def hand_in(tmp_path):
    (tmp_path / "hand_in" / "ada").mkdir(parents=True)
    PUPILS["ada-all-right"].write(tmp_path / "hand_in" / "ada")
    return tmp_path / "hand_in"


@pytest.fixture
def no_jail(monkeypatch):
    """Nothing is to be run in these tests."""
    monkeypatch.setattr(grading, "probe", lambda: Tier("process", "There is no bwrap.", False))


def told(result):
    """The one line that an instructor reads."""
    assert result.exit_code == 1, result.output
    (line,) = result.output.strip().splitlines()
    assert line.startswith("Error: ")
    assert isinstance(result.exception, SystemExit)
    return line


def test_every_command_has_a_short_help(autograder):
    for name in cli.main.commands:
        done = autograder(name, "-h")
        assert done.exit_code == 0, name
        assert (
            f"Usage: {name}" in done.output
            or f"autograder {name}" in done.output
            or (f"main {name}" in done.output)
        )


def test_a_lab_goes_by_its_number(autograder, hand_in, no_jail):
    for number in ("1", "01", NAME):
        assert "There is no bwrap" in told(autograder("grade", hand_in, "--lab", number))
    assert "There is no lab '13'" in told(autograder("grade", hand_in, "--lab", "13"))


class TestOneLineFor:
    def test_a_folder_that_is_not_there(self, autograder):
        assert "There is no folder or zip archive" in told(autograder("grade", "nowhere"))

    def test_a_folder_without_notebooks(self, autograder, tmp_path):
        (tmp_path / "empty").mkdir()
        line = told(autograder("grade", "empty", "--lab", "01_strides"))
        assert "no notebook of 01_strides" in line

    def test_a_lab_that_the_course_does_not_have(self, autograder, hand_in):
        line = told(autograder("grade", hand_in, "--lab", "zzz"))
        assert "no lab 'zzz'" in line
        assert NAME in line

    def test_a_lab_that_is_misspelt(self, autograder, hand_in):
        line = told(autograder("grade", hand_in, "--lab", "01_stride"))
        assert "Did you mean 01_strides?" in line

    def test_a_folder_without_any_notebook(self, autograder, tmp_path):
        (tmp_path / "empty").mkdir()
        assert "There is no notebook in" in told(autograder("grade", "empty"))

    def test_a_notebook_instead_of_a_folder(self, autograder, hand_in):
        notebook = hand_in / "ada" / f"{NAME}.ipynb"
        assert "Name the folder" in told(autograder("grade", notebook))

    def test_a_cluster_of_no_kind_is_told_before_anything_is_read(self, autograder, tmp_path):
        for spec in ("nonsense", "local:0", "ssh:", "tcp:here"):
            line = told(autograder("grade", tmp_path / "not-there", "--cluster", spec))
            assert f"There is no cluster {spec!r}" in line

    def test_a_grading_folder_whose_name_is_a_pattern_is_told_before_it_is_graded(
        self, autograder, hand_in, tmp_path
    ):
        assert "contains one of" in told(autograder("grade", hand_in, "--out", "o[1]"))
        assert not list((tmp_path / "o[1]").glob("journal/*"))

    def test_a_gradebook_that_is_no_database(self, autograder, hand_in, tmp_path):
        (tmp_path / "grading").mkdir()
        (tmp_path / "grading" / "gradebook.db").write_text("x" * 4096)
        (tmp_path / "grading" / "roll").mkdir()
        (tmp_path / "grading" / "roll" / f"{NAME}.json").write_text("[]")
        line = told(autograder("report"))
        assert "is damaged. Put back a copy" in line

    def test_something_that_is_no_archive(self, autograder, tmp_path):
        (tmp_path / "class.zip").write_bytes(b"hello")
        assert "as a zip archive" in told(autograder("grade", "class.zip"))

    def test_a_damaged_archive(self, autograder, hand_in, tmp_path):
        with zipfile.ZipFile("class.zip", "w") as archive:
            archive.write(hand_in / "ada" / f"{NAME}.ipynb", f"ada/{NAME}.ipynb")
        data = (tmp_path / "class.zip").read_bytes()
        (tmp_path / "class.zip").write_bytes(data[: len(data) // 2])
        assert "as a zip archive" in told(autograder("grade", "class.zip"))

    def test_a_host_without_walls(self, autograder, hand_in, no_jail):
        line = told(autograder("grade", hand_in))
        assert "There is no bwrap." in line
        assert "--i-trust-students" in line

    @pytest.mark.parametrize("out", ["file", "file/below", "/proc/grading"])
    def test_a_grading_folder_that_cannot_be(self, autograder, hand_in, out, tmp_path):
        (tmp_path / "file").write_text("in the way")
        line = told(autograder("grade", hand_in, "--out", out))
        assert "Cannot write into" in line
        assert line.rstrip().endswith("Name another folder: --out")

    def test_a_hand_in_inside_the_grading_folder(self, autograder, hand_in, tmp_path):
        assert "inside the grading folder" in told(autograder("grade", hand_in, "--out", tmp_path))

    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
    def test_a_disk_that_takes_nothing(self, autograder, hand_in, monkeypatch, code):
        def full(*arguments, **options):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(atomic_write, "write", full)
        assert os.strerror(code) in told(autograder("grade", hand_in))

    def test_another_grader_at_work(self, autograder, hand_in, tmp_path):
        (tmp_path / "grading").mkdir()
        with FileLock(tmp_path / "grading" / ".lock"):
            assert "Another `autograder` is at work" in told(autograder("grade", hand_in))

    def test_a_course_without_labs(self, autograder, hand_in):
        assert "no labs/ folder" in told(autograder("grade", hand_in, "--course", hand_in))

    def test_a_secret_that_was_cut_off(self, autograder, hand_in, tmp_path):
        (tmp_path / "grading").mkdir()
        (tmp_path / "grading" / "seed").write_bytes(b"x")
        assert "is damaged" in told(autograder("grade", hand_in))


def test_a_class_that_cannot_be_graded_needs_no_sandbox_and_is_listed(
    autograder, hand_in, no_jail, tmp_path
):
    (hand_in / "ada" / f"{NAME}.ipynb").write_bytes(b"{")
    result = autograder("grade", hand_in)
    assert result.exit_code == 0, result.output
    assert "ungradable" in result.output
    assert "ada" in (tmp_path / "grading" / "ungradable.csv").read_text()


def test_nothing_is_written_beside_the_grading_folder(autograder, hand_in, no_jail, tmp_path):
    before = {path: path.read_bytes() for path in hand_in.rglob("*") if path.is_file()}
    autograder("grade", hand_in)
    assert {p.name for p in tmp_path.iterdir()} == {"hand_in", "grading"}
    assert {path: path.read_bytes() for path in hand_in.rglob("*") if path.is_file()} == before


def test_ctrl_c_is_answered_with_how_to_go_on(autograder, hand_in, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(taking, "files_in", interrupted)
    result = autograder("grade", hand_in)
    assert result.exit_code == 130
    assert "goes on where it was" in result.output


def test_doctor_names_the_tier_and_why(autograder, monkeypatch):
    from autograder.classroom.commands import doctor

    monkeypatch.setattr(doctor, "probe", lambda: Tier("process", "There is no bwrap.", False))
    result = autograder("doctor")
    assert result.exit_code == 1
    assert "process: There is no bwrap." in result.output
    assert "cgroups" in result.output
    assert "refuses here" in result.output
    monkeypatch.setattr(doctor, "probe", lambda: Tier("bubblewrap", "All walls stand.", True))
    result = autograder("doctor")
    assert result.exit_code == 0
    assert "refuses" not in result.output


@pytest.mark.parametrize(("faults", "code"), [(0, 0), (1, 1), (256, 1)])
def test_selftest_fails_when_the_course_does(autograder, monkeypatch, faults, code):
    from autograder import selftest

    monkeypatch.setattr(selftest, "run", lambda root, labs, only, seeds: faults)
    assert autograder("selftest", "--course", ROOT).exit_code == code


def test_selftest_asks_one_question(autograder, monkeypatch):
    from autograder import selftest

    asked = []
    monkeypatch.setattr(
        selftest, "run", lambda root, labs, only, seeds: asked.append((labs[0].name, only, seeds))
    )
    assert autograder("selftest", "01", "address", "--course", ROOT).exit_code == 0
    assert autograder("selftest", "01", "--seeds", "50", "--course", ROOT).exit_code == 0
    assert asked == [("01_strides", "address", None), ("01_strides", "", 50)]


def test_selftest_asks_the_mutants_of_the_answers(autograder, monkeypatch):
    from autograder import answer_mutants

    asked = []
    monkeypatch.setattr(
        answer_mutants, "run", lambda root, lab, only: asked.append((lab.name, only)) or 2
    )
    result = autograder("selftest", "01", "address", "--mutants", "--course", ROOT)
    assert (result.exit_code, asked) == (1, [("01_strides", "address")])


@pytest.mark.parametrize(
    ("words", "says"), [(["99"], "no lab '99'"), (["01", "adress"], 'Did you mean "address"')]
)
def test_selftest_names_what_there_is(autograder, words, says):
    result = autograder("selftest", *words, "--course", ROOT)
    assert result.exit_code == 1
    assert says in result.output


def test_build_is_the_authors_command(autograder, monkeypatch):
    from autograder.authoring import build_command

    seen = []

    @click.command()
    @click.option("--check", is_flag=True)
    def build(check):
        seen.append(check)

    monkeypatch.setattr(build_command, "build_command", build)
    assert autograder("build", "--check").exit_code == 0
    assert seen == [True]


def test_help_is_quick():
    """It imports neither torch nor nbgrader."""
    program = (
        "import sys\nfrom autograder import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "assert not {'torch', 'nbgrader', 'sqlalchemy'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for name in ("grade", "report", "explain", "doctor", "selftest", "build"):
        assert name in done.stdout
