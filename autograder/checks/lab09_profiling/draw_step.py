"""Drawn training steps: a program for the machine, of the form that the head's loops have.

A step is a call of `train_step`, inside an annotation `ProfilerStep#k`, with regions in it. Which
file, which line, which region and which operator hold the fault is drawn anew for each trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograder.judge import Draw

from .machine import ENGINE, LATENCY_US, Copy, Event, Launch, Machine, Span, Wait

STEPS = 3
FILES = ("train.py", "data.py", "losses.py", "metrics.py", "model.py", "schedule.py")
HELPERS = ("log_loss", "clip", "to_device", "keep_best", "perplexity", "mask_words", "warm_up")
_OPERATORS = (
    ("aten::linear", "aten::addmm", "ampere_sgemm_128x64_tn"),
    ("aten::gelu", "aten::gelu", "void at::native::vectorized_elementwise_kernel<4, GeluCUDA>"),
    ("aten::layer_norm", "aten::native_layer_norm", "void at::native::vectorized_layer_norm"),
    ("aten::cross_entropy_loss", "aten::log_softmax", "void cunn_SoftMaxForward<4, float>"),
    ("aten::matmul", "aten::mm", "ampere_sgemm_64x64_nn"),
    ("aten::dropout", "aten::native_dropout", "void at::native::fused_dropout_kernel"),
)


def us(draw: Draw, low: float, high: float) -> float:
    """A time, to the nanosecond, as a trace has it."""
    return draw.integer(round(low * 1e3), round(high * 1e3)) / 1e3


def function(draw: Draw, name: str, inside: Sequence[Any], *, file: str = "") -> Span:
    """A call of a function of the program's own, in a drawn file and line if none is given."""
    where = file or f"{draw.choice(FILES)}({draw.integer(5, 400)})"
    return Span("python_function", f"{where}: {name}", us(draw, 4, 9), inside)


def operator(draw: Draw, device_us: tuple[float, float], *, stream: int = 7) -> Span:
    """A drawn operator, the operator that it calls, and the kernel that this one launches."""
    outer, inner, kernel = draw.choice(_OPERATORS)
    kernels = [(kernel, us(draw, *device_us))]
    launch = Launch("cudaLaunchKernel", us(draw, 2.5, 5), kernels, stream)
    leaf = Span("cpu_op", inner, us(draw, 3, 9), [launch])
    return leaf if outer == inner else Span("cpu_op", outer, us(draw, 3, 7), [leaf])


def operators(draw: Draw, many: int, device_us: tuple[float, float]) -> list[Span]:
    return [operator(draw, device_us) for _ in range(many)]


def region(draw: Draw, name: str, inside: Sequence[Any]) -> Span:
    return Span("user_annotation", name, us(draw, 4, 8), inside)


def module(draw: Draw, inside: Sequence[Any]) -> Span:
    """A call of a module, as torch names it in a trace."""
    name = f"nn.Module: {draw.choice(('Linear', 'GPT', 'Block'))}_{draw.integer(0, 9)}"
    return Span("python_function", name, us(draw, 3, 6), inside)


def backward(draw: Draw, inside: Sequence[Any]) -> Span:
    """`loss.backward()`: Python waits in torch's own function, another thread has the operators."""
    nodes = [
        Span("cpu_op", f"autograd::engine::evaluate_function: {name}", us(draw, 3, 7), [part])
        for name, part in zip(_nodes(draw, len(inside)), inside, strict=True)
    ]
    first, *rest = nodes
    on_engine = [_on(first, ENGINE), *(_on(node, ENGINE) for node in rest)]
    line = draw.integer(500, 700)
    return Span(
        "python_function", f"torch/_tensor.py({line}): backward", us(draw, 8, 14), on_engine
    )


def _nodes(draw: Draw, many: int) -> list[str]:
    names = ("AddmmBackward0", "NllLossBackward0", "GeluBackward0", "LogSoftmaxBackward0")
    return [draw.choice(names) for _ in range(many)]


def _on(span: Span, thread: int) -> Span:
    return Span(span.cat, span.name, span.host_us, span.inside, thread, span.args)


def read_number(draw: Draw) -> Span:
    """`loss.item()`: four bytes to the host, and the wait for them."""
    copy = Copy("DtoH (Device -> Pinned)", 4, us(draw, 1.2, 1.9), us(draw, 3, 6))
    wait = Wait("cudaStreamSynchronize", us(draw, 0.3, 0.9))
    leaf = Span("cpu_op", "aten::_local_scalar_dense", us(draw, 3, 6), [copy, wait])
    item = Span("cpu_op", "aten::item", us(draw, 2, 4), [leaf])
    name = f"<built-in method item of Tensor object at 0x7f{draw.integer(2**24, 2**28):x}>"
    return Span("python_function", name, us(draw, 1, 2), [item])


def traced(
    draw: Draw,
    steps: Sequence[Sequence[Any]],
    *,
    waiting: bool = True,
    latency_us: float = LATENCY_US,
    rank: int = 0,
    between: Sequence[Any] = (),
    behind: Sequence[Any] = (),
) -> tuple[list[Event], Machine]:
    """The trace of these steps, in no order, and the machine that ran them. What the program does
    `between` the first two steps or `behind` the last is in it too, and what a profiler does there,
    a wait for all streams."""
    line = f"train.py({draw.integer(20, 90)})"
    number = 10 - draw.integer(1, max(1, len(steps) - 1))  # by name the tenth is before the ninth
    machine = Machine(
        start_us=draw.integer(10**9, 4 * 10**9) * 1.0 + rank,
        pid=draw.integer(2000, 60000),
        waiting=waiting,
        latency_us=latency_us,
    )
    program = [
        Span(
            "user_annotation",
            f"ProfilerStep#{number + k}",
            us(draw, 6, 12),
            [Span("python_function", f"{line}: train_step", us(draw, 8, 16), parts)],
        )
        for k, parts in enumerate(steps)
    ]
    stop = Wait("cudaDeviceSynchronize", us(draw, 0.3, 0.6), stream=0)
    main = f"train.py({draw.integer(91, 120)}): main"
    parts = [program[0], *between, *program[1:], *behind, stop]
    machine.run([Span("python_function", main, us(draw, 20, 40), parts)])
    return draw.shuffled(machine.events), machine
