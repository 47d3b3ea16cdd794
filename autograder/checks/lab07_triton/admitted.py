"""A kernel as text, and which text is one: a function of `tl` and arithmetic, and nothing else.

It is parsed and never run by Python. What is not listed here is refused with a sentence, so that
nobody wonders why a right idea fails.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass

MAX_CHARACTERS = 20_000
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Expr,
               ast.Pass, ast.Return, ast.Assert)  # fmt: skip
_EXPRESSIONS = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp,
                ast.Call, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List)  # fmt: skip
_PARTS = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context, ast.keyword)


class Refused(Exception):
    """The text is no kernel of this lab; the message says why, and `.line` where (from 1)."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True)
class Kernel:
    """A kernel: its parameters in order, those that are tl.constexpr, its statements, its lines."""

    name: str
    parameters: tuple[str, ...]
    constants: frozenset[str]
    body: tuple[ast.stmt, ...]
    lines: tuple[str, ...]

    @property
    def called(self) -> frozenset[str]:
        """The names that it calls as functions: float, range, and those of helpers."""
        calls = (
            node for part in self.body for node in ast.walk(part) if isinstance(node, ast.Call)
        )
        return frozenset(call.func.id for call in calls if isinstance(call.func, ast.Name))

    def at(self, line: int) -> str:
        """Line `line` (from 1) as it is shown to people."""
        return f"line {line}: {self.lines[line - 1].strip()}" if line else ""


def admitted(source: str, *, returns: bool = False) -> Kernel:
    """The kernel that `source` defines: one function, with or without its decorator. returns: it is
    one that kernels call, and may return a value.

    Raises Refused.
    """
    function = _function(source)
    for node in ast.walk(ast.Module(function.body, [])):
        _expect_known(node)
        if isinstance(node, ast.Return) and node.value is not None and not returns:
            line = node.lineno
            raise Refused("A kernel returns nothing: it stores what it has computed.", line)
    given = function.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs:
        raise Refused("A kernel has plain parameters, without *.")
    if not all(isinstance(default, ast.Constant) for default in given.defaults):
        raise Refused("The default of a kernel's parameter is a number.")
    constants = [a.arg for a in given.args if a.annotation and _is_constexpr(a.annotation)]
    names = tuple(a.arg for a in given.args)
    lines = tuple(textwrap.dedent(source).splitlines())
    return Kernel(function.name, names, frozenset(constants), tuple(function.body), lines)


def _function(source: str) -> ast.FunctionDef:
    if len(source) > MAX_CHARACTERS:
        raise Refused(f"A kernel has at most {MAX_CHARACTERS:,} characters.")
    try:
        body = ast.parse(textwrap.dedent(source)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Refused(f"This is no Python: {type(error).__name__}.") from None
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise Refused("A kernel is one function: `@kernel`, `def`, and nothing beside it.")
    return body[0]


def _is_constexpr(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).strip("'\"") in ("tl.constexpr", "constexpr")


def _expect_known(node: ast.AST) -> None:
    """Raises Refused for syntax that Triton's kernels, or those of this lab, do without."""
    line = getattr(node, "lineno", 0)
    if isinstance(node, (ast.Module, *_PARTS)):
        return
    if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)):
        raise Refused(f"A kernel of this lab has no {_named(node)}.", line)
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For)):
        _expect_names(node, line)
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        raise Refused("Triton has no a < b < c: write (a < b) & (b < c).", line)


def _expect_names(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For, line: int) -> None:
    """Only plain names are assigned to."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(part, ast.Name) for part in parts):
            raise Refused("Only names are assigned to. Memory is written by tl.store.", line)


def _named(node: ast.AST) -> str:
    return {
        "Import": "import",
        "ImportFrom": "import",
        "FunctionDef": "function inside it",
        "Lambda": "lambda",
        "Break": "break: Triton has none",
        "Continue": "continue: Triton has none",
        "Raise": "raise",
    }.get(type(node).__name__, type(node).__name__)
