"""What the house promises on its doors: commands, licences, requirements, and the words it uses."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
import urllib3
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

REPO = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MAKEFILE = (REPO / "Makefile").read_text()


def text_of(name: str) -> str:
    return (REPO / name).read_text()


def files_of_the_course() -> list[Path]:
    """Return what git tracks; in a copy without git, all that is not in a hidden folder."""
    git = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, text=True)
    if git.returncode == 0:
        return [REPO / name for name in git.stdout.split("\0") if (REPO / name).is_file()]
    inside = ((path, path.relative_to(REPO).parts) for path in REPO.rglob("*") if path.is_file())
    return [path for path, parts in inside if not parts[0].startswith((".", "build", "dist"))]


def outside_make() -> dict[str, str]:
    """Return the environment without what a make that started these tests has put there."""
    of_make = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON", "VENV"}
    return {name: value for name, value in os.environ.items() if name not in of_make}


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make as a person would."""
    return subprocess.run(
        ["make", *arguments],
        cwd=REPO,
        env=outside_make() | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


# ---- commands -----------------------------------------------------------------------------------


def targets() -> set[str]:
    """Return the targets that a person types: the phony ones, less the set-ups behind them."""
    (line,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    return {name for name in line.split() if not name.startswith("env-")}


def test_make_alone_lists_every_command_with_one_line_each() -> None:
    listed = make()
    assert listed.returncode == 0
    lines = dict(re.findall(r"^  make (\S+) +(\S.*)$", listed.stdout, flags=re.MULTILINE))
    assert set(lines) == targets()
    assert {"lab", "test", "check", "build", "grade", "clean", "help"} <= targets()


def test_every_target_is_phony_so_that_a_file_of_its_name_does_not_stop_it() -> None:
    rules = set(re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, flags=re.MULTILINE))
    assert rules == targets()


def test_the_modules_and_commands_behind_the_targets_exist() -> None:
    modules = set(re.findall(r"-m ([a-z_.]+)", MAKEFILE))
    modules |= {entry.split(":")[0] for entry in PROJECT["scripts"].values()}
    assert {"setup_env", "autograder.authoring", "autograder.cli"} <= modules
    assert [name for name in sorted(modules) if find_spec(name) is None] == []
    called = set(re.findall(r"\$\(BIN\)/([a-z-]+)", MAKEFILE)) - {"python"}
    assert [name for name in sorted(called) if not (Path(sys.prefix) / "bin" / name).exists()] == []


def test_clean_keeps_grades_and_the_environment() -> None:
    removed = make("-n", "clean").stdout
    assert "rm -rf build" in removed
    assert "grading" not in removed
    assert not re.search(r"rm -rf[^\n]*\.venv", removed)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_the_commands_that_a_page_names_exist(page: str) -> None:
    text = text_of(page)
    fenced = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL))
    named = set(re.findall(r"`make ([a-z][a-z-]*)", text))
    named |= set(re.findall(r"^make ([a-z][a-z-]*)", fenced, flags=re.MULTILINE))
    assert named
    assert named <= targets()


def test_the_readme_says_which_command_is_the_test_command_and_ci_runs_exactly_that() -> None:
    assert re.search(r"```sh\nmake test\n```\n\nis the test command", text_of("README.md"))
    script = text_of(".ci/run")
    commands = [line for line in script.splitlines() if line and not line.startswith((" ", "#"))]
    assert "make test" in commands
    rest = script.partition("\nmake test\n")[2]
    assert re.findall(r"^ *(make .*)$", rest, re.M) == ["make mock"]  # on a CUDA build of torch
    assert os.access(REPO / ".ci" / "run", os.X_OK)
    steps = yaml.safe_load(text_of(".github/workflows/ci.yml"))["jobs"]["test"]["steps"]
    assert steps[-1] == {"run": ".ci/run"}


def test_ci_runs_the_oldest_and_the_newest_python_that_the_readme_promises() -> None:
    matrix = yaml.safe_load(text_of(".github/workflows/ci.yml"))["jobs"]["test"]["strategy"]
    assert matrix["matrix"]["python"] == ["3.11", "3.13"]
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert "Python 3.11 to 3.13" in text_of("README.md")
    assert "torch 2.11 to 2.15" in text_of("README.md")
    assert "torch>=2.11,<2.16" in PROJECT["dependencies"]


def test_the_badges_of_the_readme_say_what_the_house_says() -> None:
    """A picture beside its words, each leading to the file that says it."""
    badge = r"\[!\[(.+?)\]\(https://img\.shields\.io/badge/(\S+)-17324d\)\]\((.+?)\)"
    badges = re.findall(badge, text_of("README.md"))
    assert [words for words, _, _ in badges] == [
        "Code: BSD 3-Clause",
        "Text: CC BY 4.0",
        "Python 3.11 to 3.13",
        "torch 2.11 to 2.15",
    ]
    for words, picture, file in badges:
        label, value = picture.replace("_", " ").replace("--", "\0").split("-")
        shown = f"{label} {value}".replace("\0", "-")
        assert shown.lower() == words.replace(":", "").lower()
        assert (REPO / file).is_file()
    assert "BSD 3-Clause" in text_of("LICENSE")
    assert "CC BY 4.0" in text_of("LICENSE-TEXT")


# ---- JupyterLab ---------------------------------------------------------------------------------


@pytest.fixture
def jupyter_home(tmp_path: Path) -> dict[str, str]:
    """Variables that keep a JupyterLab away from the settings of whoever runs the tests."""
    rooms = ["CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"]
    return {f"JUPYTER_{room}": str(tmp_path / room) for room in rooms}


@pytest.mark.slow
def test_make_lab_without_a_display_prints_the_address_of_the_home_notebook(
    jupyter_home: dict[str, str],
) -> None:
    command = ["make", "lab", "-o", "env-lab", f"VENV={sys.prefix}"]
    headless = {k: v for k, v in outside_make().items() if k not in {"DISPLAY", "WAYLAND_DISPLAY"}}
    with subprocess.Popen(
        [*command, "JUPYTER_ARGS=--ServerApp.port=0"],
        cwd=REPO,
        env=headless | jupyter_home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as lab:
        assert lab.stdout is not None
        try:
            page = first_page(lab.stdout)
            assert page.startswith("http://localhost:")
            assert "/lab/tree/notebooks/home.ipynb?token=" in page
            assert b"JupyterLab" in fetch(page)
        finally:
            os.killpg(lab.pid, signal.SIGTERM)  # its own group: make, and the server under it
    assert (REPO / "notebooks" / "home.ipynb").is_file()


def first_page(lines: Iterable[str]) -> str:
    """Return the first address in what JupyterLab prints; fail with all of it if there is none."""
    read = []
    for line in lines:
        read.append(line)
        if "http://" in line:
            return line.strip()
    pytest.fail("JupyterLab ended without an address:\n" + "".join(read))


def fetch(page: str) -> bytes:
    """Return what stands at an address; JupyterLab prints it a moment before it listens there."""
    patience = urllib3.Retry(connect=40, backoff_factor=0.02, backoff_max=0.5)
    return urllib3.request("GET", page, retries=patience, timeout=30).data


# ---- which Python make takes --------------------------------------------------------------------


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def shims(tmp_path: Path) -> Path:
    """A folder in front of PATH in which no Python runs, whatever it is called."""
    for name in ["python3.13", "python3.12", "python3.11", "python3", "python"]:
        program(tmp_path, name, "echo 'no such version' >&2; exit 127")
    return tmp_path


def test_make_passes_over_a_shim_that_is_there_and_does_not_run(shims: Path) -> None:
    program(shims, "python3.11", f'exec "{sys.executable}" "$@"')
    path = f"{shims}:{os.environ['PATH']}"
    tried = make("-n", "env-lab", f"VENV={shims}/none", PATH=path)
    assert '"python3.11" -m setup_env lab' in tried.stdout


def test_make_without_any_python_says_in_one_line_what_to_install(shims: Path) -> None:
    path = f"{shims}:{os.environ['PATH']}"
    refused = make("env-lab", f"VENV={shims}/none", PATH=path)
    assert refused.returncode != 0
    said = [line for line in refused.stderr.splitlines() if not line.startswith("make")]
    assert len(said) == 1
    assert "Python 3.11 to 3.13 is needed" in said[0]
    assert "apt-get install python3" in said[0]


def test_a_python_that_was_chosen_and_does_not_exist_is_one_line_too() -> None:
    refused = make("env-lab", "PYTHON=/nowhere/python3")
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    assert "Python 3.11 to 3.13 is needed" in refused.stderr


# ---- requirements -------------------------------------------------------------------------------


def ours(extra: str) -> Iterator[Requirement]:
    """Yield what one of our extras asks for, our own extras inside it resolved."""
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == PROJECT["name"]:
            for inner in requirement.extras:
                yield from ours(inner)
        else:
            yield requirement


def install_of(*extras: str) -> set[str]:
    """Return every distribution that an install with `extras` brings, followed to the end."""
    asked = [Requirement(line) for line in PROJECT["dependencies"]]
    asked += [requirement for extra in extras for requirement in ours(extra)]
    seen: set[tuple[str, str]] = set()
    while asked:
        requirement = asked.pop()
        for extra in requirement.extras | {""}:
            key = (canonicalize_name(requirement.name), extra)
            if key not in seen:
                seen.add(key)
                asked += needs_of(requirement.name, extra)
    return {name for name, _ in seen}


def needs_of(name: str, extra: str) -> list[Requirement]:
    """Return what the installed distribution `name` needs here for one of its extras."""
    here = {**default_environment(), "extra": extra}
    lines = metadata.distribution(name).requires or []
    needed = [Requirement(line) for line in lines]
    return [r for r in needed if r.marker is None or r.marker.evaluate(here)]


INSTRUCTORS_ONLY = {"nbgrader", "jupytext"}


@pytest.mark.parametrize("extras", [(), ("lab",)])
def test_a_students_install_never_brings_nbgrader(extras: tuple[str, ...]) -> None:
    install = install_of(*extras)
    assert {"torch", "sympy", "ipython"} <= install  # direct ones, and the needs of those
    assert not install & INSTRUCTORS_ONLY


def test_the_walk_would_see_nbgrader_if_it_were_there() -> None:
    assert install_of("author") >= INSTRUCTORS_ONLY


# What torch's CUDA build names itself, each with an exact version.
CUDA_BUILD = re.compile(r"nvidia-|cuda-|triton$")


def pins() -> dict[str, str]:
    lines = [line for line in text_of("constraints.txt").splitlines() if line[:1] not in {"", "#"}]
    found = dict(line.split("==") for line in lines)
    assert len(found) == len(lines), "a package is pinned twice"
    return found


def test_every_package_of_the_environment_is_pinned_to_one_exact_version() -> None:
    pinned = pins()
    loose = install_of("dev") - {canonicalize_name(name) for name in pinned}
    assert {name for name in loose if not CUDA_BUILD.match(name)} == set()
    for name, version in pinned.items():
        assert re.fullmatch(r"[0-9]+(\.[0-9]+)*(\.?(a|b|rc|post)[0-9]+)?", version), name


def test_a_command_that_reads_notebooks_begins_without_a_parser_of_web_addresses() -> None:
    """See constraints.txt: a renewed pin of jsonschema would bring it back unnoticed."""
    told = "import sys, nbformat; print('lark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


def test_the_pins_satisfy_what_pyproject_asks_for() -> None:
    pinned = {canonicalize_name(name): version for name, version in pins().items()}
    asked = [Requirement(line) for line in PROJECT["dependencies"]] + list(ours("dev"))
    for requirement in asked:
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


def test_every_pin_runs_on_the_oldest_python_that_is_asked_for() -> None:
    """Debian 12 has 3.11.2: a package that wants 3.11.5 cannot be installed there."""
    oldest = PROJECT["requires-python"].split(",")[0].removeprefix(">=") + ".0"
    assert [name for name, version in pins().items() if not runs_on(oldest, name, version)] == []
    assert not runs_on("2.7", "torch", metadata.version("torch"))


def runs_on(python: str, name: str, version: str) -> bool:
    """Whether this version of a package takes that Python; True where another one is here."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return True
    asked = SpecifierSet(found.get("Requires-Python", "") if found["Version"] == version else "")
    return asked.contains(python)


def test_conda_asks_for_the_same_python_and_for_extras_that_exist() -> None:
    environment = yaml.safe_load(text_of("environment.yml"))
    *packages, last = environment["dependencies"]
    assert environment["name"] == PROJECT["name"]
    assert f"python {PROJECT['requires-python']}" in packages
    constraint, editable = last["pip"]
    assert (REPO / constraint.removeprefix("--constraint ")).is_file()
    assert re.fullmatch(r"--editable \.\[(.*)\]", editable)[1] in EXTRAS  # type: ignore[index]


# ---- licences and words -------------------------------------------------------------------------


def test_the_licences_are_there_and_pyproject_names_both() -> None:
    assert text_of("LICENSE").startswith("BSD 3-Clause License")
    assert "AS IS" in text_of("LICENSE")
    notice = text_of("LICENSE-TEXT")
    assert "Attribution 4.0" in notice
    assert "https://creativecommons.org/licenses/by/4.0/legalcode" in notice
    assert PROJECT["license"] == "BSD-3-Clause AND CC-BY-4.0"
    assert PROJECT["license-files"] == ["LICENSE", "LICENSE-TEXT"]


def test_the_pages_at_the_door_link_only_to_what_exists() -> None:
    for page in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text_of(page)):
            assert (REPO / target).exists(), f"{page} links to {target}"


def test_the_rooms_that_the_readme_shows_are_there() -> None:
    rooms = re.findall(r"^\| `([a-z_/]+/)`", text_of("README.md"), flags=re.MULTILINE)
    assert len(rooms) >= 8
    missing = [room for room in rooms if not (REPO / room).is_dir()]
    assert not missing


# Paths of one person's machine, a package index that others cannot
# reach, conflict marks, notes to self.
STRAY = re.compile(
    r"(?<![\w/.-])/(root|work|Users)/[a-z]"
    r"|index-url|^<{7} |^>{7} |\b(TODO|FIXME)\b",
    re.MULTILINE,
)


def test_no_file_holds_what_only_its_author_can_use() -> None:
    files = [f for f in files_of_the_course() if f.suffix not in {".safetensors", ".png", ".zip"}]
    assert len(files) > 20
    here = Path(__file__).resolve()
    texts = {f: f.read_text(errors="replace") for f in files if f.resolve() != here}
    found = {f: STRAY.search(text) for f, text in texts.items()}
    assert not {str(f.relative_to(REPO)): m[0] for f, m in found.items() if m}


@pytest.mark.parametrize(
    "line",
    [
        "open('/Users/x')",
        "<<<<<<< ours",
        "--extra-index-url=...",
        "# TODO: later",
    ],
)
def test_the_search_for_stray_words_finds_them(line: str) -> None:
    assert STRAY.search(line)


def accuracies() -> list[str]:
    """Return the rows that the README shows between its two marks."""
    block = re.search(
        r"<!-- accuracies.*?-->\n(.*?)<!-- end of accuracies -->", text_of("README.md"), re.DOTALL
    )
    assert block, "the README has lost the marks around the model's accuracies"
    return [line for line in block[1].splitlines() if re.match(r"\|.*\d", line)]


def test_the_readme_and_the_models_card_state_the_same_accuracies() -> None:
    card = text_of("onelayer/model/weights/MODEL_CARD.md").splitlines()
    advice = "copy the card's rows under 'Measured' between the marks in README.md"
    assert len(accuracies()) >= 2, advice
    assert [row for row in accuracies() if row not in card] == [], advice


def test_no_console_makes_a_picture_of_a_line_number() -> None:
    """rich prints `page.md:100: cell` as a page that has all points, unless it is told not to."""
    rooms = (REPO / room for room in ("autograder", "onelayer", "bench", "setup_env", "book"))
    sources = {path: path.read_text("utf-8") for room in rooms for path in room.rglob("*.py")}
    calls = [(path, call) for path, text in sources.items()
             for call in re.findall(r"\bConsole\([^)]*\)", text)]  # fmt: skip
    assert "Console(emoji=False)" in {call for _, call in calls}
    assert [(path, call) for path, call in calls if "emoji=False" not in call] == []
