"""Lab 12's wheel: what its texts may promise, and faults that only the built and the installed
wheel shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from autograder import selftest
from autograder.checks.cpp_admission import not_admitted as not_admitted_cpp
from autograder.checks.lab12_ship_it import project_texts
from autograder.checks.lab12_ship_it.head_wheel import (
    CPP,
    ENDED,
    FOREIGN,
    FROM_THE_ROOT,
    FULL_HEADERS,
    INIT,
    LEFT_OUT,
    NO_FAKE,
    NOT_FOUND,
    NOT_REGISTERED,
    PYPROJECT,
    RULES,
    TOO_NEW,
    WHEEL,
    _expect_wheel,
    head_wheel,
)
from autograder.checks.lab12_ship_it.project_texts import expect_project, expect_wheel_text
from autograder.judge import LocalStudent, State, Wrong, ask
from autograder.judge.admission import not_admitted

PAGE = Path(__file__).parents[2] / "solutions" / "12_ship_it" / "12_ship_it.ipynb"
PLATFORM = "linux_x86_64"
PROJECT = """
build-system = { requires = ["setuptools", "torch"] }
project = { name = "headloss", version = "1", requires-python = ">=3.11", dependencies = ["torch>=2.11"] }
"""  # noqa: E501
TAGGED = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: "


@pytest.fixture(scope="module")
def answers() -> list[dict[str, str]]:
    """The texts of the solution, then those of the alternatives."""
    pages = [selftest.execute(PAGE), *selftest.alternatives(PAGE)["head_wheel"]]
    return [page["head_wheel"](PLATFORM) for page in pages]


def test_every_known_answer_is_admitted(answers: list[dict[str, str]]) -> None:
    assert len(answers) == 3
    for files in answers:
        assert [*not_admitted(files[INIT], RULES)] == []
        assert [*not_admitted_cpp(files[CPP])] == []
        expect_project(files[PYPROJECT])
        expect_wheel_text(files[WHEEL], PLATFORM)


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.system('true')",
        "import torch\ntorch.ops = 3",
        "import torch\ntorch.library.impl('headloss::head_loss', 'CPU', print)",
        "import torch\ntorch.library.register_fake('aten::add.Tensor', print)",
        "from pathlib import Path\nPath(__file__).write_text('')",
        "from pathlib import Path\nPath = print",
        "import sys",
        "import ctypes",
        "from . import other",
        "__file__ = '/etc/passwd'",
        "__import__('os')",
        "def __getattr__(name): return 1",
        "open(__file__)",
    ],
)
def test_the_module_reaches_nothing_but_its_library(text: str) -> None:
    assert [*not_admitted(text, RULES)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[project",
        "project = 3",
        "[project]\nname = ['headloss']",
        "[project]\nname = '../../headloss'",
        PROJECT.replace('"1"', '"../1"'),
        PROJECT.replace('"1"', "{}"),
        PROJECT.replace('">=3.11"', '"three"'),
        PROJECT.replace('">=3.11"', "3.11"),
        PROJECT.replace('["torch>=2.11"]', '"torch>=2.11"'),
        PROJECT.replace('["torch>=2.11"]', "[1, []]"),
        PROJECT.replace('["torch>=2.11"]', '["torch @ file:///tmp/torch.whl"]'),
        PROJECT.replace('["setuptools", "torch"]', "[]"),
        PROJECT + "tool = 1",
        PROJECT + "tool.setuptools = [1]",
        PROJECT + "tool.setuptools.package-data.headloss = [1]",
        "a = " + "[" * 5_000,
    ],
)
def test_a_strange_project_is_a_wrong_answer(text: str) -> None:
    expect_project(PROJECT)
    with pytest.raises(Wrong):
        expect_project(text)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("torch==2.13.*", project_texts.TORCH_PINNED),
        ("torch>=2.11,<2.14", project_texts.TORCH_PINNED),
        ("torch>=2.11,<3", project_texts.TORCH_PINNED),
        ("torch>=2.12", project_texts.TORCH_PINNED),
        ("torch>=2.9", project_texts.TORCH_TOO_OLD),
        ("numpy", project_texts.NO_TORCH),
    ],
)
def test_what_it_installs_beside(said: str, why: str) -> None:
    with pytest.raises(Wrong) as wrong:
        expect_project(PROJECT.replace('["torch>=2.11"]', f'["{said}"]'))
    assert wrong.value.why == why


@pytest.mark.parametrize("said", [">=3.11,<=3.13", ">=3.12", "<3.13.5", "==3.13.*"])
def test_each_python_has_later_patches(said: str) -> None:
    """3.13.9 is above 3.13."""
    expect_project(PROJECT.replace(">=3.11", ">=3.11,<3.14"))
    with pytest.raises(Wrong) as wrong:
        expect_project(PROJECT.replace(">=3.11", said))
    assert wrong.value.why == project_texts.PYTHON_REFUSED


@pytest.mark.parametrize(
    "tags",
    ["", "py3", "py3-none", "a-b-c", "cp3x-none-linux_x86_64", f"cp311-cp311-{PLATFORM}"],
)
def test_a_tag_that_a_python_refuses(tags: str) -> None:
    for good in ("py3-none", "cp311-abi3", "cp39-abi3", "py311-none"):
        expect_wheel_text(f"{TAGGED}{good}-{PLATFORM}\n", PLATFORM)
    with pytest.raises(Wrong):
        expect_wheel_text(f"{TAGGED}{tags}\n", PLATFORM)


def test_what_it_links_and_asks_for() -> None:
    whole = {"files": ["headloss/_C.so"], "asks": ["torch_old", "exp"], "links": ["libm.so.6"]}
    _expect_wheel(whole, ["torch_old"], "")
    for change, why in (
        ({"files": []}, LEFT_OUT),
        ({"asks": ["aoti_torch_new"]}, TOO_NEW),
        ({"asks": ["_ZNK2at10TensorBase4sizeEl"]}, FOREIGN),
        ({"asks": ["PyObject_Call"]}, FOREIGN),
        ({"links": ["libtorch_python.so"]}, FOREIGN),
        ({"links": ["libcustom.so"]}, FOREIGN),
    ):
        with pytest.raises(Wrong) as wrong:
            _expect_wheel(whole | change, ["torch_old"], "")
        assert wrong.value.why == why
    for named, why in (("headloss/_C.so", FROM_THE_ROOT), ("_C.so", LEFT_OUT)):
        with pytest.raises(Wrong) as wrong:
            _expect_wheel(whole | {"files": []}, ["torch_old"], f'headloss = ["{named}"]')
        assert wrong.value.why == why


LOAD = 'torch.ops.load_library(Path(__file__).with_name("_C.so"))'
ONLY_HERE = 'torch.ops.load_library("headloss/_C.so")'


@pytest.mark.compiler
def test_what_only_the_installed_wheel_shows(answers: list[dict[str, str]]) -> None:
    files = answers[0]
    module, kernel = files[INIT], files[CPP]
    faults = {
        NOT_FOUND: {INIT: module.replace(LOAD, ONLY_HERE)},
        NOT_REGISTERED: {INIT: "import torch\n"},
        NO_FAKE: {INIT: module[: module.index("@torch")]},
        FULL_HEADERS: {CPP: f"#include <torch/extension.h>\n{kernel}"},
        ENDED: {CPP: kernel.replace("return loss;", "*(volatile int*)0 = 1;\n  return loss;")},
    }
    if torch.__version__ >= "2.12":
        faults[TOO_NEW] = {CPP: kernel.partition("\n")[2]}
    for why, change in faults.items():
        changed = {path: {**files, **change}[path] for path in files}
        changed[WHEEL] = changed[WHEEL].replace(PLATFORM, _here())
        verdict = ask(
            head_wheel, LocalStudent({"head_wheel": lambda _, texts=changed: texts}), seed=3
        )
        assert (verdict.state, verdict.sentence) == (State.FAIL, why), verdict


def _here() -> str:
    from autograder.checks.lab12_ship_it.head_wheel import _platform

    return _platform()
