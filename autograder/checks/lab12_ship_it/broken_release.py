"""The detective case: a release that imports, and is broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab
from .releases import (
    FAULTS,
    Files,
    Operator,
    Release,
    backward_in_its_name,
    built_with_any,
    gradient_of_a_longer_name,
    kernel_behind_a_line,
    kernel_in_a_block,
    kernel_of_a_longer_name,
    left_out_of,
    load_in_a_comment,
    loaded_by_nobody,
    other_library_taken_along,
    pinned_in_a_comment,
    pinned_nowhere,
    pinned_to_another,
    tag_of_any_platform,
    tag_of_any_python,
    taken_along_behind_a_line,
    taken_along_in_a_comment,
    unusual,
    whole,
    write_beside_a_declared_one,
    write_in_a_backward,
    write_returned,
    write_with_a_result,
    written_and_returned,
)

Found = tuple[str, str]
WHOLE: Found = ("whole", "")
_RAISED = {
    "AttributeError: 'NoneType'": "A pattern was not found, so there is no match to ask. What is "
    "missing may be the fault.",
    "StopIteration": "A search found nothing. What is missing may be the fault.",
    "ValueError: too many values": "There is more here than was unpacked, as where a comment "
    "has such a line too. What stands in a comment does not count.",
    "KeyError": "The names of library and version differ from release to release: look for the "
    "files by how their paths end.",
}


@lab.question(
    "broken_release",
    points=6,
    minutes=14,
    difficulty=4,
    hints=(
        "Which lines have to be there for each operator, and which once for the whole release? A "
        "comment is no line.",
        "Take the operators from m.def(...). For each ask: m.impl, register_fake, "
        "register_autograd, and whether its body calls x.something_( on an argument whose schema "
        "has no `!`. Then the load in __init__.py, the two versions of torch, package-data, the "
        "tag.",
        r'defined = re.findall(r\'m\.def\("(\w+)\((.*?)\) ->\', cpp)',
    ),
)
def broken_release(student: Student, draw: Draw) -> None:
    """Detective case: the fault of a release, and where it is.

    files: texts by path -> (kind of fault, path or operator), or ("whole", "").
    """
    for release, want in _cases(draw):
        with explaining(_RAISED):
            got = student.call("broken_release", release.files())
        _expect(got, want, release)


def _expect(got: Any, want: Found, release: Release) -> None:
    kind, place = expect_tuple(got, 2, "(kind of fault, place)")
    if not isinstance(kind, str) or kind != want[0]:
        why = _MISSED.get(want[0]) or (_ALARMS.get(kind, "") if isinstance(kind, str) else "")
        if isinstance(kind, str):
            why = _of_its_texts(kind, place, want, release) or why
        raise Wrong(expected=describe(want), got=describe(got), why=why)
    if not isinstance(place, str) or place != want[1]:
        why = _PLACES["operator" if "::" in want[1] else "path" if want[1] else "none"]
        raise Wrong(expected=describe(want[1]), got=describe(place), where=f"of {kind}", why=why)


def _of_its_texts(kind: str, place: Any, want: Found, release: Release) -> str:
    """What its texts show of the very operator that was missed, or called a fault, or of the torch
    that it asks for; "" where nothing does."""
    full, texts = want[1], release.files().values()
    name = full.rpartition("::")[2]
    for call, missed, text in (
        ("m.impl", "no_kernel", f'm.impl("{name}"'),
        ("register_fake", "no_fake", f'register_fake("{full}"'),
        ("register_autograd", "no_gradient", f'register_autograd("{full}"'),
    ):
        if want[0] == missed and any(text in one for one in texts):
            return f"The {call} of `{name}` stands in a comment, and registers nothing."
    runs_with = release.runs_with
    if want[0] == "torch_unpinned" and runs_with.startswith(("torch>=", "torch~=")):
        return (
            f"`{runs_with}` allows later versions too, with another C++ ABI. Only `==` names one."
        )
    for op in release.operators if (want, kind) == (WHOLE, "undeclared_write") else ():
        if place == f"{release.library}::{op.name}":
            return _of_a_write(op)
    return ""


def _of_a_write(op: Operator) -> str:
    """Why no write of an operator of a whole release is a fault."""
    written = next((one.split()[-1] for one in op.arguments.split(",") if "!" in one), "")
    if written:
        return f"`{op.name}` writes {written} alone, and its schema says `(a!)` of that."
    return (
        f"`{op.name}` writes none of its arguments. A tensor of its own is none, and a comment "
        "writes nothing."
    )


def _cases(draw: Draw) -> Iterator[tuple[Release, Found]]:
    """A whole one, each fault in both of its forms, and some of them again."""
    yield whole(draw), WHOLE
    for kind in draw.shuffled(list(FAULTS)):
        for hidden in (False, True):  # who misses a fault altogether fails at the plain form
            yield _broken(draw, kind, hidden)
    release, place = load_in_a_comment(draw)
    yield release, ("not_loaded", place)
    for kind, made in _OTHERS:
        release, place = made(draw)
        yield release, (kind, place)
    for kind in ("no_kernel", "no_fake"):
        for end in ("", "_backward", "_"):
            release, place = left_out_of(draw, kind, end)
            yield release, (kind, place)
    for release in unusual(draw):
        yield release, WHOLE
    for _ in draw.cases(3):
        yield _broken(draw, draw.choice(list(FAULTS)), bool(draw.integer(0, 1)))


_OTHERS = (
    ("torch_unpinned", pinned_to_another),
    ("torch_unpinned", built_with_any),
    ("undeclared_write", write_beside_a_declared_one),
    ("no_kernel", kernel_behind_a_line),
    ("no_gradient", backward_in_its_name),
    ("no_gradient", written_and_returned),
    ("torch_unpinned", pinned_nowhere),
    ("torch_unpinned", partial(pinned_nowhere, bound=">=")),
    ("torch_unpinned", partial(pinned_nowhere, bound="~=")),
    ("no_kernel", kernel_of_a_longer_name),
    ("wrong_tag", tag_of_any_platform),
    ("wrong_tag", tag_of_any_python),
    ("file_left_out", other_library_taken_along),
    ("no_kernel", kernel_in_a_block),
    ("undeclared_write", write_in_a_backward),
    ("undeclared_write", write_with_a_result),
    ("undeclared_write", write_returned),
    ("not_loaded", loaded_by_nobody),
    ("torch_unpinned", pinned_in_a_comment),
    ("file_left_out", taken_along_in_a_comment),
    ("file_left_out", taken_along_behind_a_line),
    ("no_gradient", gradient_of_a_longer_name),
)


def _broken(draw: Draw, kind: str, hidden: bool) -> tuple[Release, Found]:
    release, place = FAULTS[kind](draw, whole(draw), hidden)
    return release, (kind, place)


_MISSED = {
    "not_loaded": "Nothing loads the library when the package is imported, so torch.ops knows none "
    "of its operators. A line in a comment, in a function that nobody calls, or in a module that "
    "nobody imports, loads nothing.",
    "no_kernel": "An operator has a schema and no kernel: m.def without m.impl. It can be found, "
    "and not run.",
    "no_fake": "An operator has no fake kernel. It runs eagerly; torch.compile cannot ask it for "
    "shapes.",
    "no_gradient": "An operator has no gradient registered. Where its kernel calls torch's "
    "operators, autograd records those, and warns; one that writes through pointers leaves "
    "everything below it untrained.",
    "undeclared_write": "A kernel writes into an argument, and its schema does not say so. "
    "functionalization then believes that the argument is as it was.",
    "torch_unpinned": "It was built with one version of torch and may install beside another. "
    "torch's C++ ABI does not hold from one to the next: both have to be the same.",
    "file_left_out": "The shared library is not in package-data, so it is in no wheel: the import "
    "fails wherever it was not built.",
    "wrong_tag": "The wheel's tag ends in `-any`, which promises every platform, and the wheel "
    "has compiled code for one of them in it.",
}


_PLACES = {
    "operator": "The kind is right, the place is not: it is the full name of the operator that "
    "has the fault, library::name.",
    "path": "The kind is right, the place is not: it is the path of the file that has the "
    "fault, as it stands in `files`.",
    "none": 'Where nothing is wrong there is no place: an empty text, "".',
}
_ALARMS = {
    "not_loaded": "This release is whole: __init__.py loads the library when it is imported.",
    "no_kernel": "This release is whole: each operator that is defined has its m.impl.",
    "no_fake": "This release is whole: each operator has its register_fake.",
    "no_gradient": "This release is whole. An operator whose name ends in `_backward` needs no "
    "gradient, nor one that writes its argument and returns nothing.",
    "undeclared_write": "This release is whole. A kernel may write into a tensor of its own, and "
    "into an argument whose schema has a `!`; a write is a method whose name ends in `_`.",
    "torch_unpinned": "This release is whole: it installs beside the torch that it was built with.",
    "file_left_out": "This release is whole: package-data names the shared library, as "
    "`_C*.so` and `*.so` do.",
    "wrong_tag": "This release is whole: its tag names one Python and one platform.",
}
"""Of a whole release, what was called a fault in it."""


def found_in(files: Files, *, blind_to: str = "", mistake: str = "") -> Found:
    """The fault of a release, and ways to get it wrong."""
    for kind, place in _faults(files, mistake):
        if kind != blind_to:
            return kind, place
    return WHOLE


def _faults(files: Files, mistake: str) -> Iterator[Found]:
    by_end = {path.rpartition("/")[2].rpartition(".")[2]: path for path in files}
    init = next(path for path in files if path.endswith("__init__.py"))
    ops = files[next(path for path in files if path.endswith("ops.py"))]
    cpp, project = files[by_end["cpp"]], files[by_end["toml"]]
    if mistake != "comments_of_toml":
        project = re.sub(r"#.*", "", project)
    if mistake != "comments":
        ops, cpp = re.sub(r"#.*", "", ops), re.sub(r"//[^\n]*|/\*.*?\*/", "", cpp, flags=re.S)
    (library,) = re.findall(r"TORCH_LIBRARY\((\w+), m\)", cpp)
    if not any(_loads(text, mistake) for text in _loading(files, init, mistake)):
        yield "not_loaded", init
    for name, arguments, back in re.findall(r'm\.def\("(\w+)\((.*?)\) -> (.*?)"', cpp):
        for kind in _of_operator(name, arguments, back, library, ops, cpp, mistake):
            full = name if mistake == "its_name_alone" else f"{library}::{name}"
            yield kind, by_end["cpp"] if mistake == "path" else full
    yield from _of_metadata(files, project, mistake)


def _loading(files: Files, init: str, mistake: str) -> list[str]:
    """The texts in which a load is looked for."""
    if mistake != "in_any_module":
        return [files[init]]
    return [text for path, text in files.items() if path.endswith(".py")]


def _loads(init: str, mistake: str) -> bool:
    if mistake in ("in_function", "comments"):
        start = r"^(# )?" if mistake == "comments" else r"^\s*"
        return bool(re.search(start + r"torch\.ops\.load_library", init, re.M))
    return bool(re.search(r"^torch\.ops\.load_library", init, re.M))


def _of_operator(
    name: str, arguments: str, back: str, library: str, ops: str, cpp: str, mistake: str
) -> Iterator[str]:
    writes = "!" in arguments
    if f'm.impl("{name}"' not in cpp:
        yield "no_kernel"
    end = "" if mistake == "beginning_of_a_name" else '"'
    if f'register_fake("{library}::{name}{end}' not in ops:
        yield "no_fake"
    needs = not (name.endswith("_backward") and mistake != "backward_too") and not (
        writes and back == "()" and mistake != "writing_too"
    )
    if needs and f'register_autograd("{library}::{name}"' not in ops:
        yield "no_gradient"
    (body,) = re.findall(rf"^\S+ {name}\(.*?^}}", cpp, re.M | re.S)
    tensors = re.findall(r"Tensor (\w+)", arguments)
    if mistake == "declared_too":
        tensors += re.findall(r"Tensor\(a!\) (\w+)", arguments)
    if mistake == "any_write":
        tensors.append("temp")
    if mistake == "any_declared" and writes:
        tensors = []
    if mistake == "first_argument":
        tensors = tensors[:1]
    if any(re.search(rf"\b{one}\.\w+_\(", body) for one in tensors):
        yield "undeclared_write"


def _of_metadata(files: Files, project: str, mistake: str) -> Iterator[Found]:
    (built,) = re.findall(r'^requires = .*?"(torch\b[^"]*)"', project, re.M)
    runs = re.findall(r'dependencies = .*?"(torch\b[^"]*)"', project)[0]
    loose = {
        "any_bound": runs == "torch",
        "pinned_somehow": not ("==" in built and "==" in runs),
        "build_ignored": "==" not in runs,
    }
    if loose.get(mistake, built != runs or "==" not in runs):
        yield "torch_unpinned", "pyproject.toml"
    if not re.search(r'"(_C)?\*\.so"', project):
        yield "file_left_out", "pyproject.toml"
    for path, text in files.items():
        if path.endswith("WHEEL") and re.search(r"(?m)^Tag: .*-any$", text):
            yield "wrong_tag", path


def _blind(kind: str) -> None:
    broken_release.wrong(
        f"{kind}_missed", _MISSED[kind], broken_release=lambda files: found_in(files, blind_to=kind)
    )


def _wrong(name: str, sentence: str) -> None:
    broken_release.wrong(name, sentence, broken_release=lambda files: found_in(files, mistake=name))


for _kind in FAULTS:
    _blind(_kind)
for _name, _sentence in {
    "comments": "A line in a comment was taken for one that runs. What is commented out is not "
    "registered.",
    "comments_of_toml": "A comment of pyproject.toml was taken for what it says. What is commented "
    "out pins nothing and takes no file along.",
    "in_any_module": "The load stands in a module that nobody imports. Importing the package loads "
    "nothing.",
    "in_function": "The load stands in a function that nobody calls. Importing the package loads "
    "nothing.",
    "backward_too": "A gradient was missed at an operator that is itself a backward. It needs one "
    "only for a second derivative, which nobody promised here.",
    "writing_too": "A gradient was missed at an operator that writes its argument and returns "
    "nothing. There is no output to differentiate.",
    "any_write": "A write into a tensor of the kernel's own was taken for one into an argument. "
    "Only what the caller gave is the schema's affair.",
    "declared_too": "The schema declares this write: `Tensor(a!)`. Undeclared ones are the fault.",
    "first_argument": "A write into the second tensor was missed. A kernel may write into each "
    "of its arguments.",
    "any_bound": "`torch>=2.11` allows later versions, with another C++ ABI. Only the version that "
    "it was built with will do.",
    "path": _PLACES["operator"],
    "its_name_alone": _PLACES["operator"],
    "any_declared": "A write beside a declared one was missed. The `!` is for one argument: a "
    "write into another one is undeclared.",
    "pinned_somehow": "torch has a version in both places. They have to be the same version: the "
    "one that it was built with.",
    "build_ignored": "By `dependencies` alone this release looks whole. The torch in "
    "`requires`, with which it is built, has to be the same.",
    "beginning_of_a_name": "A name was found that only begins like the operator's: `temper` is not "
    "registered where `temper_backward` is.",
}.items():
    _wrong(_name, _sentence)


@broken_release.cost
def _(student: Student, draw: Draw) -> str:
    release, (kind, _) = _broken(draw, draw.choice(list(FAULTS)), True)
    files = release.files()
    student.call("broken_release", files)
    size = sum(map(len, files.values()))
    return f"{len(files)} files of {size:,} characters read, nothing run: {kind}"
