"""A backend that compiles like Inductor, or stops at the graphs, and writes down what passes."""

import linecache
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal
from unittest import mock

import torch

from onelayer.compiler.fx_record import FxGraph, readable, record_graph
from onelayer.compiler.inductor_file import InductorFile
from onelayer.compiler.inductor_reader import read_inductor_file
from onelayer.compiler.piece import GraphBreak, Kept, Piece

Backend = Literal["inductor", "aot_eager"]


@dataclass
class PieceInWork:
    """A Piece while it is being compiled."""

    captured: FxGraph
    broke: GraphBreak | None
    graphs: dict[str, FxGraph] = field(default_factory=dict)
    files: dict[str, InductorFile] = field(default_factory=dict)

    def record(self) -> Piece:
        forward, backward = self.graphs.get("forward"), self.graphs.get("backward")
        return Piece(
            captured=self.captured,
            joint=self.graphs.get("joint"),
            forward=forward,
            backward=backward,
            saved=_kept(forward, backward),
            forward_file=self.files.get("forward"),
            backward_file=self.files.get("backward"),
            forward_lowered=self.graphs.get("forward_lowered"),
            backward_lowered=self.graphs.get("backward_lowered"),
        )


class Watch:
    """A backend that compiles like Inductor, and writes down what passes."""

    def __init__(self, backend: Backend, name: str) -> None:
        self.backend, self.name = backend, name
        self.frames: list[tuple[CodeType, CodeType]] = []
        self.pieces: list[PieceInWork] = []
        self._written: list[str] = []

    @property
    def read(self) -> list[CodeType]:
        return [before for before, _ in self.frames]

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While it is open: bytecode and generated files are seen, and nothing comes from a cache
        of graphs, which would leave nothing to see. Compiled C++ does come from its cache."""
        import torch._inductor.config as inductor
        from torch._dynamo.convert_frame import register_bytecode_hook
        from torch._functorch import config as functorch
        from torch._inductor.graph import GraphLowering

        changes = {"fx_graph_cache": False, "trace.provenance_tracking_level": 2}
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            # Inductor, when it is first used, imports a module of torch that torch deprecates.
            warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
            stack.callback(register_bytecode_hook(self._rewrote).remove)
            stack.enter_context(inductor.patch(changes))
            stack.enter_context(functorch.patch(enable_autograd_cache=False))
            stack.enter_context(
                mock.patch.object(GraphLowering, "save_output_code", self._written.append)
            )
            yield

    def compile(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        """The backend: torch.compile hands it each graph that it captured."""
        captured = record_graph(module.graph, function=self.name, code=readable(module))
        piece = PieceInWork(captured, _break(module))
        self.pieces.append(piece)
        return (self._inductor if self.backend == "inductor" else self._aot)(module, inputs, piece)

    def _rewrote(self, code: CodeType, new_code: CodeType) -> None:
        """A hook of Dynamo's; None means that it may keep what it wrote."""
        self.frames.append((code, new_code))

    def _note(self, piece: PieceInWork, side: str, graph: torch.fx.Graph, code: str = "") -> None:
        piece.graphs[side] = record_graph(
            graph,
            function=self.name,
            code=code,
            captured=piece.captured,
            joint=piece.graphs.get("joint"),
        )

    def _inductor(self, module: torch.fx.GraphModule, inputs: list[Any], piece: PieceInWork) -> Any:
        import torch._inductor.config as inductor
        from torch._inductor.compile_fx import compile_fx

        def joint(graph: torch.fx.Graph) -> None:
            if any(node.name.startswith("tangents") for node in graph.nodes):
                self._note(piece, "joint", graph)

        def inner(graph: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
            return self._generate(piece, graph, inputs, options)

        with inductor.patch(joint_custom_pre_pass=joint):
            return compile_fx(module, inputs, inner_compile=inner)

    def _generate(
        self, piece: PieceInWork, module: torch.fx.GraphModule, inputs: Any, options: dict[str, Any]
    ) -> Any:
        from torch._inductor import config, debug
        from torch._inductor.compile_fx import compile_fx_inner

        def lowered(graph: torch.fx.Graph) -> None:
            self._note(piece, f"{side}_lowered", graph)

        side = "backward" if options.get("is_backward") else "forward"
        self._note(piece, side, module.graph, readable(module))
        self._written.clear()
        with debug.reset_provenance_globals(), config.patch(post_grad_custom_post_pass=lowered):
            made = compile_fx_inner(module, inputs, **options)
            made_of = dict(debug._inductor_triton_kernel_to_post_grad_node_info)
        if self._written:
            nodes = {name.partition(":")[0]: tuple(found) for name, found in made_of.items()}
            graph = piece.graphs.get(f"{side}_lowered", piece.graphs[side])
            piece.files[side] = read_inductor_file(self._written[-1], nodes, graph)
        return made

    def _aot(self, module: torch.fx.GraphModule, inputs: list[Any], piece: PieceInWork) -> Any:
        from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.partitioners import min_cut_rematerialization_partition

        def side(name: str) -> Callable[[torch.fx.GraphModule, Any], Any]:
            def noted(graph: torch.fx.GraphModule, _: Any) -> Any:
                self._note(piece, name, graph.graph, readable(graph))
                return make_boxed_func(graph.forward)

            return noted

        def partition(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            self._note(piece, "joint", joint.graph, readable(joint))
            return min_cut_rematerialization_partition(joint, *args, **kwargs)

        compiler = aot_autograd(
            fw_compiler=side("forward"), bw_compiler=side("backward"), partition_fn=partition
        )
        return compiler(module, inputs)


def _break(module: torch.fx.GraphModule) -> GraphBreak | None:
    """Why this graph ended before the function did; None where it returned."""
    reason: Any = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    where = reason.user_stack[-1] if reason.user_stack else None
    if where is None:
        return GraphBreak(str(reason.reason), "", 0, "")
    code = where.line or linecache.getline(where.filename, where.lineno or 0).strip()
    return GraphBreak(str(reason.reason), where.filename, where.lineno or 0, code)


def _kept(forward: FxGraph | None, backward: FxGraph | None) -> tuple[Kept, ...]:
    """What the backward graph takes, apart from the gradients that arrive at run time."""
    if forward is None or backward is None:
        return ()
    found = []
    for node in backward.inputs:
        if node.name.startswith("tangents") or node.shape is None:
            continue
        behind = _owner(forward, node.name)
        kind = "computed" if behind != "placeholder" else "view of an input"
        own = any(given.name == node.name for given in forward.inputs)
        found.append(Kept(node.name, node.shape, node.dtype, node.nbytes, "input" if own else kind))
    return tuple(found)


def _owner(forward: FxGraph, name: str) -> str:
    try:
        return forward.behind_views(name).op
    except KeyError:
        return "computed"
