"""Which of our files decide a lab's verdicts: what its checks really import, and the judge.

A package's `__init__` that hands on names from elsewhere counts for those names alone: whoever says
`onelayer.key_set` depends on the file that defines it, not on every picture. Data beside the checks
(a text that a question shows) decides too; that beside the instruments (a header, trained weights)
is not looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import autograder.checks
import onelayer

ROOTS = {
    "autograder": Path(autograder.checks.__path__[0]).parent,
    "onelayer": Path(onelayer.__path__[0]),
}
JUDGE, CHECKS = "autograder.judge", "autograder.checks"


def deciding_files(lab: str) -> list[Path]:
    """The files on which a verdict of `lab` depends, sorted: Python, and its checks' own data."""
    waiting = [*_package(JUDGE), *_package(f"{CHECKS}.lab{lab}")]
    found: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += _imported(module)
    python = (path for module in found if (path := _file(module)))
    return sorted([*python, *_data(f"{CHECKS}.lab{lab}")])


def _data(package: str) -> Iterator[Path]:
    """What lies in a package and is no Python, such as a text that a question shows."""
    file = _file(package)
    beside = file.parent.rglob("*") if file and file.name == "__init__.py" else ()
    return (path for path in beside if path.is_file() and path.suffix not in (".py", ".pyc"))


def _package(name: str) -> list[str]:
    """The module of this name, and those in it where it is a package."""
    inside = ROOTS[name.partition(".")[0]].joinpath(*name.split(".")[1:]).glob("*.py")
    return [name, *(f"{name}.{path.stem}" for path in inside if path.stem != "__init__")]


def _file(module: str) -> Path | None:
    """Where a module of ours lies; None for anybody else's, and for what is no module."""
    top, *deeper = module.split(".")
    if top not in ROOTS:
        return None
    path = ROOTS[top].joinpath(*deeper)
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _imported(module: str) -> Iterator[str]:
    """The modules of ours that `module` imports, anywhere in its text but for types alone."""
    packages: dict[str, str] = {}
    for node in _nodes(module):
        if isinstance(node, ast.ImportFrom):
            base = _base(module, node)
            for alias in node.names:
                yield from _home(base, alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                packages[alias.asname or top] = alias.name if alias.asname else top
                yield from (alias.name,) if not _is_package(alias.name) else ()
    for node in _nodes(module):  # `import onelayer`, then `onelayer.key_set`
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            package = packages.get(node.value.id, "")
            yield from _home(package, node.attr) if _is_package(package) else ()


def _home(base: str, name: str) -> Iterator[str]:
    """The module that `from base import name` is about; a lazy package says it to type checkers."""
    if _file(f"{base}.{name}"):
        yield f"{base}.{name}"
        return
    if _is_package(base):
        for node in _nodes(base, types=True):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        yield from _home(_base(base, node), alias.name)
                        return
    if _file(base):
        yield base


def _is_package(module: str) -> bool:
    file = _file(module)
    return file is not None and file.name == "__init__.py"


def _base(module: str, node: ast.ImportFrom) -> str:
    """The absolute name of what a `from ... import` names."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    above = parts[: len(parts) - node.level + _is_package(module)]
    return ".".join([*above, *filter(None, [node.module])])


@cache
def _nodes(module: str, *, types: bool = False) -> tuple[ast.AST, ...]:
    """What imports and what reads an attribute in `module`. types: also what is for types alone."""
    file = _file(module)
    waiting: list[ast.AST] = [ast.parse(file.read_bytes())] if file else []
    found: list[ast.AST] = []
    for node in waiting:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Attribute):
            found.append(node)
        if isinstance(node, ast.If) and not types and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return tuple(found)
