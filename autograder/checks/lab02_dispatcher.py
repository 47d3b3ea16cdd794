"""Lab 02, the dispatcher: what is asked, what is true, what goes wrong.

Key sets, tables and schemas are read from the installed torch, on operators registered for the
occasion where need be; records come from a mode of our own, counts from the profiler.
"""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import onelayer
from autograder.judge import Draw, Lab, Student, Wrong, expect_close, expect_equal
from onelayer.dispatch import dispatch_table, in_order

lab = Lab("02_dispatcher", "The dispatcher")

Names = list[str]
_C: Any = torch._C  # its _dispatch names are private to PyTorch
_library: Any = torch.library.Library  # untyped


# ---- 2.1 ----------------------------------------------------------------------------------------

Kind = tuple[str, str, torch.dtype, bool, bool, bool]


@lab.question(
    "tensor_keys",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "Ask of each of the six arguments: does the dispatcher need it to find a kernel? Two of "
        "them it leaves to the kernels.",
        "Start with the backend key, layout prefix and device, and put the others before it. "
        "Neither dtype nor requires_grad chooses a key.",
        'keys = autocast (cpu only) + [f"Autograd{backend}", "ADInplaceOrView"] (unless made in '
        "inference mode) + Negative (if lazy) + [prefix + backend]",
    ),
)
def tensor_keys(student: Student, draw: Draw) -> None:
    """The dispatch keys that a tensor carries, the highest priority first.

    device, layout, dtype, requires_grad, negative, made_in_inference -> list of names.
    """
    always: list[Kind] = [
        ("cpu", "strided", torch.float32, True, False, False),
        ("cpu", "strided", torch.float32, False, False, False),
        ("cpu", "strided", torch.float32, False, False, True),
        ("cpu", "sparse_coo", torch.float32, False, False, False),
        ("meta", "strided", torch.float32, False, False, False),
        ("cpu", "strided", torch.int64, False, False, False),
        ("cpu", "strided", torch.float64, False, True, False),
        ("meta", "sparse_csr", torch.float32, False, False, True),
    ]
    for kind in always + [_kind(draw) for _ in draw.cases(6)]:
        expect_equal(student.call("tensor_keys", *kind), list(onelayer.key_set(_tensor(*kind))))


def _kind(draw: Draw) -> Kind:
    device, layout = draw.choice(("cpu", "meta")), draw.choice(("strided", "sparse_coo"))
    dtype = draw.choice((torch.float32, torch.float64, torch.bfloat16, torch.int64))
    needs, negative = draw.integer(0, 1) == 1, draw.integer(0, 1) == 1
    floating = dtype.is_floating_point
    lazy = negative and layout == "strided" and floating
    return device, layout, dtype, needs and floating, lazy, draw.integer(0, 1) == 1


def _tensor(
    device: str, layout: str, dtype: torch.dtype, needs: bool, negative: bool, made: bool
) -> torch.Tensor:
    """A tensor of this kind. Sparse ones are empty: nothing is stored, the keys are the same."""
    options: Any = {"dtype": dtype, "device": device, "layout": getattr(torch, layout)}
    with warnings.catch_warnings(), torch.inference_mode() if made else nullcontext():
        warnings.simplefilter("ignore")  # sparse CSR calls itself beta, once per process
        t = torch.empty(2, 3, **options)
        t = torch._neg_view(t) if negative else t
    return t if made else t.requires_grad_(needs)


def _tensor_keys(kind: Kind, *, backend: str = "", autograd: bool = True) -> Names:
    """The true rule; `backend` and `autograd` bend it."""
    device, layout, _, _, negative, made = kind
    where = {"cpu": "CPU", "meta": "Meta"}[device]
    prefix = {"strided": "", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr"}[layout]
    keys = ["AutocastCPU"] if device == "cpu" else []
    keys += [f"Autograd{where}"] if autograd and not made else []
    keys += [] if made else ["ADInplaceOrView"]
    keys += ["Negative"] if negative else []
    return [*keys, backend or prefix + where]


@tensor_keys.wrong(
    "autograd_if_needed",
    "A tensor without `requires_grad` carries autograd's key too: the kernel behind it looks "
    "whether a gradient is needed.",
)
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind, autograd=requires_grad)


@tensor_keys.wrong(
    "layout_ignored",
    "The layout is missing from the backend key: a sparse tensor finds other kernels than a "
    "strided one.",
)
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind, backend={"cpu": "CPU", "meta": "Meta"}[device])


@tensor_keys.wrong(
    "inference_ignored",
    "This tensor was made in inference mode, without a version counter and without autograd's "
    "bookkeeping: it carries neither autograd's key nor ADInplaceOrView.",
)
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    return _tensor_keys((device, layout, dtype, requires_grad, negative, False))


@tensor_keys.wrong(
    "integers_have_no_gradient",
    "An integer tensor carries autograd's key as any other does: the dtype chooses no key. It is "
    "looked at later, inside the kernel.",
)
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind, autograd=dtype.is_floating_point)


@tensor_keys.wrong("lowest_first", "The right keys, the lowest priority first: turn them round.")
def _(
    device: str,
    layout: str,
    dtype: torch.dtype,
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind)[::-1]


@tensor_keys.cost
def _(student: Student, draw: Draw) -> str:
    keys = student.call("tensor_keys", "cpu", "strided", torch.float32, True, False, False)
    raw = int(_C._dispatch_keys(torch.ones(1)).raw_repr())
    return f"{len(keys)} keys in one 64-bit integer of the tensor ({raw:#x}); no float was read"


# ---- 2.2 ----------------------------------------------------------------------------------------

Call = tuple[Names, list[Names], Names, Names, Names]
KEYS = ("AutocastCPU", "AutogradCPU", "ADInplaceOrView", "Negative", "SparseCPU", "CPU")


@lab.question(
    "first_key",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "Which keys are in the call at all? Only then ask which of them is the highest.",
        "Union of all the tensors' keys and the thread's, minus the excluded ones, minus the "
        "fallthroughs. Walk down `priority` until you meet one that is left.",
        "next((key for key in priority if key in keys), None)",
    ),
)
def first_key(student: Student, draw: Draw) -> None:
    """The key whose kernel a call runs first, or None where no key is left.

    priority (all keys, highest first), carried (one list per tensor), included, excluded,
    fallthrough -> a key or None.
    """
    x, sparse = list(onelayer.key_set(torch.ones(2))), list(_keys_of_a_sparse_one())
    order = list(in_order(KEYS))
    always: list[Call] = [
        (order, [x, x], [], ["AutocastCPU"], ["ADInplaceOrView"]),
        (order, [x, x], [], ["AutocastCPU", "AutogradCPU"], ["ADInplaceOrView"]),
        (order, [["CPU"], ["CPU", "SparseCPU"]], [], [], []),
        (order, [["CPU"]], ["Negative"], [], []),
        (order, [["CPU"]], ["ADInplaceOrView"], ["ADInplaceOrView"], []),
        (order, [x, sparse], ["ADInplaceOrView"], ["AutocastCPU", "AutogradCPU"], []),
        (order, [["AutogradCPU"]], [], ["AutogradCPU"], []),
    ]
    for call in always + [_drawn_call(draw) for _ in draw.cases(8)]:
        expect_equal(student.call("first_key", *call), _first_by_torch(*call))


def _keys_of_a_sparse_one() -> tuple[str, ...]:
    return onelayer.key_set(torch.empty(2, layout=torch.sparse_coo))


def _drawn_call(draw: Draw) -> Call:
    def some(chance: int) -> Names:
        return [key for key in draw.shuffled(KEYS) if draw.integer(1, chance) == 1]

    carried = [some(2) for _ in range(draw.integer(1, 3))]
    return list(in_order(KEYS)), carried, some(4), some(3), some(4)


def _first_by_torch(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    """As the dispatcher does it: sets of bits, and the highest bit that is left."""
    keys = _C.DispatchKeySet.from_raw_repr(0)
    for key in itertools.chain(*carried, included):
        keys = keys | _C.DispatchKeySet(_C._dispatch_key_parse(key))
    for key in (*excluded, *fallthrough):
        keys = keys.remove(_C._dispatch_key_parse(key))
    name = str(_C._dispatch_key_name(keys.highestPriorityTypeId()))
    return None if name == "Undefined" else name


def _highest(priority: Names, keys: set[str]) -> str | None:
    return next((key for key in priority if key in keys), None)


@first_key.wrong(
    "lowest_first",
    "This is the lowest key of the call. Autograd must come before the backend, so the highest is "
    "asked first.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = set(included).union(*carried) - {*excluded, *fallthrough}
    return _highest(priority[::-1], keys)


@first_key.wrong(
    "first_tensor_only",
    "Only the first tensor was asked for its keys. One sparse or lazy argument changes the call.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = {*included, *carried[0]} - {*excluded, *fallthrough}
    return _highest(priority, keys)


@first_key.wrong(
    "included_forgotten",
    "The thread's own keys are missing: modes work because they add keys that no tensor carries.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return _highest(priority, set().union(*carried) - {*excluded, *fallthrough})


@first_key.wrong(
    "excluded_comes_back",
    "A key that the thread both includes and excludes is out: exclusion comes last.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    keys = (set().union(*carried) - set(excluded)) | set(included)
    return _highest(priority, keys - set(fallthrough))


@first_key.wrong(
    "fallthrough_called",
    "This key's entry is a fallthrough: there is no kernel in it, and the next key is asked.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return _highest(priority, set(included).union(*carried) - set(excluded))


@first_key.wrong(
    "excluded_ignored",
    "An excluded key was asked. Autocast is off because its keys are excluded, not because "
    "tensors do not carry them.",
)
def _(
    priority: Names, carried: list[Names], included: Names, excluded: Names, fallthrough: Names
) -> str | None:
    return _highest(priority, set(included).union(*carried) - set(fallthrough))


@first_key.cost
def _(student: Student, draw: Draw) -> str:
    x = list(onelayer.key_set(torch.ones(2)))
    order, off = list(in_order(KEYS)), ["AutocastCPU"]
    first = student.call("first_key", order, [x, x], [], off, ["ADInplaceOrView"])
    return f"{first} is found by an or, two ands and one count of leading zeros, on every call"


# ---- 2.3 ----------------------------------------------------------------------------------------

EXPLICIT, IMPLICIT = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
REGISTRABLE = ("CPU", "SparseCPU", "AutogradCPU", "AutocastCPU", "Autograd", EXPLICIT, IMPLICIT)
CELLS = ("CPU", "SparseCPU", "AutogradCPU", "ADInplaceOrView", "AutocastCPU")
_SERVED_BY = {
    "default backend kernel": EXPLICIT,
    "math kernel": IMPLICIT,
    "autograd kernel": "Autograd",
    "backend fallback": "fallback",
}


@lab.question(
    "serves",
    points=5,
    minutes=20,
    difficulty=4,
    hints=(
        "Write the candidates for one key as a list, best first. Which aliases may stand in it?",
        "Backend keys: own, explicit, implicit. AutogradCPU: own, implicit (only without a CPU or "
        "explicit kernel), Autograd. Others: own. Then the fallback, then None.",
        "next((name for name in candidates if name in registered), 'fallback' if key in fallbacks "
        "else None)",
    ),
)
def serves(student: Student, draw: Draw) -> None:
    """Which registration serves a key: the rule by which the dispatcher fills an operator's table.

    registered (names given at registration), key, fallbacks (keys that have one) -> a name,
    "fallback" or None.
    """
    fallbacks = [key for key in CELLS if _C._dispatch_has_backend_fallback(_parse(key))]
    always: list[tuple[Names, str]] = [
        (["CPU", IMPLICIT], "CPU"),
        (["Autograd", IMPLICIT], "AutogradCPU"),
        (["CPU", "Autograd"], "AutogradCPU"),
        ([EXPLICIT], "SparseCPU"),
        ([EXPLICIT], "AutogradCPU"),
        (["SparseCPU", IMPLICIT], "AutogradCPU"),
        (["CPU", IMPLICIT], "AutogradCPU"),
        ([EXPLICIT, IMPLICIT], "CPU"),
        ([EXPLICIT, IMPLICIT, "Autograd"], "AutogradCPU"),
        ([IMPLICIT], "ADInplaceOrView"),
        ([IMPLICIT], "AutocastCPU"),
        (["CPU"], "SparseCPU"),
        ([], "AutogradCPU"),
    ]
    drawn = [(_registrations(draw), draw.choice(CELLS)) for _ in draw.cases(10)]
    for registered, key in always + drawn:
        got = student.call("serves", registered, key, fallbacks)
        expect_equal(got, _served_by_torch(registered, key))
    for key in ("AutogradCPU", "AutocastCPU"):  # have a fallback in torch, and none in this call
        expect_equal(student.call("serves", [], key, []), None)


def _parse(key: str) -> Any:
    return _C._dispatch_key_parse(key)


def _registrations(draw: Draw) -> Names:
    return [name for name in draw.shuffled(REGISTRABLE) if draw.integer(0, 2) == 0]


def _served_by_torch(registered: Names, key: str) -> str | None:
    """Registers an operator so, and reads the cell."""
    library = _library("onelayer_lab02", "FRAGMENT")
    try:
        library.define("probe(Tensor x) -> Tensor")
        for name in registered:
            library.impl("probe", lambda x: x, name)
        entry = dispatch_table("onelayer_lab02::probe").get(key)
    finally:
        library._destroy()
    return None if entry is None else _SERVED_BY.get(entry.kind, key)


def _serves(
    registered: Names,
    key: str,
    fallbacks: Names,
    *,
    backend: tuple[str, ...] = (EXPLICIT, IMPLICIT),
    autograd: tuple[str, ...] = (IMPLICIT, "Autograd"),
    blocks: tuple[str, ...] = ("CPU", EXPLICIT),
    other: tuple[str, ...] = (),
    own_first: bool = True,
) -> str | None:
    """The rule with its parts as arguments, so that each can be bent."""
    if key == "AutogradCPU":
        blocked = set(blocks) & set(registered)
        aliases = tuple(a for a in autograd if a != IMPLICIT or not blocked)
    else:
        aliases = backend if key in ("CPU", "SparseCPU") else other
    candidates = (key, *aliases) if own_first else (*aliases, key)
    found = next((name for name in candidates if name in registered), None)
    return "fallback" if found is None and key in fallbacks else found


@serves.wrong(
    "implicit_despite_a_kernel",
    "A kernel of one's own cannot be differentiated through parts that it does not call: with CPU "
    "or an explicit composite registered, CompositeImplicitAutograd does not serve AutogradCPU.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, blocks=())


@serves.wrong(
    "alias_before_own",
    "A registration for the key itself comes before any alias: that is how a backend replaces a "
    "composite.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, own_first=False)


@serves.wrong(
    "autograd_before_implicit",
    "Where the composite may serve AutogradCPU, it comes before Autograd.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, autograd=("Autograd", IMPLICIT))


@serves.wrong(
    "implicit_before_explicit",
    "CompositeExplicitAutograd comes before CompositeImplicitAutograd.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, backend=(IMPLICIT, EXPLICIT))


@serves.wrong(
    "explicit_serves_autograd",
    "CompositeExplicitAutograd serves backends only. Explicit means: autograd needs a formula of "
    "its own.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, autograd=(EXPLICIT, IMPLICIT, "Autograd"))


@serves.wrong(
    "any_backend_blocks",
    "AutogradCPU asks for a kernel of CPU. SparseCPU's does not stop the composite here.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, blocks=("CPU", "SparseCPU", EXPLICIT))


@serves.wrong(
    "implicit_serves_everything",
    "CompositeImplicitAutograd stands for backends and autograd keys, not for ADInplaceOrView or "
    "autocast.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, fallbacks, other=(IMPLICIT,))


@serves.wrong(
    "fallback_forgotten",
    "No registration serves this key, but the key has a fallback, which serves every operator.",
)
def _(registered: Names, key: str, fallbacks: Names) -> str | None:
    return _serves(registered, key, [])


@serves.cost
def _(student: Student, draw: Draw) -> str:
    one = student.call("serves", [IMPLICIT], "CPU", [])
    cells = [entry for entry in dispatch_table("aten::linear").values() if entry.composite]
    return f"one registration of {one} fills {len(cells)} cells of the table of aten::linear"


# ---- 2.4 ----------------------------------------------------------------------------------------

PRIORITY = ("Trace", "Ban", "Autocast", "Autograd", "Sparse", "CPU")
Table = dict[str, str]
Ran = tuple[Names, torch.Tensor | None]


@lab.question(
    "run_head",
    points=6,
    minutes=20,
    difficulty=4,
    hints=(
        "Write down for keys Trace, Autograd, CPU who calls whom. Which keys does `below` still "
        "have at each step?",
        "Loop over PRIORITY, skip keys that are not in `keys`, skip fallthroughs. At the first "
        "real kernel: log, then return KERNELS[name](below, *args), where below calls `call` with "
        "the lower keys only.",
        "return KERNELS[name](lambda *args: call(ordered[place + 1:], args), *args)",
    ),
)
def run_head(student: Student, draw: Draw) -> None:
    """One call of the head through a table of kernels: priorities, redispatch, fallthrough,
    fallback.

    x (N, 64), w (V, 64), b (V,), keys in any order, table {key: kernel name}, fallbacks {key:
    kernel name} -> (log of "key: name", logits (N, V) or None where a kernel was missing).
    """
    always: list[tuple[Names, Table, Table]] = [
        (["CPU"], {"CPU": "linear"}, {}),
        (["Trace", "CPU"], {"CPU": "linear", "Trace": "pass"}, {}),
        (
            ["Autograd", "Trace", "CPU"],
            {"CPU": "linear", "Trace": "pass", "Autograd": "pass", "Ban": "ban"},
            {},
        ),
        (["Autograd", "CPU"], {"CPU": "linear", "Autograd": "fallthrough"}, {}),
        (["Autograd", "CPU"], {"CPU": "linear", "Autograd": "pass"}, {"Autograd": "fallthrough"}),
        (["Autograd", "CPU"], {"CPU": "linear"}, {"Autograd": "pass"}),
        (["Sparse", "CPU"], {"CPU": "linear"}, {}),
        (["CPU", "Autograd"], {"Autograd": "ban"}, {}),
        (
            ["CPU", "Autocast", "Ban"],
            {"CPU": "linear", "Autocast": "bfloat16", "Ban": "ban"},
            {"Trace": "pass"},
        ),
        (["Autograd"], {"Autograd": "fallthrough", "CPU": "linear"}, {}),
        ([], {"CPU": "linear"}, {"CPU": "linear"}),
    ]
    for keys, table, fallbacks in always + [_drawn_run(draw) for _ in draw.cases(6)]:
        x, w, b = draw.tensor(3, 64), draw.tensor(20, 64), draw.tensor(20)
        got = student.call("run_head", x, w, b, keys, table, fallbacks)
        _expect_run(got, _chain(x, w, b, keys, table, fallbacks))


def _drawn_run(draw: Draw) -> tuple[Names, Table, Table]:
    names = ("pass", "ban", "bfloat16", "fallthrough")
    keys = [key for key in draw.shuffled(PRIORITY) if draw.integer(0, 2) or key == "CPU"]
    table = {key: draw.choice(names) for key in PRIORITY[:-1] if draw.integer(0, 2)}
    fallbacks = {key: draw.choice(names) for key in PRIORITY[:-1] if draw.integer(0, 2)}
    return keys, {**table, "CPU": "linear"}, fallbacks


def _expect_run(got: Any, want: Ran) -> None:
    if not isinstance(got, (list, tuple)) or len(got) != 2:
        raise Wrong(expected="a log and the logits", got=str(type(got).__name__))
    expect_equal(got[0], want[0])
    if want[1] is None:
        return expect_equal(got[1], None)
    return expect_close(got[1], want[1], tolerance=0.01)


def _chain(
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    keys: Names,
    table: Table,
    fallbacks: Table,
    *,
    bend: Callable[[list[tuple[str, str | None]]], list[tuple[str, str | None]]] | None = None,
) -> Ran:
    """Without any recursion: the whole way first, then the numbers from its end backwards.

    `bend` may change the list of (key, kernel name or None) before it is followed.
    """
    found = [(key, table.get(key, fallbacks.get(key))) for key in PRIORITY if key in keys]
    way = bend(found) if bend else found
    log: Names = []
    for key, name in way:
        if name is None:
            return [*log, "missing"], None
        if name != "fallthrough":
            log.append(f"{key}: {name}")
        if name == "linear":
            return log, _backwards([name for _, name in way], x, w, b)
    return [*log, "missing"], None


def _backwards(
    names: list[str | None], x: torch.Tensor, w: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    names = names[: names.index("linear")]
    if "bfloat16" in names:
        x, w, b = x.bfloat16(), w.bfloat16(), b.bfloat16()
    logits = x @ w.T + b
    for _ in range(names.count("ban")):
        logits[torch.arange(len(logits)), logits.argmax(dim=1)] = -1000.0
    return logits.float()


@run_head.wrong(
    "lowest_first",
    "The kernels ran from the lowest key up. The backend computes, so it must be the last one.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(x, w, b, keys, table, fallbacks, bend=lambda way: way[::-1])


@run_head.wrong(
    "order_of_arrival",
    "The keys were taken in the order in which they came. A key set has no order of its own: take "
    "PRIORITY's.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    def as_given(way: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
        return sorted(way, key=lambda stop: keys.index(stop[0]))

    return _chain(x, w, b, keys, table, fallbacks, bend=as_given)


@run_head.wrong(
    "set_forgotten",
    "A kernel ran for a key that the call does not have. Below a kernel are the lower keys of "
    "*this* call, not all lower keys.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    present = [key for key in PRIORITY if key in keys]
    first = PRIORITY.index(present[0]) + 1 if present else len(PRIORITY)
    lower = [key for key in PRIORITY[first:] if key in table or key in fallbacks or key in keys]
    return _chain(x, w, b, [*present[:1], *lower], table, fallbacks)


@run_head.wrong(
    "straight_to_the_backend",
    "A kernel between the first and the last was left out: redispatch goes to the next key, not to "
    "the backend.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    def first_and_last(way: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
        real = [stop for stop in way if stop[1] != "fallthrough"]
        return [*real[:1], *real[1:][-1:]]

    return _chain(x, w, b, keys, table, fallbacks, bend=first_and_last)


@run_head.wrong(
    "fallthrough_is_missing",
    "A fallthrough was taken for a missing kernel. It says: nothing to do for this key, ask the "
    "next.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(
        x,
        w,
        b,
        keys,
        table,
        fallbacks,
        bend=lambda way: [(key, None if name == "fallthrough" else name) for key, name in way],
    )


@run_head.wrong(
    "fallback_first",
    "The fallback was taken although the operator has an entry of its own for this key. A fallback "
    "serves those that have none.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(x, w, b, keys, {**table, **fallbacks}, {})


@run_head.wrong(
    "fallbacks_forgotten",
    "The operator has no kernel for this key, but the key has a fallback for every operator.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(x, w, b, keys, table, {})


@run_head.wrong(
    "missing_is_passed_over",
    "A key without any kernel was passed over. torch raises there: passing over must be asked for, "
    "by a fallthrough.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return _chain(
        x,
        w,
        b,
        keys,
        table,
        fallbacks,
        bend=lambda way: [stop for stop in way if stop[1] is not None],
    )


@run_head.cost
def _(student: Student, draw: Draw) -> str:
    layer, x = onelayer.head(), onelayer.hidden("<en> she has eaten <es> ella")[-1:]  # (1, 64)
    w, b = layer.weight.detach(), layer.bias.detach()
    table = {"CPU": "linear", "Ban": "ban"}
    said = []
    for keys in (["CPU"], ["CPU", "Ban"]):
        _, logits = student.call("run_head", x, w, b, keys, table, {})
        said.append(onelayer.next_words(logits, k=1)[0][0])
    return f'after "ella" the head says {said[0]!r}; with one more kernel in the table, {said[1]!r}'


# ---- 2.5 ----------------------------------------------------------------------------------------

_DIFFER = ("aten.detach.default", "aten.alias.default")  # torch versions choose one or the other


class _Record(TorchDispatchMode):
    """Names of the operators that came by."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: Names = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@lab.question(
    "trace_linear",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(
        "A mode is active inside `with`. What must happen inside it, and what must its method "
        "return?",
        "Append str(func), then return what func returns for all its arguments. Run forward, sum "
        "and backward inside one `with record:`.",
        "with record: F.linear(x, w, b).sum().backward()",
    ),
)
def trace_linear(student: Student, draw: Draw) -> None:
    """What F.linear and the backward of its sum dispatch below autograd, in order.

    x (..., D), w (V, D), b (V,) or None; some require gradients -> list of names as str(func).
    """
    shapes = [(3, 64), (2, 3, 64), (3, 64), *[(draw.integer(2, 5), 64) for _ in draw.cases(2)]]
    for place, shape in enumerate(shapes):
        x = draw.tensor(*shape, requires_grad=place % 2 == 1)
        w = draw.tensor(20, 64, requires_grad=True)
        b = None if place == 2 else draw.tensor(20, requires_grad=True)
        got = student.call("trace_linear", x, w, b)
        names = got if isinstance(got, (list, tuple)) else [got]
        expect_equal([n for n in names if n not in _DIFFER], _dispatched(x, w, b))


def _dispatched(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, *, of: str = "both"
) -> Names:
    """Our own record; `of` is "forward", "backward" or "both"."""
    x, w = (t.detach().requires_grad_(t.requires_grad) for t in (x, w))
    b = None if b is None else b.detach().requires_grad_(b.requires_grad)
    with _Record() as forward:
        loss = F.linear(x, w, b).sum()
    with _Record() as backward:
        loss.backward()  # type: ignore[no-untyped-call]
    names = {"forward": forward.names, "backward": backward.names}
    picked = names.get(of, [*forward.names, *backward.names])
    return [name for name in picked if name not in _DIFFER]


@trace_linear.wrong(
    "forward_only",
    "The backward is missing. It runs operators of its own, and a mode sees those too, as long as "
    "it is active.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    return _dispatched(x, w, b, of="forward")


@trace_linear.wrong(
    "backward_only", "Only the backward was recorded: the forward ran before the mode was active."
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    return _dispatched(x, w, b, of="backward")


@trace_linear.wrong(
    "without_overloads",
    "The overload is missing: `aten.sum.default` and `aten.sum.dim_IntList` are two operators with "
    "two tables. str(func) names both parts.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    return [name.rpartition(".")[0] for name in _dispatched(x, w, b)]


@trace_linear.wrong(
    "each_once",
    "Each operator stands here once. Calls were asked for, so an operator that is called twice "
    "stands there twice.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    return list(dict.fromkeys(_dispatched(x, w, b)))


@trace_linear.wrong(
    "schema_names",
    "These are schema names. The names asked for are those of str(func): dots, and the overload at "
    "the end.",
)
def _(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> Names:
    return ["::".join(name.split(".")[:2]) for name in _dispatched(x, w, b)]


@trace_linear.cost
def _(student: Student, draw: Draw) -> str:
    w, b = draw.tensor(600, 64, requires_grad=True), draw.tensor(600, requires_grad=True)
    names = student.call("trace_linear", draw.tensor(32, 64), w, b)
    products = sum(name.startswith(("aten.addmm", "aten.mm")) for name in names)
    return f"{len(names)} operators for one line and its backward, {products} of them products"


# ---- 2.6 ----------------------------------------------------------------------------------------


def _samples() -> dict[str, Callable[[], Any]]:
    """An ordinary call of each operator that is asked about."""
    x, rows, image = torch.ones(4, 6), torch.tensor([1, 2]), torch.ones(2, 3, 4)
    aten: Any = torch.ops.aten
    return {
        "aten::softmax.int": lambda: aten.softmax(x, -1),
        "aten::linear": lambda: aten.linear(x, x),
        "aten::native_layer_norm": lambda: aten.native_layer_norm(x, [6], None, None, 1e-5),
        "aten::addmm": lambda: aten.addmm(torch.ones(4), x, x.mT),
        "aten::ones_like": lambda: aten.ones_like(x),
        "aten::layer_norm": lambda: aten.layer_norm(x, [6]),
        "aten::matmul": lambda: aten.matmul(image, torch.ones(4, 2)),
        "aten::relu": lambda: aten.relu(x),
        "aten::reshape": lambda: aten.reshape(x, [-1]),
        "aten::view": lambda: aten.view(x, [-1]),
        "aten::embedding": lambda: aten.embedding(x, rows),
        "aten::cross_entropy_loss": lambda: aten.cross_entropy_loss(x[:2], rows),
        "aten::t": lambda: aten.t(x),
        "aten::dropout": lambda: aten.dropout(x, 0.5, True),
        "aten::_softmax": lambda: aten._softmax(x, -1, False),
        "aten::bmm": lambda: aten.bmm(image, image.mT),
        "aten::square": lambda: aten.square(x),
    }


@lab.question(
    "decomposes",
    points=2,
    minutes=8,
    difficulty=2,
    hints=(
        "Which of the aliases of 2.3 serves AutogradCPU with a kernel that only calls others?",
        "CompositeImplicitAutograd: autograd differentiates through the parts, so it never makes a "
        "node for the whole. func.has_kernel_for_dispatch_key(...) asks for a registration.",
        "return func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)",
    ),
)
def decomposes(student: Student, draw: Draw) -> None:
    """Whether a mode below autograd sees an operator's parts instead of the operator itself.

    op, such as "aten::softmax.int" -> bool.
    """
    samples = _samples()
    first = list(samples)[:5]
    for op in [*first, *draw.shuffled(list(samples)[5:])]:
        expect_equal(student.call("decomposes", op), not _is_seen(op, samples[op]))


def _is_seen(op: str, call: Callable[[], Any]) -> bool:
    with _Record() as record:
        call()
    return str(_overload(op)) in record.names


def _overload(op: str) -> Any:
    name, _, overload = op.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")


def _registered(op: str, key: str) -> bool:
    return bool(_C._dispatch_has_kernel_for_dispatch_key(op, key))


@decomposes.wrong(
    "in_the_decomposition_table",
    "`aten::softmax.int` goes in parts: it is registered as CompositeImplicitAutograd. No "
    "other registration decides that, and neither does `torch._decomp`, the list of what compilers "
    "may take apart.",
)
def _(op: str) -> bool:
    from torch._decomp import decomposition_table

    return _overload(op) in decomposition_table


@decomposes.wrong(
    "no_formula",
    "`aten::linear` goes in parts, although it has a registration for Autograd: where the "
    "composite serves AutogradCPU, it comes first.",
)
def _(op: str) -> bool:
    return not _registered(op, "Autograd")


@decomposes.wrong(
    "any_composite",
    "CompositeExplicitAutograd has a formula of its own in autograd, so the operator arrives whole "
    "below it. Only the implicit kind goes in parts.",
)
def _(op: str) -> bool:
    return _registered(op, IMPLICIT) or _registered(op, EXPLICIT)


@decomposes.wrong(
    "no_cpu_kernel",
    "This operator has no kernel for CPU alone, but one for all backends, and autograd knows it "
    "as a whole.",
)
def _(op: str) -> bool:
    return not _registered(op, "CPU")


@decomposes.cost
def _(student: Student, draw: Draw) -> str:
    apart = [op for op in _samples() if student.call("decomposes", op)]
    return f"{len(apart)} of {len(_samples())} operators asked about need no derivative formula"


# ---- 2.7 ----------------------------------------------------------------------------------------

Aliases = tuple[Names, Names]


def _real_calls() -> dict[str, dict[str, Any]]:
    """Operators with arguments for one call that shares all the memory that it may share."""
    x, half = torch.ones(4, 6), torch.ones(4, 3)
    values, at = torch.ones(4, 2), torch.zeros(4, 2, dtype=torch.int64)
    return {
        "addmm": {"self": torch.ones(4, 4), "mat1": x, "mat2": torch.ones(6, 4)},
        "add_.Tensor": {"self": x, "other": torch.ones(6)},
        "view": {"self": x, "size": [24]},
        "_foreach_add_.Scalar": {"self": [x, half], "scalar": 1},
        "addmm.out": {
            "self": torch.ones(4, 4),
            "mat1": x,
            "mat2": torch.ones(6, 4),
            "out": torch.ones(4, 4),
        },
        "split.Tensor": {"self": x, "split_size": 2},
        "topk.values": {"self": x, "k": 2, "values": values, "indices": at},
        "to.dtype": {"self": x, "dtype": torch.float32},
        "index_put_": {
            "self": x,
            "indices": [torch.tensor([1])],
            "values": torch.zeros(6),
        },
    }


@lab.question(
    "read_schema",
    points=3,
    minutes=12,
    difficulty=3,
    hints=(
        "Collect, for each argument: its name, its set, whether there is a `!`. Then the sets that "
        "occur after the arrow of the returns.",
        "Cut the text at its last `) -> `. In the first part a regular expression finds (set, `!`, "
        "name); in the second, sets. torch._C.parse_schema does it too, but forgets lists' sets.",
        r're.findall(r"\((\w+)(!?)(?: -> \*)?\)\S* (\w+)", arguments)',
    ),
)
def read_schema(student: Student, draw: Draw) -> None:
    """What a schema promises about memory: which arguments are written, and which may share memory
    with a return.

    schema (text) -> (names of written arguments, names of arguments that a return may alias).
    """
    for op, arguments in _real_calls().items():
        schema = str(_overload(f"aten::{op}")._schema)
        expect_equal(student.call("read_schema", schema), _observed(op, arguments))
    for _ in draw.cases(6):
        text, truth = _drawn_schema(draw)
        expect_equal(student.call("read_schema", text), truth)


def _observed(op: str, arguments: dict[str, Any]) -> Aliases:
    """By mechanism: whose version counter moved, and whose storage came back."""
    tensors = {name: tree_leaves(value) for name, value in arguments.items()}
    held = {name: [t for t in ts if isinstance(t, torch.Tensor)] for name, ts in tensors.items()}
    before = {name: [t._version for t in ts] for name, ts in held.items()}
    result = [t for t in tree_leaves(_overload(f"aten::{op}")(**arguments)) if t is not None]
    back = {t.untyped_storage().data_ptr() for t in result}
    written = [name for name, ts in held.items() if [t._version for t in ts] != before[name]]
    shared = {
        name for name, ts in held.items() if back & {t.untyped_storage().data_ptr() for t in ts}
    }
    return written, [name for name in held if name in shared]


def _drawn_schema(draw: Draw) -> tuple[str, Aliases]:
    """A schema put together from parts, with what its parts mean."""
    arguments, returns, written, aliased = [], [], [], []
    for name, letter in zip(draw.shuffled(("self", "other", "mask", "out")), "abcd", strict=True):
        kind = draw.integer(0, 3)
        bang = "!" if kind == 1 else ""
        arguments.append(f"Tensor({letter}{bang}) {name}" if kind < 3 else f"Tensor {name}")
        written += [name] * bool(bang)
        if kind < 2 and draw.integer(0, 2):
            returns.append(f"Tensor({letter}{bang})")
            aliased.append(name)
    arguments.insert(draw.integer(0, 3), "SymInt[] size")
    arguments.append("*, Scalar alpha=1")
    result = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    return f"onelayer::drawn({', '.join(arguments)}) -> {result}", (written, aliased)


def _arguments(schema: str) -> list[tuple[str, str, bool]]:
    """(name, set letter, written) of each argument that has a set."""
    found = re.findall(r"\((\w+)(!?)(?: -> \*)?\)\S* (\w+)", _inside(schema))
    return [(name, letter, bool(bang)) for letter, bang, name in found]


def _inside(schema: str) -> str:
    return schema.rpartition(") -> ")[0].partition("(")[2]


def _returned(schema: str) -> set[str]:
    return set(re.findall(r"\((\w+)!?\)", schema.rpartition(") -> ")[2]))


@read_schema.wrong(
    "every_set_is_written",
    "A set alone does not mean written: `Tensor(a)` is a view's argument. Writing is the `!`.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    return [name for name, _, _ in found], [name for name, s, _ in found if s in back]


@read_schema.wrong(
    "every_set_is_returned",
    "This set stands at no return: the argument has one because it is written. Compare with what "
    "is after the arrow.",
)
def _(schema: str) -> Aliases:
    found = _arguments(schema)
    return [name for name, _, bang in found if bang], [name for name, _, _ in found]


@read_schema.wrong(
    "written_is_no_alias",
    "An operator that writes an argument and returns the same set returns that very memory: "
    "`x.add_(1)` is x. It belongs to both lists.",
)
def _(schema: str) -> Aliases:
    found, back = _arguments(schema), _returned(schema)
    written = [name for name, _, bang in found if bang]
    return written, [name for name, s, bang in found if s in back and not bang]


@read_schema.wrong(
    "by_the_underscore",
    "This operator writes an argument behind the `*`, and no underscore in its name says so. The "
    "`!` is the promise, wherever it stands.",
)
def _(schema: str) -> Aliases:
    name = schema.partition("(")[0].partition(".")[0]
    written = [n for n, _, _ in _arguments(schema)][:1] if name.endswith("_") else []
    back = _returned(schema)
    return written, [n for n, s, _ in _arguments(schema) if s in back]


@read_schema.wrong(
    "star_unread",
    "`Tensor(a -> *)` is in set a when the call begins; the returned list may share its memory.",
)
def _(schema: str) -> Aliases:
    found = re.findall(r"\((\w+)(!?)\)\S* (\w+)", _inside(schema))
    back = _returned(schema)
    return [n for _, bang, n in found if bang], [n for s, _, n in found if s in back]


@read_schema.cost
def _(student: Student, draw: Draw) -> str:
    text = str(_overload("aten::add_.Tensor")._schema)
    written, aliased = student.call("read_schema", text)
    return (
        f"no tensor was made: aten::add_ writes {written} and returns {aliased}. Functionalization "
        "reads the same letters"
    )


# ---- 2.8 ----------------------------------------------------------------------------------------

Overridden = tuple[int, list[torch.Tensor], torch.Tensor]


@lab.question(
    "with_my_addmm",
    points=4,
    minutes=15,
    difficulty=4,
    hints=(
        "Three things in order: register, run every x, destroy. Which of the results go through "
        "addmm at all is not your affair: the table decides.",
        "Your kernel adds 1 to calls and returns original.call_boxed(keyset, *args, **kwargs) "
        "rounded. library.impl comes before the loop, library._destroy() in a finally after it.",
        'library.impl("addmm", my_addmm, "CPU", with_keyset=True); ...; library._destroy()',
    ),
)
def with_my_addmm(student: Student, draw: Draw) -> None:
    """Replace torch's CPU kernel of addmm in a scope: count its calls, round its results, give it
    back.

    xs (list of x (..., D)), w (V, D), b (V,) -> (calls, results, F.linear(xs[0], w, b) afterwards).
    """
    for _ in draw.cases(2):
        w, b = _whole(draw, 20, 64), _whole(draw, 20)
        flat, deep = _whole(draw, 3, 64), _whole(draw, 2, 3, 64)
        turned = _whole(draw, 3, 2, 64).transpose(0, 1)  # takes no addmm
        xs = [flat, turned, deep, *[_whole(draw, n, 64) for n in draw.sizes(1, high=5)]]
        want = _override(xs, w, b)  # before the student's kernel can be in the table
        _expect_override(student.call("with_my_addmm", xs, w, b), want)


def _whole(draw: Draw, *shape: int) -> torch.Tensor:
    """Whole numbers: their products are exact, whatever the order of summation."""
    return draw.integers(*shape, low=-20, high=20).float()


def _override(
    xs: list[torch.Tensor],
    w: torch.Tensor,
    b: torch.Tensor,
    *,
    rounds: Callable[[int], bool] = bool,
) -> Overridden:
    """What must come out, with nothing replaced: `rounds` says for which number of addmm's."""
    counts = [_addmms(x, w, b) for x in xs]
    plain = [F.linear(x, w, b) for x in xs]
    results = [y.bfloat16().float() if rounds(n) else y for n, y in zip(counts, plain, strict=True)]
    return sum(counts), results, plain[0].clone()


def _addmms(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> int:
    """How often F.linear(x, w, b) runs addmm, as the profiler sees it."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own log is for nobody here
    with torch.autograd.profiler.profile() as seen:
        F.linear(x, w, b)
    events: Any = seen.function_events
    return sum(event.name == "aten::addmm" for event in events)


def _expect_override(got: Any, want: Overridden) -> None:
    if not isinstance(got, (list, tuple)) or len(got) != 3:
        raise Wrong(expected="calls, results, the result afterwards", got=type(got).__name__)
    calls, results, after = got
    if not isinstance(results, (list, tuple)) or len(results) != len(want[1]):
        got = f"{len(results)} results" if isinstance(results, (list, tuple)) else repr(results)
        raise Wrong(expected=f"{len(want[1])} results", got=got[:80])
    for place, (result, right) in enumerate(zip(results, want[1], strict=True)):
        try:
            expect_close(result, right, tolerance=0.0)
        except Wrong as wrong:
            where = f"in the result of xs[{place}] {wrong.where}".strip()
            raise Wrong(expected=wrong.expected, got=wrong.got, where=where) from None
    expect_equal(calls, want[0])
    expect_close(after, want[2], tolerance=0.0)


@with_my_addmm.wrong(
    "not_given_back",
    "After the scope your kernel still answers. A registration stays until its library is "
    "destroyed: call library._destroy() before the last F.linear.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    calls, results, after = _override(xs, w, b)
    return calls, results, after.bfloat16().float()


@with_my_addmm.wrong(
    "every_result_rounded",
    "A result was rounded that no addmm has made: this x takes another kernel. Round inside your "
    "kernel, not around F.linear.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    return _override(xs, w, b, rounds=lambda n: True)


@with_my_addmm.wrong(
    "nothing_rounded",
    "The results are those of torch's own kernel, though the count is right: yours does not round.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    return _override(xs, w, b, rounds=lambda n: False)


@with_my_addmm.wrong(
    "calls_of_linear",
    "You counted the calls of F.linear. Not each of them runs addmm: count inside your kernel.",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    _, results, after = _override(xs, w, b)
    return len(xs), results, after


@with_my_addmm.wrong(
    "never_counted",
    "The results are right and the count is 0: `calls += 1` is missing from your kernel, or "
    "changes another variable (nonlocal).",
)
def _(xs: list[torch.Tensor], w: torch.Tensor, b: torch.Tensor) -> Overridden:
    return 0, *_override(xs, w, b)[1:]


@with_my_addmm.cost
def _(student: Student, draw: Draw) -> str:
    w, b = _whole(draw, 600, 64), _whole(draw, 600)
    xs = [_whole(draw, 4, 64)] * 3
    calls, *_ = student.call("with_my_addmm", xs, w, b)
    return f"{calls} calls went through your Python; without the scope, none does"


# ---- 2.9 ----------------------------------------------------------------------------------------

Step = tuple[str, tuple[Any, ...], dict[str, Any]]
Carried = tuple[torch.Tensor, int]


@lab.question(
    "carried_bytes",
    points=4,
    minutes=15,
    difficulty=4,
    hints=(
        "Write the four steps as four comments first: unwrap, run, charge, wrap. What does each "
        "need from the one before?",
        "tree_map a function over (args, kwargs) that returns t.plain for a Metered. Remember the "
        "storages of the plain tensors; a result in one of them is a view and costs 0.",
        "cls(t, before + (0 if t.untyped_storage().data_ptr() in known else "
        "t.untyped_storage().nbytes()))",
    ),
)
def carried_bytes(student: Student, draw: Draw) -> None:
    """A tensor that carries the bytes that were allocated on the way to it.

    x, steps of (method, arguments, keyword arguments), each on the last result -> (the last result
    as a plain tensor, the bytes it carries).
    """
    for _ in draw.cases(2):
        n = draw.integer(2, 6)
        for steps in _ways(draw, n):
            x = draw.tensor(n, 64)
            value, nbytes = _allocated(x, steps)
            got = student.call("carried_bytes", x, steps)
            if not isinstance(got, (list, tuple)) or len(got) != 2:
                raise Wrong(expected="a tensor and its bytes", got=type(got).__name__)
            expect_close(got[0], value)
            expect_equal(got[1], nbytes)


def _ways(draw: Draw, n: int) -> list[list[Step]]:
    w, b = draw.tensor(64, 20), draw.tensor(20)
    return [
        [("relu", (), {}), ("t", (), {}), ("add", (1.0,), {})],
        [("relu", (), {}), ("add", (1.0,), {}), ("mul", (2.0,), {})],
        [("add", (draw.tensor(64),), {"alpha": 3}), ("sum", (), {"dtype": torch.float64})],
        [("matmul", (w,), {}), ("add", (b,), {}), ("softmax", (-1,), {}), ("t", (), {})],
        [("t", (), {}), ("reshape", (-1,), {}), ("view", (64, n), {})],
        [("unsqueeze", (0,), {}), ("matmul", (w,), {}), ("relu_", (), {}), ("flatten", (), {})],
    ]


def _apply(x: torch.Tensor, steps: list[Step]) -> torch.Tensor:
    for name, arguments, keywords in steps:
        x = getattr(x, name)(*arguments, **keywords)
    return x


def _allocated(x: torch.Tensor, steps: list[Step]) -> Carried:
    """By another mechanism: a mode that counts the new storages of the whole way."""
    with onelayer.count_bytes() as moved:
        value = _apply(x, steps)
    return value, moved.bytes


class _Ledger(TorchDispatchMode):
    """Charges by a rule of (storages of the arguments, result, bytes of the arguments)."""

    def __init__(self, charge: Callable[[bool, torch.Tensor, int], int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.charge, self.charges = charge, [0]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [t for t in args if isinstance(t, torch.Tensor)]
        known = {t.untyped_storage().data_ptr() for t in tensors}
        result = func(*args, **(kwargs or {}))
        is_view = result.untyped_storage().data_ptr() in known
        read = sum(t.nbytes for t in tensors)
        self.charges.append(self.charge(is_view, result, read))
        return result


def _ledger(
    x: torch.Tensor, steps: list[Step], charge: Callable[[bool, torch.Tensor, int], int]
) -> tuple[torch.Tensor, list[int]]:
    with _Ledger(charge) as ledger:
        value = _apply(x, steps)
    return value, ledger.charges


@carried_bytes.wrong(
    "views_charged",
    "A view was charged. It has a new header and the old storage: compare the storages' pointers.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, charges = _ledger(x, steps, lambda is_view, result, read: result.nbytes)
    return value, sum(charges)


@carried_bytes.wrong(
    "history_lost",
    "Only the last operator's bytes are left. A result inherits what its arguments carried.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    value, charges = _ledger(
        x, steps, lambda is_view, result, read: 0 if is_view else result.nbytes
    )
    return value, charges[-1]


@carried_bytes.wrong("in_elements", "These are elements. storage.nbytes() gives bytes.")
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return 0 if is_view else result.numel()

    value, charges = _ledger(x, steps, charge)
    return value, sum(charges)


@carried_bytes.wrong(
    "reads_charged",
    "What an operator reads was charged too. Here only new storages count.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    def charge(is_view: bool, result: torch.Tensor, read: int) -> int:
        return 0 if is_view else result.nbytes + read

    value, charges = _ledger(x, steps, charge)
    return value, sum(charges)


@carried_bytes.wrong(
    "keywords_dropped",
    "The keyword arguments got lost between __torch_dispatch__ and func: alpha and dtype arrive as "
    "keywords.",
)
def _(x: torch.Tensor, steps: list[Step]) -> Carried:
    return _allocated(x, [(name, arguments, {}) for name, arguments, _ in steps])


@carried_bytes.cost
def _(student: Student, draw: Draw) -> str:
    steps: list[Step] = [("matmul", (draw.tensor(64, 600),), {}), ("softmax", (-1,), {})]
    _, nbytes = student.call("carried_bytes", draw.tensor(32, 64), steps)
    return f"32 tokens through the head and a softmax: {nbytes:,} bytes, known to the result itself"


# ---- 2.10 ---------------------------------------------------------------------------------------

Stepped = tuple[Names, torch.Tensor]


@lab.question(
    "observed_step",
    points=3,
    minutes=10,
    difficulty=3,
    hints=(
        "Print kwargs inside the mode. What does func receive of them?",
        "alpha=-lr arrives as a keyword. `func(*args)` drops it, and without alpha the step is w + "
        "g: uphill, whatever lr was.",
        "return func(*args, **(kwargs or {}))",
    ),
    may_write=True,
)
def observed_step(student: Student, draw: Draw) -> None:
    """Detective case: a mode that only looks must not change what it sees. The code as found does;
    make it right.

    w, g (any shape), lr -> (operators seen, as str(func); w after w.add_(g, alpha=-lr), in place).
    """
    for lr in (
        0.5,
        0.1,
        draw.integer(1, 9) / 100,
        *(draw.integer(1, 50) / 100 for _ in draw.cases(2)),
    ):
        w, g = draw.tensor(5, 4), draw.tensor(5, 4)
        want = w - lr * g
        got = student.call("observed_step", w, g, lr)
        if not isinstance(got, (list, tuple)) or len(got) != 2:
            raise Wrong(expected="the names and w", got=type(got).__name__)
        expect_close(got[1], want)
        expect_equal(got[0], [str(torch.ops.aten.add_.Tensor)])
        expect_close(w, want)


@observed_step.wrong(
    "keywords_dropped",
    "w became w + g: the keyword alpha never reached the operator. `func(*args)` is not the call "
    "that was made.",
)
def _(w: torch.Tensor, g: torch.Tensor, lr: float) -> Stepped:
    return ["aten.add_.Tensor"], w.add_(g)


@observed_step.wrong(
    "run_twice",
    "The step was taken twice: func ran once to be looked at and once for its result. An operator "
    "that writes in place must run once.",
)
def _(w: torch.Tensor, g: torch.Tensor, lr: float) -> Stepped:
    return ["aten.add_.Tensor"], w.add_(g, alpha=-lr).add_(g, alpha=-lr)


@observed_step.wrong(
    "on_a_copy",
    "The result is right, but w itself did not move: the step went to a copy.",
)
def _(w: torch.Tensor, g: torch.Tensor, lr: float) -> Stepped:
    return ["aten.add_.Tensor"], w.clone().add_(g, alpha=-lr)


@observed_step.wrong(
    "seen_nothing",
    "w is right, and nothing was seen: the step ran outside the mode.",
)
def _(w: torch.Tensor, g: torch.Tensor, lr: float) -> Stepped:
    return [], w.add_(g, alpha=-lr)


@observed_step.cost
def _(student: Student, draw: Draw) -> str:
    w, g = draw.tensor(600, 64), draw.tensor(600, 64)
    names, _ = student.call("observed_step", w, g, 0.1)
    return f"{len(names)} operator seen, {w.nbytes:,} bytes written once"
