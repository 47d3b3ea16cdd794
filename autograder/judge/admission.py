"""Python that may be run where evidence is gathered: an answer's own definitions, and torch's
operators.

A cell that is admitted computes with what it is given and with what it defines. It reaches no
module but by a path that is listed here or by the check, writes into no object of others, and has
none of Python's doors: no import of anything else, no `exec`, `getattr`, `sys`, frames, or names
with underscores. Everything is a list of what may be, not of what may not: what nobody thought of
is not admitted.

What is not admitted is no wrong answer. In a notebook it is answered as ever; in grading a person
looks at it.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import io
import linecache
import math
import symtable
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import BuiltinFunctionType, CodeType, FrameType, GeneratorType, ModuleType, TracebackType
from typing import Any

import torch


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BUILTINS = _words(
    """abs all any bool dict divmod enumerate filter float frozenset int isinstance iter len list
    map max min next pow print property range repr reversed round set slice sorted staticmethod
    classmethod str sum super tuple zip ArithmeticError AssertionError AttributeError Exception
    IndexError KeyError NotImplementedError RuntimeError StopIteration TypeError ValueError
    ZeroDivisionError Ellipsis NotImplemented"""
)
MODULES = {
    "torch": "torch",
    "F": "torch.nn.functional",
    "nn": "torch.nn",
    "dist": "torch.distributed",
    "math": "math",
    "Tensor": "torch.Tensor",
    "Function": "torch.autograd.Function",
}
"""Names that every cell may use, with the path behind each."""
_IMPORTS = _words(
    "torch torch.nn torch.nn.functional torch.autograd torch.distributed math functools itertools"
    " collections __future__"
)
_FUNCTION = "torch.autograd.Function"
_PATHS = _words(
    """torch.Tensor torch.Size torch.device torch.dtype torch.no_grad torch.enable_grad
    torch.autocast torch.is_tensor torch.einsum torch.split torch.finfo torch.iinfo torch.norm
    torch.autograd.Function torch.autograd.grad torch.autograd.function.once_differentiable
    torch.inf torch.nan torch.pi torch.is_grad_enabled torch.tensor torch.stack torch.cat
    torch.broadcast_tensors torch.meshgrid torch.tensordot torch.cdist torch.unique
    functools.partial functools.reduce functools.cache itertools.accumulate itertools.chain
    itertools.combinations itertools.count itertools.islice itertools.pairwise itertools.product
    itertools.repeat itertools.zip_longest collections.Counter collections.defaultdict
    collections.deque
    torch.strided torch.contiguous_format torch.preserve_format torch.get_default_dtype"""
)
_NO_OPERATORS = _words("from_file frombuffer from_numpy")
_ON_CTX = _words(
    """save_for_backward saved_tensors needs_input_grad mark_dirty mark_non_differentiable
    set_materialize_grads apply forward backward setup_context"""
)
_NO_METHODS = _words(
    """set_ storage untyped_storage storage_type numpy apply_ map_ map2_ share_memory_ format
    format_map resize_as_sparse_ module_load register_post_accumulate_grad_hook"""
)
_DOORS = _NO_METHODS | _words(
    """open write_text write_bytes read_text read_bytes rename unlink rmdir mkdir chmod touch
    symlink_to hardlink_to on_generate_code set_codegen recompile to_folder create_node
    call_function fake_mode shape_env expr get_group_store hooks_dict_ref"""
)
"""Attributes of what an answer may come to hold (paths, graphs, sizes, groups, handles) that lead
out of it. Frames and classes have more of them: `doors`."""
_NOT_WRITTEN = _ON_CTX | _words("data names real imag ns data_ptr detach clone contiguous")
_OF_TENSORS = _words("grad requires_grad")
_OWN_METHODS = frozenset({"__init__", "__call__", "__enter__", "__exit__"})
_NODES = (
    ast.Module, ast.FunctionDef, ast.ClassDef, ast.Return, ast.Delete, ast.Assign, ast.AugAssign,
    ast.AnnAssign, ast.For, ast.While, ast.If, ast.With, ast.Raise, ast.Try, ast.Assert, ast.Import,
    ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Expr, ast.Pass, ast.Break, ast.Continue,
    ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.Lambda, ast.IfExp, ast.Dict, ast.Set,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Yield, ast.Compare, ast.Call,
    ast.FormattedValue, ast.JoinedStr, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred,
    ast.Name, ast.List, ast.Tuple, ast.Slice, ast.expr_context, ast.boolop, ast.operator,
    ast.unaryop, ast.cmpop, ast.comprehension, ast.ExceptHandler, ast.arguments, ast.arg,
    ast.keyword, ast.alias, ast.withitem,
)  # fmt: skip
Finding = tuple[int, str]


@dataclass(frozen=True)
class Rules:
    """What one question allows beside what every one does.

    given: names that the harness hands over. paths: such as "torch.compile". attributes: of what
    it hands over. registers: paths whose first argument names an operator: a parameter of the
    answer, an f-string that begins with a library's ns, or a text that begins with `namespace`.
    binds: names with underscores that it may define, such as "__all__". A module may be imported as
    a whole where `paths` lists what it is asked for.
    """

    given: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    registers: frozenset[str] = frozenset()
    namespace: str = ""
    binds: frozenset[str] = frozenset()


def not_admitted(source: str, rules: Rules = Rules()) -> Iterator[Finding]:
    """(line, why not) of what may not stand in a cell, in the order of its lines."""
    try:
        tree = ast.parse(source)
        looked_up = frozenset(_looked_up(symtable.symtable(source, "<cell>", "exec")))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        yield getattr(error, "lineno", None) or 1, "it is no plain Python"
        return
    yield from sorted(_Reader(tree, rules, looked_up).findings())


def without_trials(source: str, rules: Rules = Rules()) -> str:
    """The cell without what its owner tried in it, with every line in its place: notebook commands
    such as %%time, and statements of the cell itself that call something, define nothing and are
    not admitted. What is left is what will be judged: nobody gains by what is left out."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        lines = ["\n" if line[0] in "%!" else line for line in _lines(source)]
        if source == (plain := "".join(lines)):
            return source
        return without_trials(plain, rules)
    refused = {line for line, _ in not_admitted(source, rules)}
    lines = _lines(source)
    for node, others in _alone(tree.body):
        own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if isinstance(node, ast.Expr) and refused.intersection(own) and not others:
            lines[own.start - 1 : own.stop - 1] = ["\n"] * len(own)
    return "".join(lines)


def _alone(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, bool]]:
    """Each statement, and whether another one stands in its lines."""
    ends = [0, *(node.end_lineno or node.lineno for node in body)]
    begins = [*(node.lineno for node in body), ends[-1] + 1]
    for k, node in enumerate(body):
        yield node, ends[k] >= node.lineno or begins[k + 1] <= ends[k + 1]


def line_of(source: str, number: int) -> str:
    """The line that a finding names: whoever decides reads it."""
    return [*_lines(source), ""][number - 1].rstrip("\n")


def _lines(source: str) -> list[str]:
    """As Python counts them; str.splitlines parts at form feeds too."""
    return io.StringIO(source, newline=None).readlines()


def _looked_up(scope: symtable.SymbolTable) -> Iterator[str]:
    """Names that are asked for where no function has bound them: Python's own may answer."""
    for symbol in scope.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or scope.get_type() != "function"):
            yield symbol.get_name()
    for inner in scope.get_children():
        yield from _looked_up(inner)


@cache
def methods() -> frozenset[str]:
    """Attributes that anything may be asked for: those of tensors, sequences, texts and ctx."""
    kinds = (torch.Tensor, list, tuple, dict, set, str, int, float, torch.Size, torch.dtype)
    known = {name for kind in kinds for name in dir(kind) if not name.startswith("_")}
    return frozenset(known - _NO_METHODS | _ON_CTX | {"itemsize", "saved_tensors", "type"})


@cache
def doors() -> frozenset[str]:
    """Attributes that a cell does not ask for, even where it defines them itself."""
    kinds = (FrameType, CodeType, TracebackType, GeneratorType, type)
    known = {name for kind in kinds for name in dir(kind) if not name.startswith("_")}
    return frozenset((known - {"send", "close", "throw"}) | _DOORS)


@cache
def is_path(path: str) -> bool:
    """Whether `path` names an operator of torch's, a dtype, or another that is listed."""
    if path in _PATHS:
        return True
    home, _, name = path.rpartition(".")
    if name.startswith("_") or name in _NO_OPERATORS:
        return False
    if home == "torch":
        value = getattr(torch, name, None)
        return isinstance(value, torch.dtype) or hasattr(torch._C._VariableFunctions, name)
    if home == "torch.nn.functional":
        return callable(getattr(torch.nn.functional, name, None))
    if home == "math":
        return hasattr(math, name)
    of = {"torch.linalg": torch.linalg, "torch.special": torch.special}.get(home)
    return isinstance(getattr(of, name, None), BuiltinFunctionType)


@dataclass
class _Reader:
    """Reads one cell."""

    tree: ast.Module
    rules: Rules
    looked_up: frozenset[str]
    above: dict[ast.AST, ast.AST] = field(default_factory=dict)

    def findings(self) -> set[Finding]:
        nodes = list(ast.walk(self.tree))
        for node in nodes:
            self.above |= dict.fromkeys(ast.iter_child_nodes(node), node)
        self.bound = self._bound(nodes)
        self.own = self._own_attributes(nodes) - doors()
        self.modules = dict(MODULES)
        found: set[Finding] = set()
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and (why := self._import(node)):
                found.add((node.lineno, why))
        for node in nodes:
            if why := self._why_not(node):
                found.add((self._line(node), why))
        return found

    def _line(self, node: ast.AST) -> int:
        """Some parts have none of their own, such as a case of a match."""
        own: int | None = getattr(node, "lineno", None)
        return own or self._line(self.above[node])

    def _bound(self, nodes: list[ast.AST]) -> set[str]:
        """Every name that the cell defines somewhere."""
        bound: set[str] = set()
        for node in nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    bound.add(name)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    bound.add(name)
                case ast.ExceptHandler(name=str(name)):
                    bound.add(name)
        return bound

    def _own_attributes(self, nodes: list[ast.AST]) -> set[str]:
        """What the cell's classes define, and what it hangs on a ctx or on itself."""
        own: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                own |= {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                own |= {
                    name.id
                    for part in node.body
                    for name in ast.walk(part)
                    if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
                }
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
        return own

    def _why_not(self, node: ast.AST) -> str:
        if not isinstance(node, _NODES):
            return "it uses a part of Python that no answer here needs"
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name) if (
                why := self._binding(name)
            ):
                return why
            case ast.ExceptHandler(name=str(name)) if why := self._binding(name):
                return why
            case ast.ClassDef(keywords=[_, *_]):
                return "it says how a class is made"
            case ast.Name():
                return self._name(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
            case ast.Global() | ast.Nonlocal() if any(map(self._is_given, node.names)):
                return "it puts something else under a name that was given"
        return ""

    def _import(self, node: ast.Import | ast.ImportFrom) -> str:
        """Why an import may not stand here, or "": then its names are known from here on."""
        home = f"{'.' * node.level}{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            path = home + alias.name
            may_be = path in _IMPORTS or self._leads(path) or home == "__future__."
            if not may_be and not (home and self._is_allowed(path)):
                return "it imports what no answer here needs"
            is_root = not home and not alias.asname
            path = path.partition(".")[0] if is_root else path
            name = alias.asname or (path if is_root else alias.name)
            if self.modules.setdefault(name, path) != path or self._hides(name):
                return "it puts something else under a name that was given"
        return ""

    def _hides(self, name: str) -> bool:
        """Whether Python or the reader of this cell would take `name` for something else."""
        of_python = hasattr(builtins, name) and name not in BUILTINS - {"isinstance"}
        return of_python or name.startswith("__") or name in self.rules.given

    def _leads(self, module: str) -> bool:
        """Whether a path that the rules list begins with `module`."""
        return any(path.startswith(f"{module}.") for path in self.rules.paths)

    def _is_given(self, name: str) -> bool:
        return name in self.rules.given or name in self.modules

    def _binding(self, name: str) -> str:
        """Why a cell may not define `name`, or ""."""
        if self._is_given(name):
            return "it puts something else under a name that was given"
        if name.startswith("__") and name not in _OWN_METHODS | self.rules.binds:
            return "it defines how Python's own operators behave"
        return ""

    def _name(self, node: ast.Name) -> str:
        name = node.id
        if not isinstance(node.ctx, ast.Load):
            return self._binding(name)
        if name in self.modules:
            path = self.modules[name]
            inside = isinstance(self.above.get(node), ast.Attribute)
            inside = inside and path not in self.rules.registers
            return "" if inside or self._is_leaf(node, path) else _WHOLE
        if name in self.rules.given:
            return ""
        if name in BUILTINS:
            return ""
        if name in self.bound and not (name in self.looked_up and hasattr(builtins, name)):
            return "" if not name.startswith("__") else "it names what Python keeps for itself"
        return f"it uses {name[:40]!r}, which this cell does not define"

    def _attribute(self, node: ast.Attribute) -> str:
        if not isinstance(node.ctx, ast.Load):
            return self._written(node)
        path, is_last = self._path(node)
        if path:
            return "" if not is_last or self._is_leaf(node, path) else _WHOLE
        name = node.attr
        if name in self.rules.attributes:
            return ""
        if name.startswith("_") and name not in _OWN_METHODS:
            return "it names what is not public"
        above = self.above.get(node)
        if name == "type" and not (isinstance(above, ast.Call) and above.func is node):
            return _WHOLE  # of a graph's node it is a class
        if name in methods() or name in self.own:
            return ""
        return f"it asks for {name[:40]!r}, which no tensor has"

    def _written(self, node: ast.Attribute) -> str:
        """Attributes are hung on the first parameter of a function alone: a ctx, a self. A tensor's
        gradient is anybody's to set."""
        at = node.value.id if isinstance(node.value, ast.Name) else ""
        if node.attr in _OF_TENSORS and at and not self._is_given(at):
            return ""
        inner: ast.AST | None = node
        while inner is not None and not isinstance(inner, ast.FunctionDef):
            inner = self.above.get(inner)
        first = [arg.arg for arg in inner.args.args[:1]] if inner is not None else []
        kept = _NOT_WRITTEN | self.rules.attributes
        if at not in first or node.attr.startswith("_") or node.attr in kept:
            return "it writes into an object that is not its own"
        return ""

    def _path(self, node: ast.Attribute) -> tuple[str, bool]:
        """(the path of a module's name that `node` spells, or "", whether nothing follows it)."""
        parts, at = [node.attr], node.value
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if not isinstance(at, ast.Name) or at.id not in self.modules:
            return "", False
        path = ".".join([self.modules[at.id], *reversed(parts)])
        above = self.above.get(node)
        leaf = self._longest_leaf(path)
        if leaf and leaf != path:  # an attribute of an allowed value, such as Function.apply
            return "", False
        return path, not isinstance(above, ast.Attribute) or leaf == path

    def _longest_leaf(self, path: str) -> str:
        parts = path.split(".")
        heads = (".".join(parts[:k]) for k in range(len(parts), 1, -1))
        return next((head for head in heads if self._is_allowed(head)), "")

    def _is_allowed(self, path: str) -> bool:
        space = f"torch.ops.{self.rules.namespace}."
        name = path.removeprefix(space) if path.startswith(space) else ""
        own = name.isidentifier() and not name.startswith("_")
        return own or path in self.rules.paths | self.rules.registers or is_path(path)

    def _is_leaf(self, node: ast.expr, path: str) -> bool:
        """Whether `path` may stand here: classes are called, derived from or asked about, and are
        never values that an attribute could be hung on."""
        if not self._is_allowed(path):
            return False
        above = self.above.get(node)
        if path in self.rules.registers:
            return isinstance(above, ast.Call) and above.func is node
        value = _value(path)
        if isinstance(above, ast.Attribute) or not isinstance(value, (type, ModuleType)):
            return True
        asks = "isinstance" if isinstance(value, type) else "hasattr"
        of_asked = self.above.get(above) if isinstance(above, ast.Tuple) else above
        match of_asked:
            case ast.Call(func=ast.Name(id=name)) if name == asks:
                return name not in self.bound
        match above:
            case ast.Call(func=called) if called is node:
                return True
            case ast.ClassDef(decorator_list=decorators):
                return path == _FUNCTION and node not in decorators
            case ast.FunctionDef(decorator_list=decorators) if node in decorators:
                return True
        return self._is_annotation(node)

    def _is_annotation(self, node: ast.AST) -> bool:
        """Whether `node` is in one: torch.Tensor | None, list[torch.Tensor]."""
        match self.above.get(node):
            case ast.BinOp() | ast.Tuple() as above:
                return self._is_annotation(above)
            case ast.Subscript(value=ast.Name(id=name)) as above if name not in self.bound:
                return self._is_annotation(above)  # a dict of the cell's would keep the class
            case ast.FunctionDef(returns=annotation) | ast.AnnAssign(annotation=annotation):
                return annotation is node
            case above:
                return isinstance(above, ast.arg)

    def _call(self, node: ast.Call) -> str:
        path = ""
        if isinstance(node.func, ast.Attribute):
            path, _ = self._path(node.func)
        elif isinstance(node.func, ast.Name):
            path = self.modules.get(node.func.id, "")
        if path not in self.rules.registers:
            return ""
        named = node.args[0] if node.args else None
        return "" if self._names_own(named) else _OTHERS

    def _names_own(self, named: ast.expr | None) -> bool:
        """Whether an expression names an operator of the answer's own."""
        match named:
            case ast.Constant(value=str(text)):
                space = self.rules.namespace
                return bool(space) and (text == space or text.startswith(f"{space}::"))
            case ast.JoinedStr(
                values=[ast.FormattedValue(ast.Attribute(attr="ns")), ast.Constant(str(name)), *_]
            ):
                return name.startswith("::") and "ns" not in self.own
            case ast.Name(id=name):
                owner = self._function_of(named, name)
                return self._hands(owner, name) if owner else self._is_named_once(name)
        return False

    def _function_of(self, node: ast.AST, name: str) -> ast.FunctionDef | ast.Lambda | None:
        """The innermost function around `node` that has a parameter `name`."""
        above = self.above.get(node)
        if above is None:
            return None
        if isinstance(above, (ast.FunctionDef, ast.Lambda)) and any(
            isinstance(part, ast.arg) and part.arg == name for part in ast.walk(above.args)
        ):
            return above
        return self._function_of(above, name)

    def _hands(self, owner: ast.FunctionDef | ast.Lambda, name: str) -> bool:
        """Whether `name` is what the harness hands to `owner`: the cell does not call it itself,
        and puts nothing else under the name."""
        if not isinstance(owner, ast.FunctionDef) or owner not in self.tree.body:
            return False
        names = [node for node in ast.walk(self.tree) if isinstance(node, ast.Name)]
        is_called = any(n.id == owner.name for n in names)
        is_stored = any(n.id == name and isinstance(n.ctx, ast.Store) for n in names)
        asked = owner.args.args[: len(owner.args.args) - len(owner.args.defaults)]
        is_asked = name in {arg.arg for arg in asked}
        return is_asked and not (owner.decorator_list or is_called or is_stored)

    def _is_named_once(self, name: str) -> bool:
        """Whether all that `name` ever is, is an operator of the answer's own."""
        stores = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        ]
        above = self.above[stores[0]] if len(stores) == 1 else None
        if not isinstance(above, (ast.Assign, ast.AnnAssign)):
            return False
        value = above.value
        is_own = not isinstance(value, ast.Name) and self._names_own(value)
        return is_own or self._is_define(value)

    def _is_define(self, value: ast.expr | None) -> bool:
        defines = isinstance(value, ast.Call) and getattr(value.func, "attr", "") == "define"
        return defines and "define" not in self.own


_WHOLE = "it takes hold of what a module or a class is made of"
_OTHERS = "it registers something for an operator that is not its own"


@cache
def _value(path: str) -> Any:
    """What is behind a path; None where this torch has it not."""
    home, _, name = path.rpartition(".")
    try:
        module: Any = importlib.import_module(home)
    except ImportError:
        module = _value(home)
    return getattr(module, name, None)


def defined(source: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The names that an admitted cell defines, in a namespace that has nothing else: run in the
    clean room. `name` is what its lines are called in messages."""
    module = sys.modules[f"answer_{name}"] = ModuleType(f"answer_{name}")
    namespace = vars(module)  # torch.compile asks for the module of a class that it meets
    namespace |= _basis() | dict(given)
    place = f"<cell {name}>"
    linecache.cache[place] = len(source), None, _lines(source), place
    exec(compile(_trying(ast.parse(source)), place, "exec"), namespace)
    return namespace


def _trying(tree: ast.Module) -> ast.Module:
    """The cell, of which a statement that calls and defines nothing may raise: its owner tried an
    answer there, with what a page has and the room has not."""
    for k, node in enumerate(tree.body):
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
            passes = ast.ExceptHandler(ast.Name("Exception", ast.Load()), None, [ast.Pass()])
            tree.body[k] = ast.copy_location(ast.Try([node], [passes], [], []), node)
    return ast.fix_missing_locations(tree)


def _basis() -> dict[str, Any]:
    allowed = {known: getattr(builtins, known) for known in BUILTINS}
    doors = {"__build_class__": builtins.__build_class__, "__import__": _imported}
    return {"__builtins__": allowed | doors} | {known: _value_of(p) for known, p in MODULES.items()}


def _value_of(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except ImportError:
        return _value(path)


def _imported(name: str, *arguments: Any) -> ModuleType:
    """Which names of it a cell may take was decided when the cell was admitted."""
    if name not in _IMPORTS and not name.startswith("torch."):
        raise ImportError(f"no module {name!r} in the clean room")
    return __import__(name, *arguments)
