"""Reads a file that Inductor generated: which buffers it allocates, which kernels it calls."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from onelayer.compiler.fx_record import FxGraph
from onelayer.compiler.generated_kernel import Nest, body_of
from onelayer.compiler.inductor_file import ITEM_BYTES, Buffer, InductorFile, Kernel, Loop
from onelayer.drawing.words import say


def read_inductor_file(
    source: str, nodes: Mapping[str, tuple[str, ...]] | None = None, graph: FxGraph | None = None
) -> InductorFile:
    """The record of a file that Inductor generated, as `run_and_get_code` gives it.

    Bytes are counted for each loop nest: a buffer that it names counts once and whole, and one that
    it looks up by an index which it read counts an element for each turn of the loops. What a nest
    has itself written it does not read. A cache between two nests is not known here, so this is
    what the program asks for, and an upper bound for what memory delivers.

    nodes: kernel name -> the nodes of `graph` that it computes; the graph knows the shape of what a
    library returns, which the file does not say. Raises ValueError for a text without a function
    `call`, SyntaxError for what is no Python.
    """
    return _Reader(source, nodes or {}, graph).record()


class _Reader:
    """Walks once through `call` and keeps what each name means."""

    def __init__(
        self, source: str, nodes: Mapping[str, tuple[str, ...]], graph: FxGraph | None
    ) -> None:
        tree = ast.parse(source)
        self._source, self._nodes, self._graph = source, nodes, graph
        self._defined = dict(_definitions(tree))
        self._numbers: dict[str, int] = {}
        self._examples: dict[str, Buffer] = {}
        self._inputs: list[str] = []
        self._allocated: list[Buffer] = []
        self._kernels: list[Kernel] = []
        self._returns: tuple[str, ...] = ()
        self._body = _call(tree).body
        self._read_examples(tree)
        self._buffers = dict(self._examples)

    def record(self) -> InductorFile:
        for statement in _statements(self._body):
            self._take(statement)
        return InductorFile(
            inputs=tuple(self._examples[name] for name in self._inputs if name in self._examples),
            allocated=tuple(self._allocated),
            kernels=tuple(self._kernels),
            returns=self._returns,
            source=self._source,
        )

    def _read_examples(self, tree: ast.Module) -> None:
        """From the example at the file's end: the inputs, and the numbers among them."""
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
                continue
            name, value = node.targets[0].id, node.value
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "rand_strided":
                shape, stride = self._sizes(value.args[0]), self._sizes(value.args[1])
                self._examples[name] = Buffer(name, shape, stride, _dtype(value), name)
            elif isinstance(value, ast.Constant) and type(value.value) is int:
                self._numbers[name] = value.value

    def _take(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Return) and statement.value is not None:
            values = getattr(statement.value, "elts", [statement.value])
            self._returns = tuple(name for v in values if (name := _root(v)) in self._buffers)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self._assign(statement.targets[0], statement.value)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            self._call(statement.value, None)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(value, ast.Name) and value.id == "args":
            names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
            self._inputs = [n.id for n in names if isinstance(n, ast.Name)]
            return
        if not isinstance(target, ast.Name):
            return
        if isinstance(value, ast.Name):
            if value.id in self._buffers:
                self._buffers[target.id] = replace(self._buffers[value.id], name=target.id)
            elif value.id in self._numbers:
                self._numbers[target.id] = self._numbers[value.id]
        elif isinstance(value, ast.Call):
            self._made(target.id, value)

    def _made(self, name: str, call: ast.Call) -> None:
        """`name` is what `call` returns: a new buffer, a view, or a library's result."""
        function = ast.unparse(call.func)
        if function.startswith("empty_strided"):
            shape, stride = self._sizes(call.args[0]), self._sizes(call.args[1])
            buffer = Buffer(name, shape, stride, _dtype(call), name)
            self._buffers[name] = buffer
            self._allocated.append(buffer)
        elif function == "reinterpret_tensor":
            self._buffers[name] = replace(self._view(call), name=name)
        elif function.startswith(("extern_kernels.", "torch.ops.", "aten.")):
            self._call(call, name)

    def _view(self, call: ast.Call) -> Buffer:
        of = self._buffers[_root(call)]
        return replace(of, shape=self._sizes(call.args[1]), stride=self._sizes(call.args[2]))

    def _sizes(self, sizes: ast.expr) -> tuple[int, ...]:
        return tuple(self._number(s) for s in getattr(sizes, "elts", [sizes]))

    def _number(self, size: ast.expr) -> int:
        """A size, also one in symbols: with the numbers of the example at the file's end."""
        text = compile(ast.Expression(size), "size", "eval")
        try:
            return int(eval(text, {"__builtins__": {}}, dict(self._numbers)))
        except NameError:
            return 0

    def _call(self, call: ast.Call, result: str | None) -> None:
        function = ast.unparse(call.func)
        name = function.removesuffix(".run")
        if name in self._defined:
            self._generated(name, call)
        elif function.startswith(("extern_kernels.", "torch.ops.", "aten.")):
            self._library(function, call, result)

    def _buffer(self, value: ast.expr) -> Buffer | None:
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "reinterpret_tensor":
            return self._view(value)
        return self._buffers.get(value.id) if isinstance(value, ast.Name) else None

    def _library(self, function: str, call: ast.Call, result: str | None) -> None:
        keywords = {k.arg: k.value for k in call.keywords}
        out = self._buffer(keywords["out"]) if "out" in keywords else None
        values = (*call.args, *(k.value for k in call.keywords if k.arg != "out"))
        given = [self._buffer(value) for value in values]
        reads = [buffer for buffer in given if buffer is not None]
        if result is not None:
            self._buffers[result] = self._returned(function, result)
        writes = [b for b in (out, self._buffers.get(result or "")) if b is not None]
        self._kernels.append(
            Kernel(
                name=function,
                language="library",
                reads=tuple(b.name for b in reads),
                writes=tuple(b.name for b in writes),
                bytes_read=sum(b.nbytes for b in reads),
                bytes_written=sum(b.nbytes for b in writes),
                nodes=self._nodes.get(function, ()),
            )
        )

    def _returned(self, function: str, name: str) -> Buffer:
        """What a library's operator returned: the graph knows its shape, and nobody its strides."""
        made = [self._graph[node] for node in self._nodes.get(function, ()) if self._graph]
        if not made or made[-1].shape is None:
            return Buffer(name, (0,), (1,), "float32", name)
        shape = tuple(n if isinstance(n, int) else self._numbers.get(n, 0) for n in made[-1].shape)
        return Buffer(name, shape, (), made[-1].dtype, name)

    def _generated(self, name: str, call: ast.Call) -> None:
        language, source = self._defined[name]
        body = body_of(source, language)
        given = [self._buffer(value) for value in call.args]
        pairs = zip(body.parameters, given, strict=False)  # Triton's constants have no argument
        buffers = {parameter: buffer for parameter, buffer in pairs if buffer is not None}
        loops = tuple(_measured(nest, buffers) for nest in body.nests)
        self._kernels.append(
            Kernel(
                name=name,
                language=language,
                reads=tuple(b.name for p, b in buffers.items() if p in body.reads),
                writes=tuple(b.name for p, b in buffers.items() if p in body.writes),
                bytes_read=sum(loop.bytes_read for loop in loops),
                bytes_written=sum(loop.bytes_written for loop in loops),
                loops=loops,
                nodes=self._nodes.get(name, ()),
                source=source,
            )
        )


def _measured(nest: Nest, buffers: Mapping[str, Buffer]) -> Loop:
    """`nest` with the buffers that its parameters are at this call."""
    sizes = []
    for touched in (nest.reads, nest.writes):
        known = [(buffers[p], turns) for p, turns in touched.items() if p in buffers]
        sizes.append(sum(_bytes(buffer, turns) for buffer, turns in known))
    names = [tuple(buffers[p].name for p in t if p in buffers) for t in (nest.reads, nest.writes)]
    return Loop(names[0], names[1], sizes[0], sizes[1])


def _bytes(buffer: Buffer, turns: int | None) -> int:
    return buffer.nbytes if turns is None else min(turns * buffer.itemsize, buffer.nbytes)


def _definitions(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each kernel that the file defines: name, language and source."""
    for statement in tree.body:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)):
            continue
        function = ast.unparse(statement.value.func)
        language = {"async_compile.triton": "Triton", "async_compile.cpp_pybinding": "C++"}
        target, text = statement.targets[0], statement.value.args[1:2]
        if function in language and isinstance(target, ast.Name) and text:
            yield target.id, (language[function], ast.literal_eval(text[0]))


def _call(tree: ast.Module) -> ast.FunctionDef:
    """The function that allocates and calls; a method of `Runner`, or a function of that name."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    if not found:
        raise ValueError(say("this is no file of Inductor's: it has no function `call`"))
    return found[0]


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of `body` in order, also those inside a `with`."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _statements(statement.body)
        else:
            yield statement


def _root(value: ast.expr) -> str:
    """The name of the buffer that an expression is, or is a view of; "" for anything else."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "reinterpret_tensor":
        return _root(value.args[0])
    return value.id if isinstance(value, ast.Name) else ""


def _dtype(call: ast.Call) -> str:
    """The dtype among the arguments of a call that makes a tensor."""
    arguments = [*call.args, *(k.value for k in call.keywords if k.arg == "dtype")]
    names = [ast.unparse(argument) for argument in arguments]
    found = [n.removeprefix("torch.") for n in names if n.startswith("torch.")]
    return next((name for name in found if name in ITEM_BYTES), "float32")
