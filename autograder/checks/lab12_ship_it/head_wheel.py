"""A project in four texts, built into a wheel, and installed where none of it was written."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.checks.cpp_admission import expect_admitted
from autograder.checks.explaining import explaining
from autograder.judge import (
    Call,
    Draw,
    GraderFault,
    NoAnswer,
    NotAdmitted,
    Race,
    Rules,
    Student,
    Turn,
    Wrong,
    clean_room,
    describe,
    expect_close,
    expect_equal,
    expect_tuple,
    within,
)
from autograder.judge.admission import line_of, not_admitted
from autograder.judge.clean_room import MAX_TEXT
from onelayer.custom_op.cpp_compiler import NoCompiler, compiler

from . import lab, wheel_room
from .project_texts import (
    ANY_PLATFORM,
    BUILD_NEEDS_TORCH,
    NO_TORCH,
    ONE_PYTHON,
    PURE,
    TORCH_PINNED,
    TORCH_TOO_OLD,
    expect_project,
    expect_wheel_text,
)
from .wheel_room import NotInstalled

PYPROJECT, INIT, CPP, WHEEL = FILES = (
    "pyproject.toml",
    "headloss/__init__.py",
    "csrc/headloss.cpp",
    "WHEEL",
)
SCHEMA = "headloss::head_loss(Tensor x, Tensor w, Tensor b, Tensor t) -> Tensor"
IGNORED = -100
RULES = Rules(
    given=frozenset({"__file__", "hasattr"}),
    paths=frozenset(
        {
            "pathlib.Path",
            "torch.ops.headloss",
            "torch.ops.load_library",
            *(f"os.path.{name}" for name in ("join", "dirname", "abspath", "realpath")),
        }
    ),
    attributes=frozenset(
        {"parent", "with_name", "joinpath", "glob", "resolve", "absolute", "default"}
    ),
    registers=frozenset({"torch.library.register_fake"}),
    namespace="headloss",
    binds=frozenset({"__all__", "__version__"}),
)
"""Of `__init__.py`: it finds its library, loads it, and registers a fake."""

LEFT_OUT = (
    "The library is built, and does not get into the wheel: here what is no Python is taken "
    "along only if `[tool.setuptools.package-data]` names it."
)
FROM_THE_ROOT = (
    "package-data names the library from the project's root on. Its patterns are relative to the "
    "package's folder: `_C.so`."
)
FULL_HEADERS = (
    "This header is none of the stable ones, which are in torch/csrc/stable and "
    "torch/headeronly. Of torch's C++ classes, as torch/extension.h has them, a library "
    "asks for mangled names, which change from release to release."
)
TOO_NEW = (
    "The library asks for names that torch 2.11 does not have, and cannot be loaded there. Nothing "
    "on this machine shows it. What says which release the headers are to keep to?"
)
FOREIGN = (
    "The library needs more than torch's C functions and the C and C++ libraries: whoever "
    "installs the wheel has to have that too."
)
NOT_FOUND = (
    "The import fails where the package is installed. Is it the library that is not found? The "
    "process may start in any folder: look beside the module, by `__file__`."
)
NOT_REGISTERED = (
    "After `import headloss` there is no operator headloss::head_loss in the process. Does the "
    "module load the library, and does the library define it by this very name?"
)
NOT_AGAIN = (
    "The first import works, the second raises. Notebooks import again: what is registered by the "
    "module must bear it, or ask first."
)
NO_FAKE = (
    "The operator cannot be asked for shapes alone: its fake kernel is missing, or raises, and "
    "every compiled model breaks at it. `torch.library.register_fake` in the module."
)
FAKE_DIFFERS = "The fake result is not what the kernel returns: one float for each row of x."
ENDED = (
    "The process gave no answer: it ended, or did not come to an end. Does the kernel read w "
    "at a target of -100, or beyond the end of a tensor?"
)
RAISED = "The call raised, where each of x, w, b and t was what the page says."
ONE_EACH = "One loss comes back for each row of x, and each is one number: a tensor (N,)."
IGNORED_ROWS = "Right but for rows whose target is -100: they give 0, and read no logit."
NOT_FINITE = (
    "A loss is not finite, and in truth all are: exp is inf from 89 on in float32 and from 710 "
    "on in float64, and far below 0 it is 0. Take the largest logit of a row away before "
    "exp, also one below 0, and add it after log."
)
NOT_WRITTEN = (
    "A loss is not finite, though no logit is large. Is each one written before it is read? "
    "What `new_empty` gives need not be 0."
)
OTHER_SCHEMA = "Callers rely on the schema, and this is another. Copy it from the page."
_STEPS = {
    "import": NOT_FOUND,
    "registers": NOT_REGISTERED,
    "again": NOT_AGAIN,
    "fake": NO_FAKE,
    "ended": ENDED,
    "call": RAISED,
}
_COMPILING = {"CompileError": "The compiler does not take it. The lines it shows are yours."}
_CLASSES = re.compile(r"<(?:torch/(?!csrc/stable/|headeronly/)|ATen/|c10/)[^>]*>")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TORCHS = re.compile(r"(?:aoti_)?torch_\w+")
_FOREIGN = re.compile(r"_ZN?K?(?:2at|3c10|5torch|5caffe2)\w*|_?Py[A-Z]\w*")
_SYSTEMS = ("libtorch_cpu", "libc10", "libstdc++", "libc++", "libm", "libgcc_s", "libc", "ld-linux")


@lab.question(
    "head_wheel",
    points=8,
    minutes=20,
    difficulty=4,
    hints=(
        "Four texts, and chapter 12 has one of each. Which of them says where the wheel fits, "
        "which what it installs beside, which where its library is?",
        "The kernel is the chapter's, with the product in the loop over words, and strides made "
        "good by torch::stable::contiguous. Define TORCH_TARGET_VERSION above its headers. The "
        "library lies beside the module, as _C.so, if package-data names it.",
        'torch.ops.load_library(Path(__file__).with_name("_C.so"))',
    ),
    budget_s=120.0,
    host="Its operator has a kernel for the CPU alone.",
)
def head_wheel(student: Student, draw: Draw) -> None:
    """An installable head loss: a wheel of four texts, judged where it was installed.

    platform: the last part of the tag -> {path: text}.
    """
    _needs_compiler()
    platform = _platform()
    files = _texts_of(student, platform)
    with _noted(student, Call("head_wheel", (platform,), {}, files)):
        expect_project(files[PYPROJECT])
        expect_wheel_text(files[WHEEL], platform)
        _expect_admitted(student, files)
    with clean_room(student, wheel_room) as room:
        oldest = _names_of_oldest(room)
        room.value_of("take", files)
        with explaining(_COMPILING):
            wheel = room.value_of("built")
        with _noted(student, Call("built", (), {}, wheel)):
            _expect_wheel(wheel, oldest, files[PYPROJECT])
        _expect_operator(room)
        _expect_values(room, draw)


@contextmanager
def _noted(student: Student, call: Call) -> Iterator[None]:
    """Inside, a fault is one of what came back from `call`. A right answer leaves no word of it: a
    model of the wrong ones has other texts."""
    try:
        yield
    except Wrong:
        student.calls.append(call)
        raise


def _names_of_oldest(room: Student) -> list[str]:
    """What the library may ask for, asked before anything of the student's is in the room."""
    if not (names := room.value_of("names_of_oldest")):
        raise GraderFault("the compiler finds no stable header of torch here")
    return list(names)


def _needs_compiler() -> None:
    try:
        compiler()
    except NoCompiler as missing:
        raise GraderFault(str(missing)) from None


def _platform() -> str:
    """The last part of a wheel's name, for what is built here."""
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def _texts_of(student: Student, platform: str) -> dict[str, str]:
    got = student.value_of("head_wheel", platform)
    if not isinstance(got, dict) or set(got) != set(FILES):
        raise Wrong(expected=f"a dict with {', '.join(FILES)}", got=describe(got))
    for path, text in got.items():
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise Wrong(expected="a text", got=describe(text), where=path)
    return {path: got[path] for path in FILES}


def _expect_admitted(student: Student, files: dict[str, str]) -> None:
    """Raises Wrong for headers that no stable library reads; while grading, NotAdmitted."""
    if classes := _CLASSES.search(_COMMENT.sub("", files[CPP])):
        expected = "the headers of the stable ABI"
        raise Wrong(expected=expected, got=classes[0], where=CPP, why=FULL_HEADERS)
    expect_admitted(student, files[CPP])
    if student.is_grading:
        for line, reason in not_admitted(files[INIT], RULES):
            raise NotAdmitted(line, line_of(files[INIT], line), reason)


def _expect_wheel(wheel: Any, oldest: Any, pyproject: str) -> None:
    """The files inside, and what the library asks others for."""
    if not any(path.endswith("/_C.so") for path in wheel["files"]):
        got = describe(wheel["files"])
        from_the_root = re.search(r"""["']headloss/[^"']+\.so["']""", pyproject)
        why = FROM_THE_ROOT if from_the_root else LEFT_OUT
        raise Wrong(expected="headloss/_C.so in the wheel", got=got, why=why)
    asks = wheel["asks"]
    linked = [name for name in wheel["links"] if re.split(r"[.]|-x|-a", name)[0] not in _SYSTEMS]
    if foreign := [*filter(_FOREIGN.match, asks), *linked]:
        raise Wrong(expected="C functions of torch alone", got=describe(foreign), why=FOREIGN)
    if newer := [name for name in asks if _TORCHS.fullmatch(name) and name not in oldest]:
        raise Wrong(expected="names that torch 2.11 has", got=describe(newer), why=TOO_NEW)


def _expect_operator(room: Student) -> None:
    with _steps():
        got = expect_tuple(room.call("imported"), 3, "schema, shape and dtype")
    if got[0] != SCHEMA:
        raise Wrong(expected=SCHEMA, got=describe(got[0]), why=OTHER_SCHEMA)
    if (tuple(got[1]), got[2]) != ((7,), torch.float32):
        raise Wrong(expected="(7,) float32", got=describe(got[1:]), why=FAKE_DIFFERS)


@contextmanager
def _steps() -> Iterator[None]:
    """Inside, what the installed package does not do is told with the sentence of its step."""
    try:
        yield
    except NoAnswer as none:
        step, _, said = none.raised.message.partition(": ")
        if none.raised.error != NotInstalled.__name__ or step not in _STEPS:
            raise
        raise Wrong(expected="an operator", got=said[:200], why=_STEPS[step]) from None


Case = tuple[Tensor, Tensor, Tensor, Tensor]


def _expect_values(room: Student, draw: Draw) -> None:
    cases = [*_cases(draw)]
    with _steps():
        answers = expect_tuple(room.call("computed", cases), len(cases), "losses")
    for case, got in zip(cases, answers, strict=True):
        where, want = f"for N = {len(case[0])}, V = {len(case[1])}", loss_of(*case)
        with within(where, why=partial(_why_values, got, want, case)):
            expect_close(got, want, tolerance=1e-5)


def _why_values(got: Any, want: Tensor, case: Case) -> str:
    """What is true of the rows that are wrong, after the cases before were right."""
    if not isinstance(got, Tensor) or got.shape != want.shape:
        return ONE_EACH
    if got.dtype != want.dtype:
        return ""
    ignored = case[3] == IGNORED
    if ignored.any() and got[~ignored].allclose(want[~ignored]):
        return IGNORED_ROWS
    if not got.isfinite().all():
        x, w, b, _ = case
        return NOT_FINITE if bool((F.linear(x, w, b).abs() > 88).any()) else NOT_WRITTEN
    turned = [name for name, one in zip("xwbt", case, strict=True) if not one.is_contiguous()]
    if not turned:
        return ""
    return (
        f"Right while all were contiguous. Here {', '.join(turned)}: not so. Ask each for its "
        "strides, or take torch::stable::contiguous of it."
    )


def _cases(draw: Draw) -> Iterator[Case]:
    """Few and many rows, large logits, words that do not count, and every kind of strides."""
    for n in draw.sizes(0, 1, 7, 64):
        v, d = draw.integer(3, 40), draw.integer(1, 30)
        yield draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v), _targets(draw, n, v)
    n, v, d = draw.integer(4, 9), draw.integer(10, 20), draw.integer(21, 30)
    x, w = draw.tensor(d, n).T, draw.tensor(d, v).T
    yield x, w, draw.tensor(v, 2)[:, 1], _targets(draw, n, v)
    yield 40 * draw.tensor(n, d), 10 * draw.tensor(v, d), draw.tensor(v), _targets(draw, n, v)
    some = _targets(draw, n, v)
    some[::2] = IGNORED
    yield draw.tensor(n, d), draw.tensor(v, d), draw.tensor(1).expand(v), some
    x, w = draw.tensor(n, d + 3)[:, 2:-1], draw.tensor(v, d + 2)[:, 1:-1]
    yield x, w, draw.tensor(v), torch.arange(n) % 2 * (v - 1)
    yield draw.tensor(1, d).expand(n, d), draw.tensor(1, d), draw.tensor(1), _targets(draw, n, 1)
    # all far below 0, and whole: in float32 too their sums are exact
    x, w = (draw.integers(rows, d, low=-2, high=2).float() for rows in (n, v))
    yield x, w, torch.full((v,), -1000.0), _targets(draw, n, v)
    t = _targets(draw, n, v)
    t = torch.stack([(t + 1) % v, t], 1)[:, 1]  # a column, beside which stand other words
    yield draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v), t


def _targets(draw: Draw, n: int, v: int) -> Tensor:
    return torch.tensor([draw.integer(0, v - 1) for _ in range(n)], dtype=torch.int64)


def loss_of(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """The loss of each row, as float64 has it."""
    z = F.linear(x.double(), w.double(), b.double())
    return F.cross_entropy(z, t, reduction="none").float()


Bend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _each(loss: Bend) -> Callable[[Sequence[Case]], list[Tensor]]:
    return lambda cases: [loss(*case) for case in cases]


_SKETCH_PYPROJECT = """[build-system]
requires = ["setuptools>=77", "torch>=2.11"]
[project]
name = "headloss"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["torch>=2.11"]
[tool.setuptools.package-data]
headloss = ["_C.so"]
"""
_SKETCH_WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n"


def _sketch(path: str = "", old: str = "", new: str = "") -> Callable[[str], dict[str, str]]:
    """A project whose texts are those of the page, with one change; the rest is a model's."""

    def files(platform: str) -> dict[str, str]:
        wheel = _SKETCH_WHEEL.format(platform=platform)
        texts = {PYPROJECT: _SKETCH_PYPROJECT, INIT: "", CPP: "", WHEEL: wheel}
        if path:
            assert not old or old in texts[path]
            texts[path] = texts[path].replace(old, new) if old else new
        return texts

    return files


_WHOLE = {"name": "", "files": ["headloss/_C.so"], "asks": ["torch_old"], "links": ["libc.so.6"]}


def _raises(step: str) -> Callable[..., Any]:
    def raising(*_: Any) -> Any:
        raise NotInstalled(f"{step}: RuntimeError: as an example")

    return raising


def _strides_ignored(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    return loss_of(_as_if_contiguous(x), _as_if_contiguous(w), _as_if_contiguous(b), t)


def _as_if_contiguous(t: Tensor) -> Tensor:
    """What a pointer to the first element finds; beyond the storage it may be anything."""
    length = t.untyped_storage().nbytes() // t.itemsize - t.storage_offset()
    behind = torch.zeros(max(length, t.numel()))
    behind[:length] = t.as_strided((length,), (1,))
    return behind[: t.numel()].view(t.shape)


head_wheel.otherwise(
    head_wheel=_sketch(),
    take=lambda files: None,
    built=lambda: _WHOLE,
    names_of_oldest=lambda: ["torch_old"],
    imported=lambda: [SCHEMA, [7], torch.float32],
    computed=_each(loss_of),
)
_TAG = "py3-none-"
head_wheel.wrong(
    "any_platform",
    ANY_PLATFORM,
    head_wheel=lambda platform: _sketch(WHEEL, f"{_TAG}{platform}", f"{_TAG}any")(platform),
)
head_wheel.wrong("one_python", ONE_PYTHON, head_wheel=_sketch(WHEEL, _TAG, "cp312-cp312-"))
head_wheel.wrong("pure", PURE, head_wheel=_sketch(WHEEL, "false", "true"))
_DEPENDS = 'dependencies = ["torch>=2.11"]'
for _name, _said, _why in (
    ("torch_not_needed", "dependencies = []", NO_TORCH),
    ("torch_pinned", 'dependencies = ["torch==2.13.*"]', TORCH_PINNED),
    ("torch_unbounded", 'dependencies = ["torch"]', TORCH_TOO_OLD),
):
    head_wheel.wrong(_name, _why, head_wheel=_sketch(PYPROJECT, _DEPENDS, _said))
head_wheel.wrong(
    "build_without_torch",
    BUILD_NEEDS_TORCH,
    head_wheel=_sketch(PYPROJECT, ', "torch>=2.11"]\n[', "]\n["),
)
head_wheel.wrong("library_left_out", LEFT_OUT, built=lambda: _WHOLE | {"files": ["x/__init__.py"]})
head_wheel.wrong(
    "full_headers", FULL_HEADERS, head_wheel=_sketch(CPP, "", "#include <torch/extension.h>")
)
head_wheel.wrong("target_forgotten", TOO_NEW, built=lambda: _WHOLE | {"asks": ["torch_new"]})
head_wheel.wrong(
    "asks_for_classes", FOREIGN, built=lambda: _WHOLE | {"asks": ["_ZN2at6TensorD1Ev"]}
)
head_wheel.wrong("found_in_the_project", NOT_FOUND, imported=_raises("import"))
head_wheel.wrong("not_loaded", NOT_REGISTERED, imported=_raises("registers"))
head_wheel.wrong("imported_once", NOT_AGAIN, imported=_raises("again"))
head_wheel.wrong("no_fake", NO_FAKE, imported=_raises("fake"))
head_wheel.wrong("fake_of_logits", FAKE_DIFFERS, imported=lambda: [SCHEMA, [7, 11], torch.float32])
head_wheel.wrong(
    "schema_of_its_own",
    OTHER_SCHEMA,
    imported=lambda: [SCHEMA.replace("Tensor t", "Tensor target"), [7], torch.float32],
)
head_wheel.wrong("ignored_words_read", ENDED, computed=_raises("ended"))
head_wheel.wrong(
    "exp_overflows",
    "Large logits give inf or NaN: exp of 89 is inf in float32, and exp of 710 in float64. "
    "Subtract the largest first.",
    computed=_each(lambda x, w, b, t: -_log_of_softmax(x, w, b, t)),
)
head_wheel.wrong(
    "ignored_words_count",
    "Rows whose target is -100 are to have the loss 0: they do not count.",
    computed=_each(lambda x, w, b, t: loss_of(x, w, b, t.clamp(min=0))),
)
head_wheel.wrong(
    "strides_ignored",
    "Right where the rows lie one after the other, wrong where they do not. A pointer knows no "
    "strides: make x, w and b contiguous, or use theirs.",
    computed=_each(_strides_ignored),
)
head_wheel.wrong(
    "bias_forgotten",
    "The bias is missing from the logits.",
    computed=_each(lambda x, w, b, t: loss_of(x, w, torch.zeros_like(b), t)),
)
head_wheel.wrong(
    "mean_of_all",
    "One number came back. The operator returns the loss of each row; whoever calls it divides.",
    computed=_each(lambda x, w, b, t: loss_of(x, w, b, t).mean()),
)


def _log_of_softmax(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    z = F.linear(x, w, b).exp()
    share = z.gather(1, t.clamp(min=0)[:, None])[:, 0] / z.sum(1)
    return share.log().masked_fill(t == IGNORED, -0.0)


@head_wheel.cost
def _(student: Student, draw: Draw) -> str:
    files = _texts_of(student, _platform())
    with clean_room(student, wheel_room) as room:
        room.value_of("take", files)
        wheel = room.value_of("built")
    expect_equal(isinstance(wheel["name"], str), True)
    asks = sum(bool(_TORCHS.fullmatch(name)) for name in wheel["asks"])
    return f"{wheel['name']} asks for {asks} C functions of torch and 0 names of its classes"


@contextmanager
def _loaded(student: Student) -> Iterator[Student]:
    """A room that has the student's operator, built and imported."""
    files = _texts_of(student, _platform())
    _expect_admitted(student, files)
    with clean_room(student, wheel_room) as room:
        room.value_of("take", files)
        room.value_of("load")
        yield room


def _turn(draw: Draw) -> Turn:
    n, v, d = 256, 600, 64
    t = draw.integers(n, low=0, high=v - 1)
    given = (draw.tensor(n, d), draw.tensor(v, d), draw.tensor(v), t)
    return Turn(given, {"reduction": "none"}, tolerance=1e-4)


head_wheel.race = Race("raced", "onelayer.kernels.chunked:chunked_head_loss", _turn, _loaded)
