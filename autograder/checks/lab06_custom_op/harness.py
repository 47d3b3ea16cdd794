"""What runs in the clean room of lab 06: it builds and runs texts, and none of it is a student's.

The functions are those of the page's bench, by the same names, for the text that `take` was given
under an answer's name, or the cell that `take_cell` was given. Only its text travels, so it imports
nothing beside it.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import functools
import os
import re
import secrets
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.judge.admission import defined
from autograder.judge.answer import form_of, has_changed
from onelayer import cuda_cpu
from onelayer.cuda_cpu import builds
from onelayer.cuda_cpu.modes import Mode
from onelayer.custom_op import cpp_compiler
from onelayer.custom_op.cpp_op import load_cpp

Maybe = Tensor | None
ENDLESS_S = 10.0
TAKEN: dict[str, Any] = {}
TRIED_FIRST: set[str] = set()
ANSWERS: dict[str, Any] = {}


def take(name: str, given: Any, alone: bool = True) -> None:
    """From now on `given` is the answer `name`. alone: this process is the room's own, and may end
    with the answer; a notebook's kernel may not."""
    TAKEN[name] = given
    if not alone:
        TRIED_FIRST.add(name)


def take_cell(name: str, source: str) -> None:
    """From now on the function that this admitted cell defines is the answer `name`."""
    kernels = {"head_kernel": head_kernel, "cap_kernel": cap_kernel, "top_kernel": top_kernel}
    ANSWERS[name] = defined(source, name, kernels)[name]


def strides(*tensors: Tensor) -> list[int]:
    return [stride for t in tensors for stride in t.stride()]


def run_cpp(name: str, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """x (N, D), w (V, D), b (V,) -> y (N, V), by the extern "C" function `name` of the C++."""
    N, (V, D) = len(x), w.shape
    beside = 64 + 4 * N * (V + D)  # whoever takes another distance of y's rows writes here
    memory = torch.full((beside + N * V + beside,), float("nan"))
    y = memory[beside : beside + N * V].view(N, V)
    kernel = getattr(load_cpp(TAKEN[name], name=f"{name}.cpp").library, name)
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, y)]
    run = functools.partial(kernel, *pointers, *map(ctypes.c_int64, [N, V, D, *strides(x, w, b)]))
    if name in TRIED_FIRST:
        expect_to_return(run)
    run()
    if not torch.cat([memory[:beside], memory[beside + N * V :]]).isnan().all():
        raise IndexError("your kernel wrote outside of y")
    return y.clone()


def expect_to_return(run: Callable[[], object]) -> None:
    """Tries `run` in a fork: machine code that reaches into foreign memory, or never ends, ends
    that process, and not a notebook's kernel. Raises ChildProcessError where it does. Nothing is
    tried where a process cannot fork."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of threads that a fork has not
            child = os.fork() if hasattr(os, "fork") else -1
    except OSError:
        return
    if child == 0:
        try:
            faulthandler.disable()
            run()
        finally:
            os._exit(0)
    elif child > 0 and (ended_by := _signal_of(child)):
        raise ChildProcessError(ended_by)


def _signal_of(child: int) -> str:
    """What ended the process; "" where it came to its end."""
    until, ended, status = time.monotonic() + ENDLESS_S, 0, 0
    try:
        while not ended and time.monotonic() < until:
            time.sleep(0.001)
            ended, status = os.waitpid(child, os.WNOHANG)
    finally:
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    if not ended:
        return f"your kernel runs on: it had {ENDLESS_S:.0f} s"
    by = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""
    return f"your kernel ended its process: {by}" if by else ""


@functools.cache
def operator_in(source: str) -> Any:
    """Nobody compares a schema with the C++ behind it: a call would read wrong memory. We do."""
    op = load_cpp(source, name="head.cpp").head
    schema = op.default._schema
    says = [(str(a.type), a.alias_info) for a in [*schema.arguments, *schema.returns]]
    if says != [(kind, None) for kind in ("Tensor", "Tensor", "Optional[Tensor]", "Tensor")]:
        raise TypeError(f"your schema is {schema}")
    if not schema.arguments[2].has_default_value():
        raise TypeError(f"b cannot be left out, your schema is {schema}")
    return op


def run_operator(name: str, x: Tensor, w: Tensor, b: Maybe = None) -> tuple[Maybe, str]:
    """(y, "") by the operator `head` of the C++, or (None, what it says when it refuses)."""
    op = operator_in(TAKEN[name])
    if name in TRIED_FIRST:
        expect_to_return(functools.partial(op, x, w, b))
    try:
        return op(x, w, b), ""
    except RuntimeError as refusal:
        return None, str(refusal).splitlines()[0]


def has_gpu() -> bool:
    return torch.cuda.is_available()


def run_cu(name: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Any:
    """y by the host function `launch` of the .cu text. Raises for its first fault.

    count: [loads from global memory, stores to it, where it ran, y of that very run].
    """
    return run_file(TAKEN[name], x, w, b, count)


def run_file(source: str, x: Tensor, w: Tensor, b: Tensor, count: bool = False) -> Any:
    """On the CPU, which sees each fault and counts; the values of a GPU, where there is one."""
    y = torch.full((len(x), len(w)), float("nan"))
    run = built(source).call("launch", x, w, b, y, *launch_sizes(x, w, b))
    if not run.ok:
        raise RuntimeError(f"{run.faults[0].kind}: {run.faults[0]}")
    if not len(x) and run.launches:
        raise RuntimeError("idle_launch: N is 0, and blocks were launched")
    if count:
        costs = [(launch.threads, launch.cost) for launch in run.launches]
        # an atomic is a load and a store
        loads = sum(threads * (cost.global_loads + cost.atomics) for threads, cost in costs)
        stores = sum(threads * (cost.global_stores + cost.atomics) for threads, cost in costs)
        return [round(loads), round(stores), "a GPU" if has_gpu() else "the CPU, simulated", y]
    return on_gpu(source, x, w, b) if has_gpu() else y


def asked_for(name: str) -> list[str]:
    """What the machine code of an answer asks others for, as the linker has it; of a .cu, without
    what the bench asks for itself. Nothing where no tool tells it."""
    source, mode = TAKEN[name], Mode()
    try:
        if "__global__" not in source:
            return sorted(_undefined(load_cpp(source, name=f"{name}.cpp").library._name))
        own = _undefined(builds._runtime(mode))
        return sorted(_undefined(builds.library(built(source).text, mode)) - own)
    except FileNotFoundError:
        return []


def _undefined(path: Any) -> set[str]:
    told = [line.split() for line in cpp_compiler.run(["nm", "-u", path]).stdout.splitlines()]
    return {words[-1].partition("@")[0] for words in told if words}


def written_by_neighbours(name: str, x: Tensor, w: Tensor, b: Tensor) -> list[int]:
    """The places of y, in memory, that the first 16 threads of the first block write: the same
    kernels, which every other thread leaves at once."""
    others = "threadIdx.x > 15 || threadIdx.y || threadIdx.z || blockIdx.x || blockIdx.y"
    source = re.sub(r"(__global__[^;{]*\{)", rf"\1 if ({others}) return;", TAKEN[name])
    y = torch.full((len(x), len(w)), float("nan"))
    built(source).call("launch", x, w, b, y, *launch_sizes(x, w, b))
    places: list[int] = (~y.flatten().isnan()).nonzero().flatten().tolist()
    return places


def on_gpu(source: str, *tensors: Tensor) -> Tensor:
    x, w, b = (t.cuda() for t in tensors)
    y = torch.full((len(x), len(w)), float("nan"), device="cuda")
    built(source, "cuda").call("launch", x, w, b, y, *launch_sizes(x, w, b))
    return y.cpu()


@functools.cache
def built(source: str, device: Any = "cpu") -> cuda_cpu.Kernels:
    return cuda_cpu.build(source, device=device)


def launch_sizes(x: Tensor, w: Tensor, b: Tensor) -> list[int]:
    return [len(x), *w.shape, *strides(x, w, b)]


def repaired(name: str, suspect: str, x: Tensor, w: Tensor, b: Tensor) -> tuple[str, Tensor]:
    """(the kind of fault that the answer names, y by the suspect as it was edited)."""
    kind, text = TAKEN[name][suspect]
    return kind, run_file(text, x, w, b)


@torch.no_grad()  # as where a kernel writes through pointers: neither autograd nor autocast sees
@torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator]  # what it does inside
def head_kernel(x: Tensor, w: Tensor, b: Maybe = None) -> Tensor:
    """x (N, D), w (V, D), b (V,) or None -> (N, V), column by column in memory: strides (1, N)."""
    y = w @ x.T  # (V, N)
    return (y if b is None else y + b.unsqueeze(1)).T


def cap_kernel(z: Tensor, limit: float = 30.0) -> Tensor:
    return z.clamp_(max=limit)


def top_kernel(z: Tensor, k: int = 3, *, largest: bool = True) -> tuple[Tensor, ...]:
    return tuple(z.topk(k, largest=largest))


def new_library() -> torch.library.Library:
    """A library without operators. A name can be defined once in a process, so each has its own.

    It stays to the end of the process, and not of a room: torch 2.11 keeps the names of operators
    whose library was collected, and every table of decompositions stumbles over them.
    """
    name = f"lab6_{secrets.token_hex(4)}"
    library = torch.library.Library(name, "FRAGMENT")  # type: ignore[no-untyped-call]
    atexit.register(lambda: library)
    return library


def new_operator() -> tuple[str, torch.library.Library]:
    """(name, library) of a new operator whose kernel on the CPU is `head_kernel`."""
    library = new_library()
    op = library.define("head(Tensor x, Tensor w, Tensor? b=None) -> Tensor")  # type: ignore[no-untyped-call]
    library.impl(op, head_kernel, "CPU")  # type: ignore[no-untyped-call]
    return f"{library.ns}::head", library


def operator_of(name: str) -> Any:
    namespace, _, op = name.partition("::")
    return getattr(getattr(torch.ops, namespace), op)


def declared(name: str, op: str = "", *args: Any, **kwargs: Any) -> Any:
    """What the answer's operator `op` returns. Without one: the (schema, keys of its kernels) of
    each operator."""
    library = new_library()
    ANSWERS[name](library)
    return operator_of(f"{library.ns}::{op}")(*args, **kwargs) if op else schemas_in(library.ns)


def schemas_in(namespace: str) -> dict[str, tuple[str, list[str]]]:
    has, found = torch._C._dispatch_has_kernel_for_dispatch_key, {}
    for op in ("head", "cap_", "top"):
        full = f"{namespace}::{op}"
        schema = str(operator_of(full).default._schema).removeprefix(f"{namespace}::")
        keys = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
        found[op] = (schema, [key for key in keys if has(full, key)])
    return found


class ChangedArgument(Exception):
    """An operator made another tensor of its argument."""


@contextmanager
def numbers_alone(z: Tensor) -> Iterator[None]:
    """Inside, an operator may write numbers into z. Raises ChangedArgument for anything else."""
    form = form_of(z)
    yield
    if has_changed(z, form):
        raise ChangedArgument("z has other memory, another shape or another requires_grad now")


def capped(name: str, z: Tensor, limit: float) -> tuple[Any, Tensor, bool]:
    """(what the answer's cap_ returned, the z that it was given, whether they are one memory)."""
    z = z.clone()
    with numbers_alone(z):
        got = declared(name, "cap_", z, limit)
    same = isinstance(got, Tensor) and got.data_ptr() == z.data_ptr()
    return got.clone() if isinstance(got, Tensor) else got, z, same


def faked(
    name: str,
    n: int,
    v: int,
    d: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    bias: bool = True,
    symbols: bool = False,
) -> Any:
    """What the answer says of head's result: (sizes, strides, dtype, device). symbols: whether
    each size of it still is a symbol, where the sizes of x, w and b are."""
    full_name, library = new_operator()
    torch.library.register_fake(full_name, ANSWERS[name], lib=library)
    shapes = [(n, d), (v, d), (v,)]
    if symbols:
        graph = make_fx(operator_of(full_name), tracing_mode="symbolic")(*map(torch.ones, shapes))
        (node,) = (node for node in graph.graph.nodes if library.ns in str(node.target))
        return [isinstance(size, torch.SymInt) for size in node.meta["val"].shape]
    with FakeTensorMode():
        x, w, b = (torch.empty(s, dtype=dtype, device=device) for s in shapes)
        y = operator_of(full_name)(x, w, b if bias else None)
        if not isinstance(y, Tensor):
            return y
        return tuple(y.shape), y.stride(), y.dtype, y.device.type


class Products(TorchDispatchMode):
    """Counts the matrix products that run inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func._opname in ("mm", "bmm", "addmm", "baddbmm")
        return func(*args, **(kwargs or {}))


def taught(
    name: str,
    x: Tensor,
    w: Tensor,
    b: Maybe,
    dy: Tensor,
    autocast: bool = False,
    written: bool = False,
) -> Any:
    """(y, [dx, dw, db], products in the backward) of a new operator that the answer taught.
    written: into what of x and w does not learn, before the backward; [] where that then raises."""
    return _taught(name, x, w, b, dy, b, autocast, written)


def taught_beside(name: str, x: Tensor, w: Tensor, b: Maybe, dy: Tensor, beside: Maybe) -> Any:
    """As taught, and `beside` is the bias of the other forward."""
    return _taught(name, x, w, b, dy, beside)


def _taught(
    name: str,
    x: Tensor,
    w: Tensor,
    b: Maybe,
    dy: Tensor,
    beside: Maybe,
    autocast: bool = False,
    written: bool = False,
) -> Any:
    x, w = (t.detach().clone().requires_grad_(t.requires_grad) for t in (x, w))
    op, _ = new_operator()
    ANSWERS[name](op)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        y = operator_of(op)(x, w, b)
        operator_of(op)(x + 1, w, beside)  # what this forward keeps is not for the backward below
    learn = [t is not None and t.requires_grad for t in (x, w, b)]
    inputs = [t for t, one in zip((x, w, b), learn, strict=True) if t is not None and one]
    for t in (x, w):
        if written and not t.requires_grad:
            t.zero_()
    try:
        with Products() as products, warnings.catch_warnings(action="ignore"):
            found = iter(torch.autograd.grad(y, inputs, dy.to(y.dtype), allow_unused=True))
    except RuntimeError:
        if not written:
            raise
        return y.detach().contiguous(), [], 0
    answers = [next(found) if one else None for one in learn]
    answers = [dt if dt is None else dt.contiguous() for dt in answers]
    return y.detach().contiguous(), answers, products.count


def tempered(name: str, z: Tensor, t: float, dy: Maybe = None) -> Any:
    """(the answer's z / t, z afterwards, dz or None, {test of opcheck: "SUCCESS" or its error})."""
    library = new_library()
    ns = library.ns
    ANSWERS[name](library)
    op = operator_of(f"{ns}::temper").default
    if dy is not None:
        z = z.clone().requires_grad_()
    with warnings.catch_warnings(action="ignore"):
        tests: dict[str, Any] = dict(torch.library.opcheck(op, (z, t), raise_exception=False))
        z = z.detach().clone().requires_grad_(dy is not None)
        with numbers_alone(z):
            y = op(z, t)
        if dy is not None:
            op(z + 1, t + 1)  # what this forward keeps is not for the backward below
        # Without a backward torch records the operators that a kernel calls inside, and opcheck of
        # torch 2.15 is content with that. A kernel that writes through pointers calls none.
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        keys = ("Autograd", "AutogradCPU", "CompositeImplicitAutograd")
        if dy is not None and not any(has(f"{ns}::temper", key) for key in keys):
            failed = AssertionError("no backward")
            unseen = ("test_autograd_registration", "test_aot_dispatch_dynamic")
            tests |= dict.fromkeys(unseen, failed)
        dz = None if dy is None or y.grad_fn is None else torch.autograd.grad(y, z, dy)[0]
    return y.detach().clone(), z.detach().clone(), dz, _said(tests)


def _said(tests: dict[str, Any]) -> dict[str, str]:
    """What comes after the first fault follows from it, or not, as it happens."""
    said: dict[str, str] = {}
    faults = 0
    for test, result in tests.items():
        said[test] = "after a fault" if faults else "SUCCESS"
        if result != "SUCCESS" and not faults:
            said[test], faults = type(result).__name__, 1
    return said
