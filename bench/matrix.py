"""The same course on three torches: `make matrix`, or one row of it with `make matrix ROW=2.11`.

    python -m bench.matrix [ROW]

Each row is an environment of its own, made once and kept beside the others as `.venv-matrix-*`. In
it run every chapter, every lab, and every test that looks into torch through `onelayer`, one file
after the other. What came out is remembered beside the environment and written to docs/matrix.md,
where rows that were measured earlier stay. Exit code: 0 all passed, 1 something did not, 2 no such
row. Runs on a bare Python.
"""

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from bench import matrix_page
from bench.matrix_page import Measured, Outcome
from setup_env.machine import answers

ROOT = Path(__file__).resolve().parent.parent
COURSE = "bench/matrix_course"  # the file that also notes the facts of a row
PATIENCE_S = 7200  # for one file of tests
TEST_S = 1800  # for one test: a row runs for most of an hour, and the machine may have more to do


@dataclass(frozen=True)
class Row:
    """A torch (its newest patch release), the Python it runs on, and what stands there in place of
    pins of constraints.txt."""

    torch: str
    python: str
    instead: tuple[str, ...] = ()

    @property
    def venv(self) -> Path:
        return ROOT / f".venv-matrix-{self.torch}"


ROWS = {
    row.torch: row
    for row in (
        # torch 2.11 asks for setuptools < 82, and the interpreter of its Triton fails on numpy 2.4.
        Row("2.11", "3.13", instead=("setuptools<82", "numpy<2.4")),
        Row("2.13", "3.11"),
        Row("2.15", "3.12"),
    )
}


class Unmade(Exception):
    """Why a row has no environment, in one line."""


def constraints(row: Row) -> str:
    """The versions to install: those of constraints.txt, with the torch of the row."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line[:1] not in {"", "#"}]
    gone = {"torch", "triton", *(name.partition("<")[0] for name in row.instead)}
    kept = [pin for pin in pins if pin.split("==")[0] not in gone]
    return "\n".join([*kept, *row.instead, f"torch=={row.torch}.*"]) + "\n"


def python_for(row: Row) -> str:
    """A Python of the row's version, from PATH or from pyenv. Raises Unmade where there is none."""
    wanted = tuple(map(int, row.python.split(".")))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [f"python{row.python}", *map(str, pyenv.glob(f"{row.python}*/bin/python"))]
    for program in found:
        if answers([program, "-c", f"import sys; sys.exit(sys.version_info[:2] != {wanted})"]):
            return program
    raise Unmade(
        f"Row {row.torch} needs Python {row.python} and none runs here: "
        f"put python{row.python} on the PATH"
    )


def environment(row: Row) -> Path:
    """The row's own Python, with everything installed. Raises Unmade where that failed."""
    versions = row.venv.with_name(f"{row.venv.name}.txt")
    versions.write_text(constraints(row))
    command = [python_for(row), "-m", "setup_env", "dev", "--venv", str(row.venv)]
    command += ["--constraints", str(versions)]
    made = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    if made.returncode:
        raise Unmade(made.stderr.strip())
    return row.venv / "bin" / "python"


def files() -> list[Path]:
    """What is run in every row: the course, and each file of tests that imports onelayer, or what
    the tests of one of its rooms share."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    ours = re.compile(r"^(from|import) (tests\.)?onelayer\b", re.MULTILINE)
    course = [ROOT / f"{COURSE}.py", ROOT / "tests" / "checks" / "test_notebooks.py"]
    return [*course, *(path for path in tests if ours.search(path.read_text()))]


def run(path: Path, python: Path, row: Row) -> tuple[list[Outcome], dict[str, str]]:
    """What pytest said of each test of a file in the row's environment, and the facts it noted."""
    place = ROOT / "build" / "matrix" / row.torch
    place.mkdir(parents=True, exist_ok=True)
    name = path.relative_to(ROOT).with_suffix("").as_posix()
    flat = name.replace("/", ".")
    report = place / f"{flat}.xml"
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    began = time.monotonic()
    with open(place / f"{flat}.log", "w") as log:
        code = call([*command, f"--junitxml={report}", str(path)], log, own_variables(row))
    outcomes, facts = read(report, name)
    if code and not any(outcome.state == "failed" for outcome in outcomes):
        said = f"pytest ended with exit code {code}; the log is in {place.relative_to(ROOT)}"
        whole = Outcome(name, "the whole file", "", "failed", time.monotonic() - began, said)
        outcomes.append(whole)
    return outcomes, facts


def call(command: list[str], log: object, variables: dict[str, str]) -> int:
    """The exit code of `command`; 124 where it was stopped because it took too long."""
    try:
        return subprocess.run(
            command, cwd=ROOT, env=variables, stdout=log, stderr=log, timeout=PATIENCE_S
        ).returncode
    except subprocess.TimeoutExpired:
        return 124


def own_variables(row: Row) -> dict[str, str]:
    """Our variables, so changed that nothing of another environment is found first."""
    ours = {name: text for name, text in os.environ.items() if name not in {"PYTHONPATH", "VENV"}}
    path = f"{row.venv / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    row_only = {"ONELAYER_MATRIX_TORCH": row.torch, "PYTEST_TIMEOUT": str(TEST_S)}
    return ours | {"PATH": path} | row_only


def read(report: Path, file: str) -> tuple[list[Outcome], dict[str, str]]:
    """What a JUnit report holds; nothing where pytest died before it wrote one."""
    try:
        tree = ElementTree.parse(report)
    except (OSError, ElementTree.ParseError):
        return [], {}
    facts = {p.get("name", ""): p.get("value", "") for p in tree.iter("property")}
    return [outcome(case, file) for case in tree.iter("testcase")], facts


def outcome(case: ElementTree.Element, file: str) -> Outcome:
    """One test of a JUnit report. A parameter such as 01_strides is the unit it is about."""
    name, _, parameter = case.get("name", "").partition("[")
    unit = parameter.rstrip("]") if re.match(r"\d\d_", parameter) else ""
    name = name if unit or not parameter else case.get("name", "")
    state, why = "passed", ""
    for child in case:
        if child.tag in {"failure", "error", "skipped"}:
            state = "skipped" if child.tag == "skipped" else "failed"
            why = child.get("message", "").partition("\n")[0]
    return Outcome(file, name, unit, state, float(case.get("time", 0)), why)


def measure(row: Row) -> Measured:
    """The whole row, measured now."""
    date, commit = time.strftime("%Y-%m-%d", time.gmtime()), revision()
    try:
        python = environment(row)
    except Unmade as reason:
        print(reason, file=sys.stderr)
        lost = Outcome("", "the environment", "", "failed", 0.0, str(reason))
        return Measured(row.torch, row.python, date, commit, {}, (lost,))
    facts: dict[str, str] = {}
    outcomes: list[Outcome] = []
    for path in files():
        came, noted = run(path, python, row)
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        print(f"torch {row.torch}  {name:44} {matrix_page.tally(came)}", flush=True)
        outcomes, facts = outcomes + came, noted if name == COURSE else facts
    return Measured(row.torch, row.python, date, commit, facts, tuple(outcomes))


def revision() -> str:
    """The commit that is measured, and whether anything but the page itself differs from it."""
    command = ["git", "status", "--porcelain", "--", ".", ":!docs/matrix.md"]
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, **QUIET)
    changed = subprocess.run(command, cwd=ROOT, **QUIET).stdout.strip()
    return f"{head.stdout.strip() or 'unknown'}{' with changes' if changed else ''}"


QUIET = {"capture_output": True, "text": True}


def remembered() -> Iterator[Measured]:
    """The rows that were measured before, as far as this folder remembers them."""
    for row in ROWS.values():
        path = row.venv.with_name(f"{row.venv.name}.json")
        if path.exists():
            yield Measured.from_json(path.read_text())


def main(arguments: list[str]) -> int:
    """Measure the rows that were asked for, write the page, return the exit code."""
    wanted = arguments or list(ROWS)
    if unknown := set(wanted) - set(ROWS):
        print(f"No row {', '.join(unknown)}: there are {', '.join(ROWS)}.", file=sys.stderr)
        return 2
    failed = False
    for name in wanted:
        measured = measure(ROWS[name])
        path = ROWS[name].venv.with_name(f"{ROWS[name].venv.name}.json")
        path.write_text(json.dumps(dataclasses.asdict(measured)))
        page = ROOT / "docs" / "matrix.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(matrix_page.page(list(remembered())))
        failed |= not measured.passed
    print(f"Written to {page.relative_to(ROOT)}.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
