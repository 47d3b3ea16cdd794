"""The home notebook, the units it lists, the doctor it ends with, and the command `onelayer`."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import onelayer
from autograder import student_cli
from autograder.authoring.percent_source import Cell, Header
from autograder.authoring.plan import Chapter, plan
from autograder.authoring.plan import Lab as AuthoredLab
from autograder.authoring.units import table
from autograder.checks import UnknownQuestion, find, labs
from autograder.judge import Lab
from autograder.notebook import doctor
from autograder.notebook.course import find_root
from autograder.notebook.doctor import Finding, examine
from autograder.selftest import english_in

ROOT = Path(__file__).parents[2]
HOME = ROOT / "notebooks" / "home.py"
HEADER = re.compile(r'^# %%(?P<markdown> \[markdown\])? id="(?P<id>[a-z-]+)"$', re.MULTILINE)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def cells() -> Iterator[tuple[str, bool, str]]:
    """(id, whether it is code, text) of each cell of the home notebook."""
    text = HOME.read_text(encoding="utf-8")
    heads = list(HEADER.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        yield head["id"], head["markdown"] is None, text[head.end() : end]


def test_every_cell_has_an_id_of_its_own() -> None:
    text = HOME.read_text(encoding="utf-8")
    ids = [name for name, _, _ in cells()]
    assert len(ids) == len(set(ids)) == text.count("# %%")
    assert {"title", "progress", "doctor"} <= set(ids)


def test_it_runs_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HOME.parent)
    names: dict[str, Any] = {}
    shown = {}
    for name, is_code, text in cells():
        if is_code:
            *before, last = text.strip().split("\n")
            exec("\n".join(before), names)
            shown[name] = eval(last, names)
    assert "Total: 0 of" in shown["progress"].text
    assert "python" in shown["doctor"].text


def test_every_link_of_the_home_notebook_leads_to_a_file_and_no_unit_is_left_out() -> None:
    cells = json.loads(HOME.with_suffix(".ipynb").read_text("utf-8"))["cells"]
    text = "".join(line for cell in cells for line in cell["source"])
    links = set(re.findall(r"\]\(([^):]+\.ipynb)\)", text))
    there = {f"../{lab.student}" for lab in plan(ROOT).labs}
    there |= {Path(chapter.notebook).name for chapter in plan(ROOT).chapters} - {"home.ipynb"}
    assert links == there
    for link in links:
        assert (HOME.parent / link).is_file(), link


def test_the_list_of_units_has_a_row_for_each_and_a_hole_for_what_is_missing() -> None:
    def cell(text: str) -> list[Cell]:
        return [Cell("markdown", text, 1, Header("title", None, None, (), None, {}))]

    chapters = [Chapter("notebooks/01_strides.py"), Chapter("notebooks/home.py")]
    cells = {
        "notebooks/01_strides.py": cell("# 01 Strides: why `.T` is free\nText."),
        "notebooks/home.py": cell("# Home"),
        "solutions/02_other/02_other.py": cell("# Lab 02: the others\n"),
    }
    assert table(chapters, [AuthoredLab("02_other")], cells).splitlines()[2:] == [
        "| 01 | Strides: why `.T` is free | [chapter 01](01_strides.ipynb) |  |",
        "| 02 | the others |  | [lab 02](../labs/02_other/02_other.ipynb) |",
    ]


def test_every_question_has_one_name() -> None:
    names = [question.name for lab in labs() for question in lab]
    assert len(names) == len(set(names))
    for name in names:
        assert find(name).name == name


def test_find_names_the_nearest_questions() -> None:
    lab = Lab("01_strides", "Strides")
    for name in ("contiguous_strides", "view_strides", "gather_flat"):
        lab.question(name, points=1, minutes=1, difficulty=1, hints=("", "", ""))(lambda s, d: None)
    assert find("gather_flat", [lab]) is lab.questions["gather_flat"]
    with pytest.raises(UnknownQuestion, match='Did you mean "contiguous_strides"'):
        find("contigous_stride", [lab])
    with pytest.raises(LookupError, match="There are 3 questions"):
        find("zzz", [lab])


def test_the_course_is_found_from_any_folder_in_it(tmp_path: Path) -> None:
    for folder in ("notebooks", "labs/01_strides"):
        (tmp_path / folder).mkdir(parents=True)
    assert find_root(tmp_path / "labs" / "01_strides") == tmp_path


def test_the_doctor_finds_everything_it_looks_for() -> None:
    findings = {finding.what: finding for finding in examine()}
    assert set(findings) == {
        "python",
        "torch",
        "threads",
        "GPU",
        "weights",
        "jupyter",
        "anywidget",
        "compiler",
    }
    assert findings["torch"].found == torch.__version__
    assert findings["GPU"].word == ("ok" if torch.cuda.is_available() else "none")
    assert all(finding.to_do for finding in findings.values() if finding.word == "missing")


def lost() -> None:
    raise RuntimeError(
        "weights is missing. Restore it with `git checkout -- onelayer/model/weights`."
    )


def test_the_doctor_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(torch, "__version__", "2.3.0+cpu")
    monkeypatch.setattr(sys, "version_info", (3, 9, 0))
    monkeypatch.setattr(onelayer, "head", lost, raising=False)
    findings = {finding.what: finding for finding in examine()}
    missing = {what for what, finding in findings.items() if finding.word == "missing"}
    assert missing == {"python", "torch", "weights", "jupyter", "anywidget", "compiler"}
    assert findings["torch"].to_do == "The course supports torch 2.11 to 2.15."
    shown = doctor()
    assert "To do: python, torch, weights, jupyter, anywidget, compiler." in shown.text
    assert "g++" in shown.html
    assert "git checkout" in shown.html


def test_a_broken_torch_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    findings = {finding.what: finding for finding in examine()}
    assert findings["torch"].word == findings["GPU"].word == "missing"
    assert findings["python"].word == "ok"


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(student_cli.main, list(arguments))
    assert "Traceback" not in result.output
    return result


def test_the_command_shows_the_doctors_table(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = all(finding.word != "missing" for finding in examine())
    result = run("doctor")
    assert result.exit_code == (0 if ready else 1)
    assert torch.__version__ in result.output
    monkeypatch.setattr(shutil, "which", lambda _: None)
    result = run("doctor")
    assert result.exit_code == 1
    assert "no C++ compiler" in result.output


def test_the_doctors_table_shows_brackets_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "[bold]GPU[/] [/nonsense]")
    assert "[bold]GPU[/] [/nonsense]" in " ".join(run("doctor").output.split())


def test_the_command_shows_the_progress(home: Path) -> None:
    home.mkdir()
    (home / "progress.json").write_text("broken")
    result = run("progress")
    assert result.exit_code == 0
    assert "Total: 0 of" in result.output
    assert "progress.json.broken-1" in result.output


def test_lab_opens_jupyterlab_on_the_home_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def record(command: list[str], folder: Path) -> int:
        started.append((command, folder))
        return 0

    for folder in ("notebooks", "labs"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "labs")
    monkeypatch.setattr(student_cli, "_run", record)
    result = run("lab")
    assert result.exit_code == 1
    assert "home.ipynb is not here" in result.output
    (tmp_path / "notebooks" / "home.ipynb").touch()
    assert run("lab", "--no-browser").exit_code == 0
    ((command, folder),) = started
    assert folder == tmp_path
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path}" in command  # or the links to ../labs lead outside
    assert "--LabApp.default_url=/lab/tree/notebooks/home.ipynb" in command
    assert command[-1] == "--no-browser"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    result = run("lab")
    assert result.exit_code == 1
    assert "JupyterLab is not installed" in result.output
    assert len(result.output.splitlines()) == 1


def test_the_command_speaks_the_language_that_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder in ("notebooks", "labs"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(student_cli, "_run", lambda *_: 0)
    assert "ve a la carpeta del curso" in run("lab", "--language", "es").output
    monkeypatch.chdir(ROOT)
    assert "The course has no 'xx'" in run("lab", "--language", "xx").output
    monkeypatch.setenv("ONELAYER_LANGUAGE", "es")
    monkeypatch.setattr(student_cli, "examine", lambda: (Finding("GPU", "none", "x", "y"),))
    assert run("doctor").output.split()[:4] == ["qué", "hay", "qué", "hacer"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "JupyterLab no está instalado" in run("lab").output


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({}, "en"),
        ({"LANG": "es_CO.UTF-8"}, "es"),
        ({"LANG": "es_ES", "LC_ALL": "C.UTF-8"}, "en"),
        ({"LANG": "en_US", "LANGUAGE": "fr:es"}, "es"),
        ({"LANG": "es_ES", "ONELAYER_LANGUAGE": "en"}, "en"),
        ({"ONELAYER_LANGUAGE": "es"}, "es"),
    ],
)
def test_the_command_speaks_the_language_of_the_terminal(
    variables: dict[str, str], code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*student_cli.LOCALE, "ONELAYER_LANGUAGE"):
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    pages = [run("--help"), run("lab", "--help"), run("mock-gpu", "--help")]
    pages.append(run("mock-gpu", "--device", "K80", str(ROOT / "pyproject.toml")))
    said = {"en": ["Usage: ", "Usage: ", "Default: H100", "known are"],
            "es": ["Uso: ", "Por omisión", "Por omisión, H100", "se conocen"]}  # fmt: skip
    for page, words in zip(pages, said[code], strict=True):
        assert words in page.output
        if code != "en":
            assert english_in(page.output.replace("Error: ", "")) == []


def test_lab_opens_the_home_notebook_of_the_language_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(student_cli, "_run", lambda command, _: commands.append(command) or 0)
    monkeypatch.chdir(ROOT)
    for code, home in (("es", "es/notebooks/home.ipynb"), ("en", "notebooks/home.ipynb")):
        monkeypatch.setenv("ONELAYER_LANGUAGE", code)
        run("lab")
        assert f"--LabApp.default_url=/lab/tree/{home}" in commands[-1]


def test_the_texts_of_the_notebooks_are_out_of_sight_and_a_students_own_are_not() -> None:
    settings = json.loads((student_cli.SETTINGS / "jupyter_server_config.json").read_text("utf-8"))
    globs = settings["ContentsManager"]["hide_globs"]

    def hidden(name: str) -> bool:
        return any(fnmatch(name, glob) for glob in globs)

    texts = [path.name for path in (ROOT / "notebooks").glob("*.py")]
    texts += [path.name for path in (ROOT / "es").rglob("*.md")]
    assert len(texts) > 40
    assert all(map(hidden, texts))
    assert not any(map(hidden, ["home.ipynb", "01_strides.ipynb", "my_own.py", "notes.md"]))


def test_a_run_command_gives_its_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process ends as it did before
    assert student_cli._run([sys.executable, "-c", "raise SystemExit(7)"], tmp_path) == 7


@pytest.mark.slow
def test_what_ends_the_command_ends_jupyterlab(tmp_path: Path) -> None:
    """Here a stand-in for it, which says when it is there and how it was ended."""
    stand_in = """if True:
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("told to stop")))
        print("there", flush=True)
        time.sleep(60)"""
    ours = f"""if True:
        import sys
        from autograder import student_cli
        sys.exit(student_cli._run([sys.executable, "-c", {stand_in!r}], None))"""
    command = [sys.executable, "-c", ours]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "there\n"
        process.terminate()
        assert process.stdout.read() == "told to stop\n"
    assert process.returncode == 0


def test_nobody_is_stopped_by_a_strange_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONELAYER_HOME", "/dev/null/home")
    result = run("progress")
    assert result.exit_code == 0
    assert "Total: 0 of" in result.output
