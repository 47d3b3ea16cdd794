"""What a tired person writes instead: for one node of a syntax tree, the nodes that may stand there
in its place, each with a few words."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

Change = tuple[str, ast.AST]

COMPARED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE,),
    ast.LtE: (ast.Lt,),
    ast.Gt: (ast.GtE,),
    ast.GtE: (ast.Gt,),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.MatMult: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitXor: (ast.BitOr,),
}
OTHER_NAMES = {
    "float32": "float64",
    "float64": "float32",
    "float16": "bfloat16",
    "int64": "int32",
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "sum": "mean",
    "mean": "sum",
    "zeros": "ones",
    "ones": "zeros",
    "numel": "dim",
    "argmax": "argmin",
}


def changes(node: ast.AST) -> Iterator[Change]:
    """The nodes that may stand in place of `node`, which stays as it is."""
    for kind, change in _BY_KIND:
        if isinstance(node, kind):
            yield from change(node)


def _compare(node: ast.Compare) -> Iterator[Change]:
    for k, op in enumerate(node.ops):
        for other in COMPARED.get(type(op), ()):
            ops = [*node.ops[:k], other(), *node.ops[k + 1 :]]
            yield f"{_said(node)} compares by {other.__name__}", _with(node, ops=ops)


def _binary(node: ast.BinOp | ast.AugAssign) -> Iterator[Change]:
    for other in COMPUTED.get(type(node.op), ()):
        yield f"{_said(node)} computes by {other.__name__}", _with(node, op=other())


def _boolean(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield f"{_said(node)} joins by {type(other).__name__}", _with(node, op=other)
    for k, part in enumerate(node.values):
        rest = node.values[:k] + node.values[k + 1 :]
        left = rest[0] if len(rest) == 1 else _with(node, values=rest)
        yield f"{_said(node)} without {_said(part)}", left


def _unary(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
        yield f"{_said(node)} without its {type(node.op).__name__}", node.operand


def _constant(node: ast.Constant) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield f"{node.value} is {not node.value}", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield f"{node.value} one more", ast.Constant(node.value + 1)
    elif isinstance(node.value, float):
        yield f"{node.value} doubled", ast.Constant(node.value * 2 or 1.0)


def _if(node: ast.If | ast.IfExp) -> Iterator[Change]:
    """Both ways, whatever is true."""
    yield f"if {_said(node.test)}: always", _with(node, test=ast.Constant(True))
    yield f"if {_said(node.test)}: never", _with(node, test=ast.Constant(False))


def _loop(node: ast.For | ast.While) -> Iterator[Change]:
    body = [*node.body, ast.Break()]
    yield f"{_head(node)}: leaves after one turn", _with(node, body=body, orelse=[])
    if isinstance(node, ast.For):
        yield f"{_head(node)}: no turn at all", _with(node, iter=ast.Tuple([], ast.Load()))


def _return(node: ast.Return) -> Iterator[Change]:
    if node.value is not None and not _is_none(node.value):
        yield f"{_said(node)} returns nothing", ast.Return(ast.Constant(None))


def _statement(node: ast.stmt) -> Iterator[Change]:
    kinds = (ast.Expr, ast.AugAssign, ast.Raise, ast.Delete, ast.Continue, ast.Break)
    if isinstance(node, kinds):
        yield f"{_said(node)} dropped", ast.Pass()


def _call(node: ast.Call) -> Iterator[Change]:
    if len(node.args) >= 2 and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
        args = [node.args[1], node.args[0], *node.args[2:]]
        yield f"{_said(node)} with its first two swapped", _with(node, args=args)
    for k, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            rest = node.keywords[:k] + node.keywords[k + 1 :]
            yield f"{_said(node)} without {keyword.arg}", _with(node, keywords=rest)


def _subscript(node: ast.Slice) -> Iterator[Change]:
    for end in ("lower", "upper", "step"):
        if getattr(node, end) is not None:
            yield f"[{_said(node)}] without its {end}", _with(node, **{end: None})


def _name(node: ast.Attribute | ast.Name) -> Iterator[Change]:
    field = "attr" if isinstance(node, ast.Attribute) else "id"
    other = OTHER_NAMES.get(getattr(node, field))
    if other is not None and isinstance(node.ctx, ast.Load):
        yield f"{_said(node)} is {other}", _with(node, **{field: other})


def _comprehension(node: ast.comprehension) -> Iterator[Change]:
    for k, test in enumerate(node.ifs):
        rest = node.ifs[:k] + node.ifs[k + 1 :]
        yield f"for without if {_said(test)}", _with(node, ifs=rest)


def _try(node: ast.Try) -> Iterator[Change]:
    for k, handler in enumerate(node.handlers):
        kind = _said(handler.type) if handler.type else "all"
        raised = _with(handler, body=[ast.Raise()])
        handlers = [*node.handlers[:k], raised, *node.handlers[k + 1 :]]
        yield f"except {kind} lets it through", _with(node, handlers=handlers)


_BY_KIND: tuple[tuple[Any, Callable[[Any], Iterator[Change]]], ...] = (
    (ast.Compare, _compare),
    ((ast.BinOp, ast.AugAssign), _binary),
    (ast.BoolOp, _boolean),
    (ast.UnaryOp, _unary),
    (ast.Constant, _constant),
    ((ast.If, ast.IfExp), _if),
    ((ast.For, ast.While), _loop),
    (ast.Return, _return),
    (ast.stmt, _statement),
    (ast.Call, _call),
    (ast.Slice, _subscript),
    ((ast.Attribute, ast.Name), _name),
    (ast.comprehension, _comprehension),
    (ast.Try, _try),
)


def _with(node: ast.AST, **fields: Any) -> ast.AST:
    made = {name: getattr(node, name, None) for name in node._fields}
    return ast.copy_location(type(node)(**{**made, **fields}), node)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _head(node: ast.For | ast.While) -> str:
    what = node.test if isinstance(node, ast.While) else node.iter
    return f"{type(node).__name__.lower()} {_said(what)}"


def _said(node: ast.AST) -> str:
    """The text of a node on one line, cut where it is long."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
