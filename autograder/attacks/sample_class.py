"""A small class, made by code: honest, wrong, broken and hostile notebooks of lab 01.

    python -m autograder.attacks.sample_class OUTDIR

writes a folder per student; `PUPILS` says beside each what grading must find. Every notebook is the
released one with other cells in it, so the class follows the lab when the lab changes.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.checks import lab01_strides
from autograder.judge import WrongAnswer

ROOT = Path(__file__).resolve().parents[2]
LAB = lab01_strides.lab
NAME = LAB.name
QUESTIONS = tuple(LAB.questions)

PASS, BLANK, FAIL = "pass", "blank", "fail"
MOST_WRONG = 10  # students who are wrong in every question: it is a small class
Notebook = dict[str, Any]


def released() -> Notebook:
    """The student's notebook, fresh, sources as strings."""
    return _read(ROOT / "labs" / NAME / f"{NAME}.ipynb")


def _read(path: Path) -> Notebook:
    made: Notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in made["cells"]:
        cell["source"] = "".join(cell["source"])
    return made


def right_answers() -> dict[str, str]:
    """The source of each question's cell in the instructor's notebook."""
    solved = _read(ROOT / "solutions" / NAME / f"{NAME}.ipynb")
    sources = {cell["id"]: cell["source"] for cell in solved["cells"]}
    return {question: sources[question] for question in QUESTIONS}


def filled(answers: Mapping[str, str]) -> Notebook:
    """The released notebook with these answers in it; other cells stay as they are."""
    made = released()
    for cell in made["cells"]:
        cell["source"] = answers.get(cell["id"], cell["source"])
    return made


def cell_of(made: Notebook, name: str) -> dict[str, Any]:
    cell: dict[str, Any] = next(cell for cell in made["cells"] if cell["id"] == name)
    return cell


def added(name: str, source: str) -> dict[str, Any]:
    """A code cell as a student adds it."""
    made: dict[str, Any] = {"cell_type": "code", "id": name, "metadata": {}, "source": source}
    return made | {"execution_count": None, "outputs": []}


def wrong_source(question: str, known: WrongAnswer) -> str:
    """A known wrong answer as a student would have typed it: its function under the question's
    name, and whatever of the question's file it needs."""
    (name, function), *_ = known.functions.items()
    tree = ast.parse(Path(inspect.getfile(function)).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    helpers = {node.name: node for node in functions if not node.decorator_list}
    held = inspect.getclosurevars(function).nonlocals
    constants = [f"{n} = {value!r}" for n, value in held.items() if not callable(value)]
    made_with = {n: value for n, value in held.items() if callable(value)}
    parts = []
    for own, one in {**made_with, name: function}.items():
        node = _definition(tree, one.__code__.co_firstlineno)
        parts += [_plain(helper) for helper in _needed(node, helpers)]
        node.name = own
        parts.append(_plain(node))
    return "\n\n".join([*constants, *parts])


def _definition(tree: ast.Module, line: int) -> ast.FunctionDef:
    """The function that begins in `line` with its first decorator, its name, or `lambda`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _first_line(node) == line:
            return node
        if isinstance(node, ast.Lambda) and node.lineno == line:
            (made,) = ast.parse("def _(): ...").body
            assert isinstance(made, ast.FunctionDef)
            made.args, made.body = node.args, [ast.Return(node.body)]
            return made
    raise LookupError(f"no function begins in line {line}")


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _needed(
    node: ast.FunctionDef, helpers: Mapping[str, ast.FunctionDef]
) -> Iterator[ast.FunctionDef]:
    """The checks' own helpers that a function calls, deepest first."""
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    for name in sorted(names & set(helpers) - {node.name}):
        yield from _needed(helpers[name], helpers)
        yield helpers[name]


def _plain(node: ast.FunctionDef) -> str:
    """The function without decorators and annotations, which name things that a notebook lacks."""
    node.decorator_list, node.returns = [], None
    for argument in itertools.chain(node.args.args, node.args.kwonlyargs):
        argument.annotation = None
    return ast.unparse(ast.fix_missing_locations(node))


@dataclass(frozen=True)
class Pupil:
    """A student of the sample class.

    write: puts their hand-in into a folder. expected: for each question a state ("pass", "fail",
    "blank") or the name of a misconception. ungradable: a part of the reason, where there is no
    grade. says: a text that the student's feedback must contain.
    """

    name: str
    write: Callable[[Path], None]
    expected: Mapping[str, str] = field(default_factory=dict)
    ungradable: str = ""
    says: str = ""


def _writes(made: Notebook) -> Callable[[Path], None]:
    text = json.dumps(made)
    return lambda folder: _write(folder, text.encode())


def _write(folder: Path, data: bytes) -> None:
    (folder / f"{NAME}.ipynb").write_bytes(data)


def _expected(**different: str) -> dict[str, str]:
    """All right, but for these."""
    return dict.fromkeys(QUESTIONS, PASS) | different


def pupils() -> Iterator[Pupil]:
    """Everybody, in no particular order."""
    right = right_answers()
    yield from _honest(right)
    yield from _mistaken(right)
    yield from _untidy(right)
    yield from _hostile(right)
    yield from _unreadable(right)


def _honest(right: Mapping[str, str]) -> Iterator[Pupil]:
    text = "Both share floats. <script>alert(1)</script> [x](javascript:alert(2)) $\\href{x}{y}$"
    yield Pupil("ada-all-right", _writes(filled({**right, "why_silent": text})), _expected())
    five = dict(list(right.items())[:5])
    half = dict.fromkeys(QUESTIONS[5:], BLANK)
    yield Pupil("ben-half", _writes(filled(five)), _expected(**half))
    nothing = dict.fromkeys(QUESTIONS, BLANK)
    yield Pupil("cleo-nothing", _writes(released()), nothing)
    warns = "import sys, warnings\nwarnings.warn('mind the gap')\nprint('oh', file=sys.stderr)\n"
    noisy = {name: warns + source for name, source in right.items()}
    yield Pupil("dan-warns", _writes(filled(noisy)), _expected())
    helper = "def last(size):\n    print('looking at', size)\n    return size\n\n\n"
    chatty = right["contiguous_strides"].replace("size):", "size):\n    size = last(size)", 1)
    assert "last(size)" in chatty
    inside = {**right, "contiguous_strides": helper + chatty}
    yield Pupil("eli-helper-inside", _writes(filled(inside)), _expected())
    yield Pupil("fay-lost-ids", _writes(_without_ids(filled(right))), _expected())


def _without_ids(made: Notebook) -> Notebook:
    """As Colab saves it: ids of its own, nbgrader's metadata gone."""
    for number, cell in enumerate(made["cells"]):
        cell["id"], cell["metadata"] = f"x{number}", {"id": f"Zr{number}"}
    return made


def _mistaken(right: Mapping[str, str]) -> Iterator[Pupil]:
    """Known wrong answers: the first of each question in one notebook, the second in the next, and
    so on. That each of the others is named as well is for the selftest."""
    for turn in range(MOST_WRONG):
        known = {q.name: q.wrong_answers[turn] for q in LAB if turn < len(q.wrong_answers)}
        answers = {name: wrong_source(name, wrong) for name, wrong in known.items()}
        expected = _expected(**{name: wrong.name for name, wrong in known.items()})
        yield Pupil(f"gus-wrong-{turn + 1}", _writes(filled({**right, **answers})), expected)


def _untidy(right: Mapping[str, str]) -> Iterator[Pupil]:
    broken = {**right, "address": "def address(index, size, stride, offset:\n    return 0"}
    yield Pupil(
        "hal-syntax-error", _writes(filled(broken)), _expected(address=FAIL), says="SyntaxError"
    )
    outside = filled({**right, "address": "def address(*a):\n    return my_helper(*a)"})
    outside["cells"].insert(3, added("mine", "def my_helper(*a):\n    return 0"))
    yield Pupil(
        "ida-helper-outside",
        _writes(outside),
        _expected(address=FAIL),
        says="`my_helper` stands in a cell that is not graded",
    )
    twice = filled(right)
    check = cell_of(twice, "address_check")
    twice["cells"].append({**check, "id": "another", "source": "print('passed')"})
    yield Pupil("jon-check-twice", _writes(twice), _expected())
    pasted = filled(right)
    copy = {**cell_of(pasted, "address"), "id": "pasted", "source": "def address(*a): return 0"}
    pasted["cells"].append(copy)
    yield Pupil("kit-answer-twice", _writes(pasted), ungradable="different cells claim")


def _hostile(right: Mapping[str, str]) -> Iterator[Pupil]:
    head = "def address(index, size, stride, offset):\n    "
    for name, body in (
        ("lea-exits", "import os; os._exit(0)"),
        ("max-loops", "while True: pass"),
        ("nia-swallows-interrupts", "while True:\n        try:\n            while True: pass\n"
         "        except BaseException: pass"),
        ("oto-memory-bomb", "x = [bytearray(2**28) for _ in range(64)]; return len(x)"),
        ("pia-prints-in-call", "print('x' * 200_000_000); return 0"),
        ("quy-segfaults", "import ctypes; return ctypes.string_at(0)"),
    ):  # fmt: skip
        yield Pupil(
            name, _writes(filled({**right, "address": head + body})), _expected(address=FAIL)
        )
    flood = "for _ in range(200):\n    print('x' * 1_000_000)\n"
    flooding = {**right, "address": flood + right["address"]}
    yield Pupil("rex-prints-200-mb", _writes(filled(flooding)), _expected())
    patch = (
        "torch.allclose = torch.equal = lambda *a, **k: True\n"
        "torch.Tensor.__eq__ = lambda a, b: True\n"
        "torch.testing.assert_close = lambda *a, **k: None\n"
        f"{head}return torch.zeros(())"
    )
    yield Pupil(
        "sue-patches-torch", _writes(filled({**right, "address": patch})), _expected(address=FAIL)
    )
    yield from _forgers(right, head)


def _forgers(right: Mapping[str, str], head: str) -> Iterator[Pupil]:
    """Those who change what is not theirs: points, checks, outputs, the kernel."""
    made = filled({**right, "address": f"{head}return 0"})
    check = cell_of(made, "address_check")
    check["metadata"]["nbgrader"] |= {"points": 1000, "locked": False}
    check["source"] = "1000"
    check["outputs"] = [
        {"output_type": "execute_result", "data": {"text/plain": "1000"}, "metadata": {}}
        | {"execution_count": 1}
    ]
    made["metadata"]["kernelspec"] = {"name": "mine", "display_name": "mine", "language": "x"}
    yield Pupil("tom-edits-points", _writes(made), _expected(address=FAIL))
    script = "<script>document.title='owned'</script>"
    loud = {**right, "address": f"print({script!r})\n{head}raise ValueError({script!r})"}
    yield Pupil(
        "uma-sends-script", _writes(filled(loud)), _expected(address=FAIL), says="ValueError"
    )


def _unreadable(right: Mapping[str, str]) -> Iterator[Pupil]:
    whole = json.dumps(filled(right)).encode()
    cut = whole[: len(whole) // 2]
    yield Pupil("vic-cut-off", lambda folder: _write(folder, cut), ungradable="cut off")
    deep = b"[" * 200_000 + b"]" * 200_000
    yield Pupil("wes-too-deep", lambda folder: _write(folder, deep), ungradable="not a notebook")
    yield Pupil("xia-symlink", _link_to("/etc/passwd"), ungradable="link")
    large = whole + b" " * (11 * 2**20)
    yield Pupil("yan-too-large", lambda folder: _write(folder, large), ungradable="10 MB")


def _link_to(target: str) -> Callable[[Path], None]:
    return lambda folder: (folder / f"{NAME}.ipynb").symlink_to(target)


PUPILS = {pupil.name: pupil for pupil in pupils()}


def write(out: Path) -> None:
    """The class into `out`, a folder per student. What lies there already is written anew."""
    for pupil in PUPILS.values():
        folder = out / pupil.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{NAME}.ipynb").unlink(missing_ok=True)
        pupil.write(folder)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m autograder.attacks.sample_class OUTDIR")
    write(Path(sys.argv[1]))
    print(f"{len(PUPILS)} hand-ins in {sys.argv[1]}")


if __name__ == "__main__":
    main()
