"""The way of one `F.linear` call through PyTorch, as the installed torch reports it."""

import inspect
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from onelayer.drawing.words import say

from .dispatch import path

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}
_KERNELS = {
    "cpu": ("aten/src/ATen/native/LinearAlgebra.cpp", "hands the matrices to a BLAS library"),
    "cuda": ("aten/src/ATen/native/cuda/Blas.cpp", "hands them to cuBLAS and does not wait"),
    "meta": ("aten/src/ATen/native/LinearAlgebra.cpp", "works out the shape and touches no float"),
}


@dataclass(frozen=True)
class Stop:
    """One station. `file` is where it is written (under `generated/`, when torch is built), `seen`
    what this torch says about it, line by line; a stop that the call does not make is `skipped`."""

    layer: str
    name: str
    file: str
    says: str
    seen: tuple[str, ...]
    skipped: bool = False


@dataclass(frozen=True)
class Key:
    """One dispatch key of a call: the file and line that its kernel was registered from, or ""
    where the call falls through to the next key."""

    name: str
    registered: str

    def __str__(self) -> str:
        return f"{self.name:<16} {self.registered.rpartition('/')[2] or say('falls through')}"


def keys(op: str, tensors: list[torch.Tensor]) -> list[Key]:
    """The dispatch keys that a call of `op` ("aten::addmm") with `tensors` has here and now, the
    highest first.

    They are the tensors' own keys, with those that the thread includes, without those that it
    excludes: what the dispatcher computes for each call.
    """
    entries = (stop.entry for stop in path(op, *tensors) if stop.fate != "excluded")
    return [Key(e.key, "" if e.falls_through else repository_path(e.registered)) for e in entries]


def repository_path(path: str) -> str:
    """`path` from its folder in PyTorch's repository on; `build/` marks a generated file."""
    path = path.replace("\\", "/")
    inside = re.search(r".*/((?:aten|torch|c10)/.+)", path)
    if inside is None:
        return path
    built = f"/build/{inside[1]}" in path
    return f"build/{inside[1]}" if built else inside[1]


class _Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The names of the operators that reach the bottom of the dispatcher."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def parts(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> list[str]:
    """The operators that `F.linear(x, w, b)` is made of, as in ["aten::t", "aten::addmm"]."""
    seen = _Dispatched()
    with torch.enable_grad(), seen:
        F.linear(x, w, b)
    return seen.names


def path_of_linear(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None, *, mode: str = "grad"
) -> list[Stop]:
    """The stops of `F.linear(x, w, b)` from Python to the kernel and back, in order.

    x (N, in), w (out, in), b (out,) or None, all on one device; mode: grad, no_grad or
    inference_mode.
    """
    tensors = [t for t in (x, w, b) if t is not None]
    called = parts(x, w, b)
    with MODES[mode]():
        z = F.linear(x, w, b)
        top, below = keys("aten::linear", tensors), keys(called[-1], tensors)
    return [
        _python(),
        _binding(),
        _dispatcher(top, called),
        _autograd(below, called[-1], z, mode),
        _kernel(below, called[-1], x.device.type),
        _back(z),
    ]


def _python() -> Stop:
    source = inspect.getsource(torch.nn.Linear.forward).strip().splitlines()
    says = say("The last Python on the way down: a method whose body is one call.")
    file = "torch/nn/modules/linear.py"
    return Stop("python", "nn.Linear.forward", file, says, (source[0], f"    {source[-1].strip()}"))


def _binding() -> Stop:
    says = say(
        "A C++ function that looks like a Python one. It checks the arguments, takes the C++ "
        "tensors out of the Python objects, lets go of the interpreter lock and calls "
        "at::linear. tools/autograd/gen_python_functions.py writes it when torch is built."
    )
    file = "torch/csrc/autograd/generated/python_nn_functions.cpp"
    seen = (
        say("F.linear is {function!r}", function=F.linear),
        say("from {module}", module=F.linear.__module__),
    )
    return Stop("binding", "F.linear", file, says, seen)


def _dispatcher(found: list[Key], called: list[str]) -> Stop:
    inner = say(" and ").join(op.removeprefix("aten::") for op in called)
    says = say(
        "Each operator has a table with an entry per key. The tensors and the mode make a set of "
        "keys, and the highest one with a kernel is called. linear has no kernel per device: its "
        "entry is a recipe that calls {inner}, and each of them comes back to the dispatcher.",
        inner=inner,
    )
    file = "aten/src/ATen/core/dispatch/Dispatcher.h"
    seen = (say("keys of this call, highest first:"), *map(str, found))
    return Stop("dispatcher", "aten::linear", file, says, seen)


def _autograd(found: list[Key], op: str, z: torch.Tensor, mode: str) -> Stop:
    skipped = not any(key.name.startswith("Autograd") for key in found)
    if skipped:
        says = say("Not visited: {mode} has taken the autograd keys out of the set.", mode=mode)
    elif z.grad_fn is None:
        says = say(
            "Visited, but there is nothing to record: it dispatches again, without its own key."
        )
    else:
        says = say(
            "Makes a node {node}, keeps what backward will need, and "
            "dispatches again, without its own key. It never hears the name linear. "
            "tools/autograd/derivatives.yaml says what to keep and what to compute.",
            node=type(z.grad_fn).__name__,
        )
    seen = (say("keys of {op}, highest first:", op=op), *map(str, found))
    own = next((key.registered for key in found if key.name.startswith("Autograd")), "")
    file = own.partition(":")[0] or "torch/csrc/autograd/generated/VariableType.cpp"
    return Stop("autograd", op, file, says, seen, skipped)


def _kernel(found: list[Key], op: str, device: str) -> Stop:
    file, does = _KERNELS.get(device, ("aten/src/ATen/native", "computes the result"))
    own = next(k for k in found if k.registered and not k.name.startswith("Autograd"))
    if own.registered.startswith("torch/"):  # a kernel in Python is registered where it is written
        file = own.registered.partition(":")[0]
    says = say(
        "The function that the table holds for {key}. It {does}.", key=own.name, does=say(does)
    )
    return Stop("kernel", op, file, says, (str(own),))


def _back(z: torch.Tensor) -> Stop:
    says = say(
        "A Python object around the C++ tensor. What the layers did has left its marks on it."
    )
    node = type(z.grad_fn).__name__ if z.grad_fn is not None else None
    seen = (
        say(
            "shape {shape}, {dtype}, on {device}",
            shape=tuple(z.shape),
            dtype=str(z.dtype).removeprefix("torch."),
            device=z.device,
        ),
        f"grad_fn {node}",
    )
    return Stop("python", say("the result"), "torch/csrc/autograd/python_variable.cpp", says, seen)
