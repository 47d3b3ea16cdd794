"""Mutants of a text: each differs from it in one place, and says in which and how."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

from .changes import changes


@dataclass(frozen=True)
class Mutant:
    """One changed text. line: of the change, from 1. what: the change in a few words, the same for
    the same change wherever its line moves to."""

    source: str
    line: int
    function: str
    what: str

    @property
    def name(self) -> str:
        """How a list of survivors names it: without its line, which moves."""
        return f"{self.function}: {self.what}"


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of `source`, in the order of its lines; none that reads as the text itself does,
    and no text twice. Raises SyntaxError for what is no Python."""
    tree = ast.parse(source)
    seen = {ast.unparse(tree)}
    for path, function in _places(tree):
        node = _at(tree, path)
        for what, changed in changes(node):
            text = ast.unparse(ast.fix_missing_locations(_replaced(tree, path, changed)))
            if text not in seen:
                seen.add(text)
                yield Mutant(text, _line(node), function, what)


Path = tuple[tuple[str, int | None], ...]
"""From the module down to a node: (field, index in a list or None) at each step."""


def _places(tree: ast.Module) -> list[tuple[Path, str]]:
    """The way to every node that runs, and the function it stands in ("" at the top, and in the
    body of a class there). What only documents or types is left out: a docstring, an annotation,
    an import."""
    found: list[tuple[Path, str]] = []

    def walk(node: ast.AST, path: Path, around: str, function: str) -> None:
        if path:
            found.append((path, function))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            around = f"{around}.{node.name}".lstrip(".")
            function = around if isinstance(node, ast.FunctionDef) else function
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "type_params", "decorator_list"}:
                continue
            for k, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(child, ast.AST) and not _is_silent(child):
                    walk(child, (*path, (field, k)), around, function)

    walk(tree, (), "", "")
    return found


def _line(node: ast.AST) -> int:
    return next((n.lineno for n in ast.walk(node) if hasattr(n, "lineno")), 0)


def _is_silent(node: ast.AST) -> bool:
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    typing = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
    return text or typing or isinstance(node, (ast.Import, ast.ImportFrom, ast.JoinedStr))


def _at(tree: ast.AST, path: Path) -> ast.AST:
    for field, k in path:
        value = getattr(tree, field)
        tree = value if k is None else value[k]
    return tree


def _replaced(tree: ast.Module, path: Path, changed: ast.AST) -> ast.Module:
    made = copy.deepcopy(tree)
    *way, (field, k) = path
    parent = _at(made, tuple(way))
    if k is None:
        setattr(parent, field, changed)
    else:
        getattr(parent, field)[k] = changed
    return made
