"""Every command on a page is run: by a session below, or by the test that the table names."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click import Group

from autograder import cli, student_cli
from autograder.attacks.sample_class import NAME, filled, released, right_answers
from autograder.authoring.address import REPOSITORY
from autograder.authoring.build_command import build_command
from autograder.authoring.translate_command import translate_command
from tests.house import doc_commands
from tests.house.doc_commands import REPO, Block, blocks, commands, faults, inline, pages
from tests.house.test_house import EXTRAS, files_of_the_course, outside_make, targets

BIN = Path(sys.prefix) / "bin"


@dataclass(frozen=True)
class RunBy:
    """The test that runs this command elsewhere; `evidence` stands in its file."""

    by: str
    evidence: str


@dataclass(frozen=True)
class Answers:
    """Too long, or for a machine that is not here: the same program answers to `instead`."""

    instead: str
    said: str


@dataclass(frozen=True)
class Played:
    """In a session, `stand_in` (of the shell) takes its place."""

    stand_in: str
    why: str


# The pages that are typed from top to bottom, in one shell, in this order.
SESSION = ("docs/first-class.md", "docs/privacy.md")
# The page whose files are written and whose commands are then run.
UNIT = "docs/add-a-unit.md"
# What a shell does by itself, wherever it stands.
SHELL = ("cd", "export", "mkdir", "chmod")
# A person's five points for every answer in words, as formgrader writes them.
MARKS = f"""python - <<'END'
from nbgrader.api import Gradebook
with Gradebook("sqlite:///gradebook.db") as book:
    for submission in book.assignment_submissions("{NAME}"):
        grade = book.find_grade("why_silent", "{NAME}", "{NAME}", submission.student.id)
        grade.manual_score, grade.needs_manual_grade = 5.0, False
    book.db.commit()
END"""
SUBMISSIONS = "autograder grade ~/Downloads/submissions.zip --lab 01_strides"

EXCHANGE = "classroom/gradebook/test_exchange.py::test_the_whole_circle"

TABLE: dict[str, RunBy | Answers | Played] = {
    "autograder release 01_strides": RunBy(EXCHANGE, 'autograder("release", NAME)'),
    "autograder release 11_distributed --variants class.csv": RunBy(
        "classroom/commands/test_release.py::test_each_student_gets_a_copy_of_their_own",
        'autograder("release", "11_distributed", "--variants", "class.csv")',
    ),
    "nbgrader release_assignment 01_strides": RunBy(
        EXCHANGE, 'nbgrader("release_assignment", NAME)'
    ),
    "nbgrader fetch_assignment 01_strides": RunBy(EXCHANGE, 'nbgrader("fetch_assignment", NAME)'),
    "nbgrader submit 01_strides": RunBy(EXCHANGE, 'nbgrader("submit", NAME'),
    "nbgrader collect 01_strides": RunBy(EXCHANGE, 'nbgrader("collect", NAME)'),
    "autograder grade grading/collected --lab 01_strides": RunBy(
        EXCHANGE, '"grading/collected", "--lab", NAME'
    ),
    "nbgrader release_feedback 01_strides": RunBy(EXCHANGE, 'nbgrader("release_feedback", NAME)'),
    "nbgrader fetch_feedback 01_strides": RunBy(EXCHANGE, 'nbgrader("fetch_feedback", NAME'),
    "autograder gradescope 01_strides": RunBy(
        "classroom/commands/test_gradescope_archive.py::test_its_runs_draw_the_seeds_of_the_grading_folder",
        "gradescope_archive.gradescope(",
    ),
    "make lab": RunBy(
        "house/test_house.py::test_make_lab_without_a_display_prints_the_address_of_the_home_notebook",
        '"make", "lab"',
    ),
    "make test": RunBy(
        "house/test_ci_run.py::test_where_nothing_is_missing_it_types_the_test_command_and_installs_nothing",
        '"test"',
    ),
    "make check": Answers("make -n check -o env-dev", "lint-imports"),
    "make build": Answers("make -n build -o env-dev", "autograder.authoring build"),
    "make grade": Played('ln -s "$PREFIX" .venv', "its class is graded in test_grade.py"),
    "make selftest": RunBy("checks/test_selftest.py::test_a_lab_is_clean", "selftest.run"),
    "make bench-gpu": Answers("python -m bench.head_loss --help", "--device"),
    "make gpu": RunBy(
        "gpu/test_whole_run.py::test_make_gpu_says_in_one_line_what_is_missing", "command.main"
    ),
    "autograder grade ~/Downloads/submissions.zip --lab 04_contracts --device cuda": RunBy(
        "classroom/run/test_gpu_class.py::test_a_class_is_graded_on_cuda_only_where_there_is_a_gpu",
        "device=device",
    ),
    "make wheelhouse PYTHON=3.12": RunBy(
        "setup_env/test_wheelhouse.py::test_all_but_what_the_node_has_and_the_gradebook",
        "wheelhouse",
    ),
    "sh wheelhouse-3.12/install.sh ~/onelayer python3.12": RunBy(
        "setup_env/test_wheelhouse.py::test_the_script_refuses_another_python", '"install.sh"'
    ),
    "onelayer mock-gpu --device L4 --memory 24GiB train.py": RunBy(
        "onelayer/mock_cuda/test_script.py::test_a_script_that_fits_is_told_with_its_waits_and_copies",
        "run_script(",
    ),
    "autograder doctor": RunBy(
        "house/test_cli.py::test_doctor_names_the_tier_and_why", 'autograder("doctor")'
    ),
    "autograder selftest": RunBy(
        "house/test_cli.py::test_selftest_fails_when_the_course_does", 'autograder("selftest"'
    ),
    "autograder selftest 01 --mutants": RunBy(
        "checks/test_answer_mutants.py::test_the_command_prints_a_line_for_each_question_and_counts_faults",
        "answer_mutants.run",
    ),
    "autograder grade ~/Downloads/submissions.zip --lab 01_strides --roster class.csv": RunBy(
        "classroom/intake/test_enrolment.py::test_every_enrolled_person_has_a_row_and_who_is_not_enrolled_is_named",
        '"--roster", "list.csv"',
    ),
    "autograder change 01_strides drop address --reason Its text was wrong": RunBy(
        "classroom/commands/test_changes.py::test_nothing_changes_before_the_instructor_is_sure",
        'change(NAME, "drop", FIRST',
    ),
    "autograder change 01_strides points overlaps --to 1 --reason Too hard --yes": RunBy(
        "classroom/commands/test_changes.py::test_an_undone_change_leaves_the_grades_as_they_were_and_a_trace",
        '"points", SECOND, "--to"',
    ),
    "autograder change 01_strides accept address --student ada --reason Allowed --yes": RunBy(
        "classroom/commands/test_changes.py::test_an_accepted_answer_counts_for_whom_it_was_accepted",
        '"accept", FIRST, "--student"',
    ),
    "autograder change 01_strides accept address --answer in_bytes --reason Allowed --yes": RunBy(
        "classroom/commands/test_changes.py::test_an_accepted_answer_counts_for_whom_it_was_accepted",
        '"accept", FIRST, "--answer"',
    ),
    "autograder change 01_strides": RunBy(
        "classroom/commands/test_changes.py::test_nothing_changes_before_the_instructor_is_sure",
        "change(NAME)",
    ),
    "autograder change 01_strides undo 1 --reason It was right after all --yes": RunBy(
        "classroom/commands/test_changes.py::test_an_undone_change_leaves_the_grades_as_they_were_and_a_trace",
        '"undo", "1"',
    ),
    "autograder regrade 01_strides --student ada --reason Her appeal": RunBy(
        "classroom/commands/test_regrade.py::test_nothing_changes_before_the_instructor_is_sure",
        'again(NAME, "--student"',
    ),
    "autograder regrade 01_strides --question address --reason Its check was wrong --yes": RunBy(
        "classroom/commands/test_regrade.py::test_one_question_of_everybody_leaves_the_other_verdicts",
        'again(NAME, "--question"',
    ),
    "autograder merge ~/Downloads/their-grading": RunBy(
        "classroom/commands/test_merge.py::test_nothing_changes_before_the_instructor_is_sure",
        'merge("other")',
    ),
    "autograder merge ~/Downloads/their-grading --theirs ada --yes": RunBy(
        "classroom/commands/test_merge.py::test_the_other_folder_is_right_where_the_instructor_says_so",
        'merge("other", "--theirs"',
    ),
    "autograder report 01_strides --alike": RunBy(
        "classroom/reports/test_alike_page.py::test_the_report_writes_it_when_asked",
        'NAME, "--alike"',
    ),
    "autograder selftest 01 --seeds 50": RunBy(
        "house/test_cli.py::test_selftest_asks_one_question", '"--seeds"'
    ),
    "autograder report": RunBy(
        "classroom/commands/test_report.py::test_everything_lies_where_it_says",
        'autograder("report")',
    ),
    "autograder regrade 01_strides": RunBy(
        "classroom/commands/test_report.py::test_what_the_journal_knows_is_published_alone",
        'autograder("regrade", NAME',
    ),
    "autograder explain ada 01_strides address": RunBy(
        "classroom/commands/test_report.py::test_a_verdict_comes_out_again", "explained"
    ),
    "autograder attack": RunBy(
        "attacks/test_attacks.py::test_all_that_holds_ends_with_0", '["attack"'
    ),
    "autograder attack a01": RunBy(
        "attacks/test_attacks.py::test_an_attack_fails_its_twin_passes_and_without_the_defence_it_works",
        "try_attack(named",
    ),
    "autograder build --check": RunBy(
        "house/test_cli.py::test_build_is_the_authors_command", 'autograder("build", "--check")'
    ),
    f"{SUBMISSIONS} --cluster ssh:node1,node2": RunBy(
        "classroom/run/test_cluster.py::test_a_machine_over_a_real_ssh_grades_the_class",
        'cluster="ssh:',
    ),
    f"{SUBMISSIONS} --cluster tcp://node1:8786": RunBy(
        "classroom/run/test_cluster.py::test_kill_9_of_a_worker_costs_nobody_a_verdict",
        "cluster=address",
    ),
    f"{SUBMISSIONS} --cluster slurm:8": RunBy(
        "classroom/run/test_cluster.py::test_a_real_slurm_grades_the_class", 'cluster="slurm:1"'
    ),
    f"{SUBMISSIONS} --gradebook postgresql+psycopg://USER@HOST/NAME": RunBy(
        "classroom/gradebook/test_server.py::test_the_grades_are_on_the_server_and_nbgrader_finds_them",
        "gradebook=url",
    ),
    "pip install -e .[cluster]": RunBy("house/test_doc_commands.py::test_extras_exist", "EXTRAS"),
    "pip install -e .[postgres]": RunBy("house/test_doc_commands.py::test_extras_exist", "EXTRAS"),
    "jupyter lab": Played(MARKS, "a person marks in formgrader, which needs a browser"),
    "onelayer doctor": RunBy(
        "notebook/test_home.py::test_the_command_shows_the_doctors_table", 'run("doctor")'
    ),
    "lint-imports": Answers("lint-imports --help", "--contract"),
    "python -m bench.binder_memory notebooks/08_compile.ipynb": Answers(
        "python -m bench.binder_memory --help", "NOTEBOOKS"
    ),
    "python -m bench.languages es": RunBy(
        "bench/test_languages.py::test_a_lab_as_given_out_runs_in_spanish", '["es", "labs/00'
    ),
    "python -m repo2docker --no-build .": RunBy(
        "setup_env/test_conda_files.py::test_repo2docker_takes_the_python_that_the_file_names",
        '"repo2docker", "--no-build"',
    ),
    # No Docker and no conda channel to ask: the files that these read are held to pyproject.toml.
    "python -m repo2docker --no-run .": RunBy(
        "setup_env/test_conda_files.py::test_they_agree", "BINDER"
    ),
    "conda env create -f environment.yml": RunBy(
        "setup_env/test_conda_files.py::test_they_agree", '"environment.yml"'
    ),
    "conda env create --dry-run -f environment.yml": RunBy(
        "setup_env/test_conda_files.py::test_they_agree", '"environment.yml"'
    ),
    "conda env create --dry-run -f environment-gpu.yml": RunBy(
        "setup_env/test_conda_files.py::test_they_agree", '"environment-gpu.yml"'
    ),
    "conda activate onelayer": RunBy(
        "house/test_house.py::test_conda_asks_for_the_same_python_and_for_extras_that_exist",
        'environment["name"]',
    ),
}


def every_block() -> list[Block]:
    return [block for path in pages() for block in blocks(path)]


def uncovered(block: Block) -> list[str]:
    """The commands of a block that neither a session nor the table runs."""
    if block.page in (*SESSION, UNIT):
        return []
    asked = [line for line in commands(block) if line.split()[0] not in SHELL]
    return [f"{block.where}: {line}" for line in asked if line not in TABLE and not ours(line)]


def ours(line: str) -> bool:
    """Whether a command runs files of tests that are there: `make test` runs them too."""
    asked = re.fullmatch(r"python -m pytest((?: tests/[\w/]+\.py)+)", line)
    return bool(asked) and all((REPO / name).is_file() for name in asked[1].split())


# ---- the pages and the table --------------------------------------------------------------------


def test_every_block_says_what_it_is() -> None:
    assert [fault for block in every_block() for fault in faults(block)] == []


def test_every_command_is_run_by_somebody() -> None:
    assert [line for block in every_block() for line in uncovered(block)] == []
    assert sum(len(commands(block)) for block in every_block()) > 40


@pytest.mark.parametrize(
    "planted",
    [
        "```sh\nautograder grades everything\n```\n",
        "```sh\nmake coffee  # black\n```\n",
        "1. first\n\n   ```sh\n   make \\\n     coffee\n   ```\n",
        "```sh\npython -m pytest tests/test_of_nothing.py\n```\n",
        "```\nmake test\n```\n",
        "```text\nmake test\n```\n",
        "```console\n$ make test\n```\n",
    ],
)
def test_a_command_that_nobody_runs_is_found(tmp_path: Path, planted: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{planted}")
    (block,) = blocks(page)
    assert [*faults(block), *uncovered(block)], planted


def test_the_table_names_nothing_that_no_page_says() -> None:
    said = {line for block in every_block() for line in commands(block)}
    assert sorted(set(TABLE) - said) == []


TESTED = {how.by: how for how in TABLE.values() if isinstance(how, RunBy)}


@pytest.mark.parametrize("by", TESTED)
def test_the_test_that_the_table_names_is_there(by: str) -> None:
    file, _, name = by.partition("::")
    source = (REPO / "tests" / file).read_text("utf-8")
    names = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
    assert name in names
    read = [source, *(_imported(source))]
    assert all(any(how.evidence in text for text in read) for how in _all_by(by)), by


def _imported(source: str) -> Iterator[str]:
    """The sources of the tests' own modules that a test imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            path = REPO / (node.module or "").replace(".", "/")
            files = [path / alias.name for alias in node.names] if path.is_dir() else [path]
            yield from (file.with_suffix(".py").read_text("utf-8") for file in files)


def _all_by(by: str) -> list[RunBy]:
    return [how for how in TABLE.values() if isinstance(how, RunBy) and how.by == by]


ANSWERED = [how for how in TABLE.values() if isinstance(how, Answers)]


@pytest.mark.parametrize("how", ANSWERED, ids=lambda how: how.instead)
@pytest.mark.slow
def test_a_long_command_answers(how: Answers) -> None:
    words = how.instead.split()
    words[0] = {"python": sys.executable, "make": "make"}.get(words[0], str(BIN / words[0]))
    done = subprocess.run(words, cwd=REPO, env=outside_make(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert how.said in done.stdout


def test_extras_exist() -> None:
    said = [line for block in every_block() for line in commands(block)]
    named = re.findall(r"^pip install -e \.\[(\w+)\]$", "\n".join(said), flags=re.MULTILINE)
    assert named
    assert set(named) <= set(EXTRAS)


PASSED_ON = {"build": build_command, "translate": translate_command}
"""Commands that hand their words on to one that an author alone imports."""


def unknown(command: str) -> str:
    """What of a command in running text no program of ours knows; "" where all is known."""
    program, *words = command.split()
    group: Group = {"autograder": cli.main, "onelayer": student_cli.main}[program]
    if not words:
        return ""
    found = group.commands.get(words[0])
    if found is None:
        return words[0]
    real = PASSED_ON.get(str(found.name), found)
    options = {name for one in real.params for name in one.opts}
    return " ".join(word for word in words[1:] if word.startswith("--") and word not in options)


def test_what_the_text_names_exists() -> None:
    named = [(path.name, command) for path in pages() for command in inline(path)]
    assert len(named) > 20
    assert [(name, command) for name, command in named if unknown(command)] == []
    prose = "\n".join(path.read_text("utf-8") for path in pages())
    assert set(re.findall(r"`make ([a-z][a-z-]*)", prose)) <= targets()


def test_a_command_that_does_not_exist_would_be_found() -> None:
    assert unknown("autograder publish") == "publish"
    assert unknown("autograder grade DIR --quick") == "--quick"
    assert unknown("autograder report --provisional") == ""
    assert unknown("autograder build --check") == ""
    assert unknown("autograder translate es --all") == "--all"


# ---- the first class ----------------------------------------------------------------------------

ADA, BEN = "adalovelace_12345", "blankben_12346"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new user's home: what Canvas gave in Downloads, and the course behind its address."""
    home = tmp_path_factory.mktemp("home")
    (home / "Downloads").mkdir()
    answers = {**right_answers(), "why_silent": "Because both share floats."}
    with zipfile.ZipFile(home / "Downloads" / "submissions.zip", "w") as archive:
        archive.writestr(f"{ADA}_777_{NAME}.ipynb", json.dumps(filled(answers)))
        archive.writestr(f"{BEN}_778_{NAME}-1.ipynb", json.dumps(released()))
    copy_of_the_course(home / "origin")
    for words in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "The course"]):
        subprocess.run(["git", *words], cwd=home / "origin", env=variables(home), check=True)
    return home


def copy_of_the_course(target: Path) -> Path:
    for path in files_of_the_course():
        place = target / path.relative_to(REPO)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    return target


def variables(home: Path) -> dict[str, str]:
    git = {f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER")
           for what in ("NAME", "EMAIL")}  # fmt: skip
    instead = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{home / 'origin'}.insteadOf"}
    instead |= {"GIT_CONFIG_VALUE_0": REPOSITORY}
    beside = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    code = os.pathsep.join([str(home / "one-layer-deep"), *(p for p in beside if p != str(REPO))])
    ours = {"HOME": str(home), "PREFIX": sys.prefix, "PYTHONPATH": code, "COLUMNS": "100"}
    return outside_make() | git | instead | ours


def typed(page: str) -> Iterator[str]:
    """The lines of a page's commands as a shell gets them, each said before it is run."""
    for block in blocks(REPO / page):
        for line in block.text.splitlines() if block.language == "sh" else ():
            how = TABLE.get(" ".join(line.split("#")[0].split()))
            if line.strip() and not isinstance(how, RunBy | Answers):
                yield f"echo '{block.where}: {line}'"
                yield how.stand_in if isinstance(how, Played) else line


@pytest.fixture(scope="module")
def hour(home: Path) -> str:
    """What the shell said while somebody typed the pages of the session from top to bottom."""
    (first, *others) = SESSION
    script = ["set -eu", *typed(first), *(f"cp -r grading {home}/kept" for _ in others[:1])]
    script += [line for page in others for line in typed(page)]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=home,
        env=variables(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


@pytest.mark.jail
@pytest.mark.whole_class
def test_the_table_on_the_page_is_what_came(hour: str) -> None:
    (shown,) = [b.text for b in blocks(REPO / SESSION[0]) if b.language == "text"]
    rows = [line for line in shown.splitlines() if line.startswith(("│", "┃", "0"))]
    assert len(rows) >= 3
    assert [row for row in rows if row not in hour] == []


@pytest.mark.jail
@pytest.mark.whole_class
def test_an_appeal_comes_out_the_same(hour: str) -> None:
    assert "The same verdict as recorded." in hour


@pytest.mark.jail
@pytest.mark.whole_class
def test_grades_and_pages_go_back_to_whom_canvas_knows(hour: str, home: Path) -> None:
    place = home / "kept" / "reports" / NAME
    with open(place / "canvas.csv", encoding="utf-8") as file:
        _, *rows = csv.DictReader(file)
    assert [(row["ID"], row["Lab 01"]) for row in rows] == [("12345", "35"), ("12346", "5")]
    with zipfile.ZipFile(place / "feedback.zip") as archive:
        assert archive.namelist() == [f"{ADA}_777_{NAME}.html", f"{BEN}_778_{NAME}-1.html"]
        assert b"35" in archive.read(f"{ADA}_777_{NAME}.html")
    with open(home / "kept" / "grades.csv", encoding="utf-8") as file:
        scores = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert scores == {ADA: 35.0, BEN: 5.0}


@pytest.mark.jail
@pytest.mark.whole_class
def test_everything_lies_where_the_pages_say_and_is_closed(hour: str, home: Path) -> None:
    text = (REPO / "docs" / "privacy.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?) \|.*\| (.*?) \|$", text, flags=re.MULTILINE)
    named = [(name, who) for names, who in rows for name in re.findall(r"`([^`]+)`", names)]
    grading = home / "one-layer-deep" / "grading"
    assert grading.stat().st_mode & 0o077 == 0
    asked_for = {
        "gradebook.url",
        "enrolled.csv",
        "changes/",
        "variants/",
        "handouts/",
        "merges.json",
        "races/",
        "collected/",
    }  # nobody did in this hour
    there = [(name, who) for name, who in named if name not in asked_for]
    assert [name for name, _ in there if not (grading / name).exists()] == []
    files = [f for name, who in there if who == "you" for f in every_file(grading / name)]
    open_ones = [f for f in files if f.stat().st_mode & 0o077 and "gradescope" not in f.parts]
    assert len(files) > 8
    assert open_ones == []


def every_file(path: Path) -> list[Path]:
    return [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]


@pytest.mark.jail
@pytest.mark.whole_class
def test_who_was_removed_is_in_no_table_any_more(hour: str, home: Path) -> None:
    from nbgrader.api import Gradebook

    database = home / "one-layer-deep" / "grading" / "gradebook.db"
    with Gradebook(f"sqlite:///{database}") as book:
        assert [student.id for student in book.students] == [BEN]


# ---- the unit that a page makes -----------------------------------------------------------------

ASKS = """
import pathlib, runpy, sys
from autograder import selftest
from autograder.checks.lab05_memory import lab
runpy.run_path("notebooks/05_memory.py")
sys.exit(selftest.run(pathlib.Path(), [lab]))
"""


@pytest.mark.slow
def test_the_unit_on_the_page_is_built_and_asked(tmp_path: Path) -> None:
    copy = copy_of_the_course(tmp_path / "course")
    for other in [*copy.glob("notebooks/[0-9]*"), *copy.glob("solutions/*"), *copy.glob("labs/*")]:
        shutil.rmtree(other) if other.is_dir() else other.unlink()  # they only take their time
    files = [block for block in blocks(REPO / UNIT) if block.file]
    assert len(files) == 4
    for block in files:
        (copy / block.file).parent.mkdir(parents=True, exist_ok=True)
        (copy / block.file).write_text(block.text)
    variables = outside_make() | {"PYTHONPATH": str(copy)}
    run = {"cwd": copy, "env": variables, "capture_output": True, "text": True}
    built = subprocess.run(["make", "build", "-o", "env-dev", f"VENV={sys.prefix}"], **run)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "wrote    labs/05_memory/05_memory.ipynb" in built.stdout
    asked = subprocess.run([sys.executable, "-c", ASKS], **run)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert "05_memory" in asked.stdout


def test_the_pages_that_are_run_are_there() -> None:
    assert all((REPO / page).is_file() for page in (*SESSION, UNIT))
    assert doc_commands.REPO == REPO
