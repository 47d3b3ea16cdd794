"""`autograder release`: a folder that nbgrader's exchange can give a lab out from."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock

from autograder import checks, cli
from autograder.attacks.sample_class import NAME, ROOT
from autograder.authoring.language import others
from autograder.classroom.store import roster, variants

GIVEN_OUT = (ROOT / "labs" / NAME / f"{NAME}.ipynb").read_bytes()


@pytest.fixture
def autograder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        command = [*map(str, arguments), "--course", str(ROOT)]
        return CliRunner().invoke(cli.main, command)

    return run


def test_nothing_in_the_folder_knows_an_answer(autograder):
    done = autograder("release", "01")
    assert done.exit_code == 0, done.output
    assert "nbgrader release_assignment 01_strides" in done.output
    notebooks = sorted(Path("grading").rglob("*.ipynb"))
    assert [path.parts[1] for path in notebooks] == ["release", "source"]
    assert {path.read_bytes() for path in notebooks} == {GIVEN_OUT}


def test_a_folder_of_an_earlier_version_loses_its_solutions(autograder):
    """It kept the instructor's notebook as the source."""
    source = Path("grading", "source", NAME, f"{NAME}.ipynb")
    source.parent.mkdir(parents=True)
    source.write_bytes((ROOT / "solutions" / NAME / f"{NAME}.ipynb").read_bytes())
    assert autograder("release", NAME).exit_code == 0
    assert source.read_bytes() == GIVEN_OUT


def test_what_can_be_put_right_is_one_line(autograder, tmp_path):
    assert "There is no lab '99'" in autograder("release", "99").output
    (tmp_path / "grading").mkdir()
    with FileLock(tmp_path / "grading" / ".lock"):
        assert "at work" in autograder("release", NAME).output


ENROLLED = "student,name\nada,Ada\nbob,Bob\ncy,Cy\n"
ELEVEN = "11_distributed"


def copies():
    """By student, the notebook that lies in their folder in each language."""
    made = {}
    for path in Path("grading", "handouts", ELEVEN).rglob("*.ipynb"):
        student, *language = path.parts[3:-1]
        made[student, *language] = path.read_bytes()
    return made


def test_each_student_gets_a_copy_of_their_own(autograder):
    Path("class.csv").write_text(ENROLLED)
    done = autograder("release", "11_distributed", "--variants", "class.csv")
    assert done.exit_code == 0, done.output
    assert "a folder for each of 3 students" in done.output
    made = copies()
    editions = [(), *((one.code,) for one in others(ROOT))]
    assert made.keys() == {(name, *code) for name in ("ada", "bob", "cy") for code in editions}
    public = (ROOT / "labs" / ELEVEN / f"{ELEVEN}.ipynb").read_bytes()
    assert public not in made.values()
    again = autograder("release", "11", "--variants", "class.csv")
    assert (again.exit_code, copies()) == (0, made)
    given_out = Path("grading", "release", ELEVEN, f"{ELEVEN}.ipynb")
    assert given_out.read_bytes() == public


def test_who_handed_in_before_keeps_the_public_numbers(autograder):
    Path("class.csv").write_text(ENROLLED)
    assert autograder("release", ELEVEN).exit_code == 0
    roster.update(Path("grading"), ELEVEN, [roster.Line("bob", "bob/x.ipynb", key="0" * 64)])
    for _ in range(2):
        done = autograder("release", ELEVEN, "--variants", "class.csv")
        assert "1 who handed in before keep the public numbers: bob" in done.output
        assert sorted(variants.read(Path("grading"), checks.lab(ELEVEN))) == ["ada", "cy"]
        assert {student for student, *_ in copies()} == {"ada", "cy"}
        (Path("grading") / "variants" / f"{ELEVEN}.json").unlink()  # lost, and made anew


def test_a_lab_without_such_numbers_is_refused_in_one_line(autograder):
    Path("class.csv").write_text(ENROLLED)
    done = autograder("release", "01", "--variants", "class.csv")
    assert done.exit_code != 0
    assert "01_strides has no question with numbers of its own" in done.output
    assert "05_memory_and_time, 11_distributed" in done.output
    assert not Path("grading").exists()
