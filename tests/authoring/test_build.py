"""The build: what notebooks come out, byte for byte, and what a kill or a second build leaves."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import sysconfig
import tokenize
from contextlib import redirect_stdout
from pathlib import Path

import nbformat
import pytest

from autograder.authoring import build, drift
from autograder.authoring.address import BRANCH, REPOSITORY, binder, colab
from tests.authoring.tiny_course import (
    CHAPTER_NOTEBOOK,
    CHAPTER_SOURCE,
    HOME,
    LAB_NOTEBOOK,
    LAB_SOURCE,
    NOTEBOOKS,
    SOURCES,
    STUDENT,
    cell,
    edit,
    files,
    read,
    text,
    write,
    write_course,
)

BUILD = """
import pathlib, sys
from autograder.authoring import build
build(pathlib.Path(sys.argv[1]))
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def course(tmp_path: Path) -> Path:
    write_course(tmp_path)
    build(tmp_path)
    return tmp_path


def run_python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_source_becomes_its_notebooks(tmp_path: Path) -> None:
    write_course(tmp_path)
    assert build(tmp_path).written == NOTEBOOKS
    assert drift(tmp_path) == ()
    for path in NOTEBOOKS:
        nbformat.validate(nbformat.read(tmp_path / path, as_version=4))


def test_an_answer_in_cpp_loses_its_region_to_an_error_of_the_compiler(course: Path) -> None:
    """The stub of Python would be a line of text in a string: C++ has an error of its own."""
    between = '        ### BEGIN SOLUTION\n        self.n = getattr(self, "n", 0) - 1\n'
    cpp = (
        '        return r"""',
        "    // BEGIN SOLUTION",
        "    // down",
        "    --n;",
        "    // END SOLUTION",
    )
    edit(course, LAB_SOURCE, between + "        ### END SOLUTION\n", "\n".join(cpp) + '\n"""\n')
    above = "                ### BEGIN SOLUTION\n                self.n = math.prod([n, 1])\n"
    edit(course, LAB_SOURCE, above + "                ### END SOLUTION\n", "                pass\n")
    build(course)
    stub = text(course, STUDENT, "Counter")
    assert '    // about 1 line\n    #error "Lab 1.3: Counter, about 1 line"\n' in stub
    assert "--n" not in stub
    assert "NotImplementedError" not in stub


def test_a_second_build_writes_nothing(course: Path) -> None:
    before = {path: (course / path).stat().st_mtime_ns for path in NOTEBOOKS}
    changes = build(course)
    assert (changes.written, changes.removed, changes.unchanged) == ((), (), NOTEBOOKS)
    assert {path: (course / path).stat().st_mtime_ns for path in NOTEBOOKS} == before


def test_only_what_an_edit_touches_is_written(course: Path) -> None:
    edit(course, CHAPTER_SOURCE, "Where does", "Where exactly does")
    assert build(course).written == (CHAPTER_NOTEBOOK,)


@pytest.mark.slow
def test_bytes_do_not_depend_on_hash_order_place_time_or_locale(tmp_path: Path) -> None:
    for name, seed, zone in (("one", "1", "UTC"), ("another-longer-name", "2", "Asia/Tokyo")):
        write_course(tmp_path / name)
        done = run_python(BUILD, str(tmp_path / name), PYTHONHASHSEED=seed, TZ=zone, LC_ALL="C")
        assert done.returncode == 0, done.stderr
    one, other = files(tmp_path / "one"), files(tmp_path / "another-longer-name")
    assert set(NOTEBOOKS) < set(one)
    assert one == other


def test_the_form_of_the_file(course: Path) -> None:
    for path in NOTEBOOKS:
        content = (course / path).read_bytes()
        assert content.endswith(b"}\n")
        assert not content.endswith(b"\n\n")
        assert b"\r" not in content
        assert content.startswith(b'{\n "cells": [\n  {\n   "cell_type"')
        notebook = read(course, path)
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        told = notebook["metadata"]["language_info"]
        assert told == {"name": "python", "file_extension": ".py"}  # else nbconvert writes .txt
        for one in notebook["cells"]:
            assert one.get("outputs", []) == []
            assert one.get("execution_count") is None


@pytest.mark.parametrize("path", SOURCES)
def test_line_ends_and_a_byte_order_mark_make_no_difference(course: Path, path: str) -> None:
    wanted = files(course)
    windows = b"\xef\xbb\xbf" + (course / path).read_bytes().replace(b"\n", b"\r\n")
    (course / path).write_bytes(windows)
    assert build(course).written == ()
    assert drift(course) == ()
    assert {k: v for k, v in files(course).items() if k != path} == {
        k: v for k, v in wanted.items() if k != path
    }


def test_formatting_the_sources_with_ruff_changes_no_notebook(course: Path) -> None:
    (course / "ruff.toml").write_text("line-length = 100\n")
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=100", str(course)]
    subprocess.run([*ruff, "--exclude=*.ipynb"], check=True, capture_output=True)
    assert build(course).written == ()


def test_the_text_of_each_cell_is_the_text_of_the_source(course: Path) -> None:
    assert text(course, CHAPTER_NOTEBOOK, "fold") == (
        "<details><summary>¿Una pista?</summary>\n\n`stride` 漢字 🙂\n</details>"
    )
    assert text(course, CHAPTER_NOTEBOOK, "look") == (
        'text = """\n# %% id="not-a-cell"\n"""\n'
        "# copy the tensor, or ls its storage: still a comment\n%matplotlib inline"
    )
    ids = [one["id"] for one in read(course, CHAPTER_NOTEBOOK)["cells"]]
    assert ids == ["strides", "bring-the-course", "look", "fold"]


def test_a_magic_in_a_string_stays_a_string(course: Path) -> None:
    edit(course, CHAPTER_SOURCE, '# %% id="not-a-cell"', "# %timeit x")
    build(course)
    assert '"""\n# %timeit x\n"""' in text(course, CHAPTER_NOTEBOOK, "look")


def test_tags_and_view_settings_reach_the_notebook(course: Path) -> None:
    header = '# %% id="look" tags=["slow"] jupyter={"source_hidden": true}'
    edit(course, CHAPTER_SOURCE, '# %% id="look"', header)
    build(course)
    assert cell(course, CHAPTER_NOTEBOOK, "look")["metadata"] == {
        "tags": ["slow"],
        "jupyter": {"source_hidden": True},
    }


def test_every_notebook_says_where_it_can_be_opened(course: Path) -> None:
    linked_from = (STUDENT, CHAPTER_NOTEBOOK, "notebooks/home.ipynb", STUDENT)
    for path, linked in zip(NOTEBOOKS, linked_from, strict=True):
        first = "".join(read(course, path)["cells"][0]["source"]).split("\n\n")
        assert first[0].startswith("# ")
        assert first[1] == f"[Open in Colab]({colab(linked)}) · [Open in Binder]({binder(linked)})"
    home = text(course, "notebooks/home.ipynb", "home")
    assert f"[strides]({colab(CHAPTER_NOTEBOOK)})" in home


def test_the_public_address_stands_in_one_place() -> None:
    slug = REPOSITORY.removeprefix("https://github.com/")
    assert slug in colab("a")
    assert slug in binder("a")
    assert f"/{BRANCH}" in binder("a")
    kinds = {".py", ".toml", ".md", ".yml", ".yaml", ".cfg", ".txt", ".js", ".rst", ""}
    skipped = {".git", "build", "dist", "node_modules", "__pycache__"}
    holders = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [
            d
            for d in below
            if d not in skipped
            and not d.startswith(".venv")
            and not d.endswith(("_cache", ".egg-info"))  # it has the README in it
        ]
        for path in (Path(folder, name) for name in names):
            if path.suffix in kinds and slug in path.read_text(encoding="utf-8", errors="replace"):
                holders.append(str(path.relative_to(ROOT)))
    # The page is typed as it stands by test_doc_commands.py, which holds its address to ours; the
    # workflow is copied into other people's repositories.
    pages = ["README.md", "docs/first-class.md", "docs/github-classroom.yml"]
    assert sorted(holders) == sorted(["autograder/authoring/address.py", *pages])
    assert colab("notebooks/00_open_the_hood.ipynb") in (ROOT / "README.md").read_text("utf-8")


# The two versions of a lab.


def test_roles_become_nbgrader_metadata(course: Path) -> None:
    wanted = {
        "lab-strides": (False, False, True, None),
        "setup": (False, False, True, None),
        "contiguous_strides": (False, True, False, None),
        "contiguous_strides_check": (True, False, True, 2),
        "why_copies": (True, True, False, 3),
        "Counter_check": (True, False, True, 1.5),
    }
    for path in (LAB_NOTEBOOK, STUDENT):
        for name, (grade, solution, locked, points) in wanted.items():
            found = cell(course, path, name)["metadata"]["nbgrader"]
            assert found["grade_id"] == name
            assert (found["grade"], found["solution"], found["locked"]) == (grade, solution, locked)
            assert (found.get("points"), found["schema_version"]) == (points, 3)


def test_the_student_finds_signature_docstring_size_and_stub(course: Path) -> None:
    assert text(course, STUDENT, "contiguous_strides") == (
        "def contiguous_strides(shape):\n"
        '    """Strides, in elements, of a contiguous tensor of this shape."""\n'
        "    # about 5 lines\n"
        '    raise NotImplementedError("Lab 1.1: contiguous_strides, about 5 lines")'
    )
    assert text(course, STUDENT, "why_copies") == "*Your answer here.*"
    assert "onelayer" not in cell(course, STUDENT, "contiguous_strides")["metadata"]


def test_the_author_may_say_another_size(course: Path) -> None:
    edit(course, LAB_SOURCE, 'id="contiguous_strides" role="solution"',
         'id="contiguous_strides" role="solution" about_lines=1')  # fmt: skip
    build(course)
    assert 'contiguous_strides, about 1 line")' in text(course, STUDENT, "contiguous_strides")


@pytest.mark.slow
def test_nbgraders_own_command_with_a_database_makes_the_same_file(course: Path) -> None:
    place = course / "elsewhere"
    source = place / "solutions/01_strides/01_strides.ipynb"
    source.parent.mkdir(parents=True)
    source.write_bytes((course / LAB_NOTEBOOK).read_bytes())
    (place / "nbgrader_config.py").write_text("""
from autograder.authoring.stub import preprocessors
c = get_config()
c.GenerateAssignment.preprocessors = preprocessors()
c.CourseDirectory.source_directory, c.CourseDirectory.release_directory = "solutions", "labs"
c.CourseDirectory.course_id = "tiny"
""")
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_assignment", "01_strides"],
        cwd=place,
        # nbgrader starts alembic by its bare name when it makes a database.
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "HOME": str(place)}
        | {"PATH": sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (place / "gradebook.db").exists()
    assert json.loads((place / STUDENT).read_bytes()) == read(course, STUDENT)


def run_lab(root: Path, path: str) -> dict[str, object]:
    namespace: dict[str, object] = {}
    for one in read(root, path)["cells"]:
        if one["cell_type"] == "code":
            exec("".join(one["source"]), namespace)
    return namespace


def test_an_unfilled_lab_runs_to_its_end_and_says_which_answer_is_missing(course: Path) -> None:
    with redirect_stdout(io.StringIO()) as said:
        lab = run_lab(course, STUDENT)
    assert said.getvalue().split() == ["asked", "contiguous_strides", "asked", "Counter"]
    with pytest.raises(NotImplementedError, match=r"^Lab 1\.1: contiguous_strides, about 5 lines$"):
        lab["contiguous_strides"]((2, 3))  # type: ignore[operator]
    counter = lab["Counter"]()  # type: ignore[operator]
    for call in (lambda: counter.up(1), counter.down):
        with pytest.raises(NotImplementedError, match=r"^Lab 1\.3: Counter, about 2 lines in all$"):
            call()


def test_the_instructors_version_holds_the_answers(course: Path) -> None:
    with redirect_stdout(io.StringIO()):
        lab = run_lab(course, LAB_NOTEBOOK)
    assert lab["contiguous_strides"]((2, 3, 4)) == (12, 4, 1)  # type: ignore[operator]


def test_alternatives_are_the_instructors_alone(course: Path) -> None:
    name = "contiguous_strides_alternative"
    assert name in (course / LAB_NOTEBOOK).read_text("utf-8")
    student = (course / STUDENT).read_text("utf-8")
    assert name not in student
    assert "for d in range(len(sizes))" not in student


def test_a_worked_example_may_show_a_line_of_the_solution(course: Path) -> None:
    ask = '# %% [markdown] id="ask-strides"'
    worked = '# %% id="shown" tags=["worked-example"]\nstep, size = 2, 3\nstep *= max(size, 1)'
    edit(course, LAB_SOURCE, ask, f"{worked}\n\n{ask}")
    build(course)
    assert drift(course) == ()


# Sources that go, files that are not ours, builds that are killed or meet.


def test_a_notebook_without_its_source_is_removed_with_its_folder(course: Path) -> None:
    (course / LAB_SOURCE).unlink()
    (course / LAB_NOTEBOOK).rename(course / "kept.ipynb")
    (course / LAB_SOURCE).parent.rmdir()
    assert build(course).removed == (STUDENT,)
    assert not (course / STUDENT).parent.exists()


def test_somebody_elses_notebook_is_named_but_never_removed(course: Path) -> None:
    theirs = course / "labs/01_strides/mine.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), theirs)
    assert build(course).removed == ()
    assert [str(p) for p in drift(course)] == [
        "labs/01_strides/mine.ipynb: has no source; remove it or add the source"
    ]


def test_checkpoints_and_half_written_files_are_not_notebooks(course: Path) -> None:
    hidden = course / "notebooks/.ipynb_checkpoints/01_strides-checkpoint.ipynb"
    hidden.parent.mkdir()
    hidden.write_text("{}")
    (course / "notebooks/.01_strides.ipynb.4711.tmp").write_text('{"cells": [')
    (course / "labs/01_strides/.01_strides.ipynb.4711.tmp").write_text("### BEGIN SOLUTION")
    assert drift(course) == ()
    assert build(course).removed == ()
    assert hidden.exists()


@pytest.mark.slow
def test_a_build_killed_between_two_files_leaves_whole_files(course: Path) -> None:
    before = files(course)
    edit(course, LAB_SOURCE, "Give the strides", "Name the strides")
    killed = """
import os, pathlib, sys
from autograder.authoring import build
replace, done = os.replace, []
def dying(old, new):
    if done:
        os._exit(9)
    done.append(replace(old, new))
os.replace = dying
build(pathlib.Path(sys.argv[1]))
"""
    assert run_python(killed, str(course)).returncode == 9
    left = files(course)
    assert [path for path in left if path.endswith(".tmp")] != []
    changed = [path for path in NOTEBOOKS if left[path] != before[path]]
    assert changed == [STUDENT]
    assert build(course).written == (LAB_NOTEBOOK,)
    assert drift(course) == ()


@pytest.mark.slow
def test_two_builds_at_once_agree(tmp_path: Path) -> None:
    write_course(tmp_path)
    both = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tmp_path)], env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
        for _ in range(2)
    ]
    assert [process.wait() for process in both] == [0, 0]
    assert set(files(tmp_path)) == set(SOURCES) | set(NOTEBOOKS)
    assert drift(tmp_path) == ()


def test_a_long_chapter(tmp_path: Path) -> None:
    steps = (
        f'\n# %% [markdown] id="s{n}"\n# Step {n}\n\n# %% id="c{n}"\nx = {n}\n' for n in range(400)
    )
    write(tmp_path, "notebooks/home.py", HOME.replace("{{colab:notebooks/01_strides.ipynb}}", "x"))
    write(tmp_path, "notebooks/02_long.py", '# %% [markdown] id="t"\n# # Long\n' + "".join(steps))
    build(tmp_path)
    assert len(read(tmp_path, "notebooks/02_long.ipynb")["cells"]) == 802


def test_importing_the_package_imports_neither_nbgrader_nor_jupytext() -> None:
    code = """
import sys, autograder.authoring.build_command
print({"nbgrader", "jupytext", "nbformat"} & set(sys.modules))
"""
    assert run_python(code).stdout.strip() == "set()"


def test_the_fixture_is_what_it_claims() -> None:
    """The planted `# %%` really stands inside a string, so the test above it can fail."""
    tokens = tokenize.generate_tokens(io.StringIO(SOURCES[CHAPTER_SOURCE]).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    assert '# %% id="not-a-cell"' not in comments
