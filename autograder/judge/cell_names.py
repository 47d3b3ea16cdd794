"""The names that a cell makes, read from its text."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence


def bound(statements: Sequence[ast.stmt]) -> set[str]:
    """The names that a cell's own level makes."""
    names: set[str] = set()
    for part in _own_level(statements):
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(part.name)
        elif isinstance(part, ast.alias):
            names.add(part.asname or part.name.split(".")[0])
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
    return names


def _own_level(statements: Collection[ast.AST]) -> list[ast.AST]:
    """Every node but those inside functions, classes and lambdas."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    found: list[ast.AST] = []
    for one in statements:
        found.append(one)
        if not isinstance(one, inner):
            found += _own_level(list(ast.iter_child_nodes(one)))
    return found
