"""The file that this machine's Inductor writes for a graph, before any compiler has seen it.

Inductor stops when its text is done: a fraction of a second, where g++ takes many.
"""

import warnings
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx


class _NotRun:
    """Stands for the module that Inductor would load; nobody calls it."""

    def call(self, arguments: Any) -> None:
        raise RuntimeError("this file was not built")


def inductor_source(graph_module: fx.GraphModule, *inputs: Tensor) -> str:
    """The Python file, kernels in C++ included, that Inductor writes for this graph, not built.

        inductor_source(torch.fx.symbolic_trace(step), x, w)

    The loops are scalar ones: to find out which vector instructions the compiler knows would take
    a quarter of a minute, and neither kernels nor buffers depend on it.
    """
    with warnings.catch_warnings():  # torch imports what it has deprecated itself
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch._functorch import config as functorch
        from torch._inductor import config as inductor
        from torch._inductor import cpu_vec_isa
        from torch._inductor.compile_fx import compile_fx
        from torch._inductor.graph import GraphLowering

    texts: list[str] = []

    def keep(lowered: Any) -> _NotRun:
        text, _ = lowered.codegen()
        texts.append(getattr(text, "value", text))
        return _NotRun()

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(inductor.patch(fx_graph_cache=False, compile_threads=1))
        stack.enter_context(functorch.patch(enable_autograd_cache=False))
        stack.enter_context(patch.object(cpu_vec_isa, "valid_vec_isa_list", list))
        stack.enter_context(patch.object(GraphLowering, "compile_to_module", keep))
        compile_fx(graph_module, list(inputs))
    (text,) = texts
    return text
