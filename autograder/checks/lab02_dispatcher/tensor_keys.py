"""The keys that a tensor carries."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

import onelayer
from autograder.checks.explaining import saying
from autograder.judge import Draw, Student, expect_equal, some

from . import lab
from .keys import C, Names

_DEVICES, _LAYOUTS = ("cpu", "meta"), ("strided", "sparse_coo", "sparse_csr")
_DTYPES: list[tuple[torch.dtype, tuple[int, ...]]] = [
    (torch.float32, (0, 4)),
    (torch.float64, (1, 2, 3)),
    (torch.float16, ()),
    (torch.bfloat16, (1, 1)),
    (torch.complex64, (5,)),
    (torch.int64, ()),
    (torch.bool, (2, 0)),
    (torch.uint8, (3,)),
]
"""Each with a shape that chooses no key either."""

Kind = tuple[str, str, torch.dtype, tuple[int, ...], bool, bool, bool]
INFERENCE = (
    "This tensor was made in inference mode: it has no version counter, and carries neither "
    "autograd's key nor ADInplaceOrView, whether it requires a gradient or not."
)
SPARSE_AUTOCAST = "A sparse CPU tensor has the autocast key too: it belongs to the device."
NEGATIVE = (
    "This tensor is a lazy -x, and that alone adds Negative: its shape and its dtype choose no "
    "key, and neither does its device choose this one."
)
ANY_AUTOCAST = (
    "Every CPU tensor has the autocast key, however it was made and whatever its dtype is: it "
    "belongs to the device."
)

NO_AUTOCAST = "A meta tensor has no autocast key, whatever its layout is."
ORDINARY = (
    "A tensor that was not made in inference mode carries autograd's key and ADInplaceOrView: "
    "nothing else that is said of it changes these two."
)


@lab.question(
    "tensor_keys",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "Ask of each of the seven arguments: does the dispatcher need it to find a kernel? Three "
        "of them it leaves to the kernels.",
        "Start with the backend key, `prefix + backend`, and put the others before it, each under "
        "its condition. Neither dtype nor shape nor requires_grad chooses one.",
        'keys = autocast (cpu only) + [f"Autograd{backend}", "ADInplaceOrView"] (unless made in '
        "inference mode) + Negative (if lazy) + [prefix + backend]",
    ),
)
def tensor_keys(student: Student, draw: Draw) -> None:
    """The dispatch keys that a tensor carries, the highest priority first.

    device, layout, dtype, shape, requires_grad, negative, made_in_inference -> list of names.
    """
    n = draw.integer(1, 97)
    always: list[Kind] = [
        ("cpu", "strided", torch.float32, (2, n), True, False, False),
        ("cpu", "strided", torch.float32, (2, n), False, False, False),
        ("cpu", "strided", torch.float32, (2, n), False, False, True),
        ("cpu", "sparse_coo", torch.float32, (2, n), False, False, False),
        ("meta", "strided", torch.float32, (2, n), False, False, False),
        ("cpu", "strided", torch.int64, (2, n), False, False, False),
        ("cpu", "strided", torch.float64, (2, n), False, True, False),
        ("meta", "sparse_csr", torch.float32, (2, n), False, False, True),
        ("meta", "sparse_csr", torch.float32, (n, 3), False, False, False),
        ("cpu", "sparse_coo", torch.int64, (n, 0), False, False, True),
        ("cpu", "strided", torch.float32, (), False, True, True),
        ("meta", "strided", torch.bfloat16, (n,), True, True, False),
        ("cpu", "strided", torch.float32, (0, n), True, False, False),
        ("cpu", "strided", torch.complex64, (), False, False, False),
        ("meta", "sparse_coo", torch.float32, (2, n), False, False, False),
        ("cpu", "sparse_coo", torch.float32, (2, n), True, False, True),
    ]
    kinds = always + [_kind(draw) for _ in draw.cases(6)] + some(_every_kind(n), 100)
    for kind, got in zip(kinds, student.each("tensor_keys", kinds), strict=True):
        want = list(onelayer.key_set(_tensor(*kind)))
        with saying(_because(got, want, *kind[:2])):
            expect_equal(got, want, why=_one_cause(got, want, layout=kind[1]))


def _one_cause(got: Any, want: Names, *, layout: str) -> str:
    """Said before which names are missing, and which are too many."""
    names = list(got) if isinstance(got, (list, tuple)) else []
    if ["AutocastCPU", *names] == want:
        return ANY_AUTOCAST if layout == "strided" else SPARSE_AUTOCAST
    if names == ["AutocastCPU", *want]:
        return NO_AUTOCAST
    if [k for k in want if k != "Negative"] == names != want:
        return NEGATIVE
    if [k for k in want if k in names or not _is_of_autograd(k)] == names != want:
        return ORDINARY
    return INFERENCE if _learns(got) and not _learns(want) else ""


def _is_of_autograd(key: str) -> bool:
    return key in ("AutogradCPU", "AutogradMeta", "ADInplaceOrView")


def _learns(keys: Any) -> bool:
    """Whether both keys are there that a tensor made in inference mode has not."""
    named = keys if isinstance(keys, (list, tuple)) else ()
    return "ADInplaceOrView" in named and ("AutogradCPU" in named or "AutogradMeta" in named)


def _because(got: Any, want: Names, device: str, layout: str) -> str:
    """The key that stands in place of another; "" for what is no list."""
    if not isinstance(got, (list, tuple)):
        return "" if got is None else "A list is asked for, with a name for each key."
    if want[-1] not in got:
        return f"The backend key of layout {layout} on device {device} is {want[-1]}."
    missing = [key for key in want if key not in got]
    if missing and missing[0].startswith("Autograd") and _names_autograd(got):
        return f"The autograd key is named after the device alone: here it is {missing[0]}."
    return f"This tensor carries {missing[0]}, which is not in the list." if missing else ""


def _names_autograd(keys: Any) -> bool:
    """Whether an autograd key is in the list, by whichever name."""
    return any(isinstance(key, str) and key.startswith("Autograd") for key in keys)


def _every_kind(n: int) -> list[Kind]:
    """Each device with each layout, dtype and truth value that a tensor can have at once."""
    return [
        (device, layout, dtype, shape, needs, negative, made)
        for device, layout, (dtype, shape) in itertools.product(_DEVICES, _LAYOUTS, _DTYPES)
        for needs, negative, made in itertools.product((False, True), repeat=3)
        if (dtype.is_floating_point or dtype.is_complex or not (needs or negative))
        and (layout == "strided" or not negative)
        for shape in ((n, 3), shape)
        if layout == "strided" or len(shape) == 2
    ]


def _kind(draw: Draw) -> Kind:
    device, layout = draw.choice(("cpu", "meta")), draw.choice(("strided", "sparse_coo"))
    dtype = draw.choice((torch.float32, torch.float64, torch.bfloat16, torch.int64))
    needs, negative = draw.integer(0, 1) == 1, draw.integer(0, 1) == 1
    floating = dtype.is_floating_point
    lazy = negative and layout == "strided" and floating
    shape = draw.shape(draw.integer(1, 3), high=97)
    return device, layout, dtype, shape, needs and floating, lazy, draw.integer(0, 1) == 1


def _tensor(
    device: str,
    layout: str,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    needs: bool,
    negative: bool,
    made: bool,
) -> torch.Tensor:
    """A tensor of this kind. Sparse ones are empty: nothing is stored, the keys are the same."""
    options: Any = {"dtype": dtype, "device": device, "layout": getattr(torch, layout)}
    with warnings.catch_warnings(), torch.inference_mode() if made else nullcontext():
        warnings.simplefilter("ignore")  # sparse CSR calls itself beta, once per process
        t = torch.empty(shape, **options)
        t = torch._neg_view(t) if negative else t
    return t if made else t.requires_grad_(needs)


def _tensor_keys(kind: Kind, *, backend: str = "", autograd: bool = True) -> Names:
    """The true rule; `backend` and `autograd` bend it."""
    device, layout, _, _, _, negative, made = kind
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
    shape: tuple[int, ...],
    requires_grad: bool,
    negative: bool,
    made_in_inference: bool,
) -> Names:
    kind = (device, layout, dtype, shape, requires_grad, negative, made_in_inference)
    return _tensor_keys(kind, autograd=requires_grad)


@tensor_keys.wrong(
    "layout_ignored",
    "The layout is missing from the backend key: a sparse tensor finds other kernels than a "
    "strided one.",
)
def _(*kind: Any) -> Names:
    return _tensor_keys(kind, backend={"cpu": "CPU", "meta": "Meta"}[kind[0]])


@tensor_keys.wrong(
    "inference_ignored",
    INFERENCE,
)
def _(*kind: Any) -> Names:
    return _tensor_keys((*kind[:6], False))


@tensor_keys.wrong(
    "integers_have_no_gradient",
    "An integer tensor carries autograd's key as any other does: the dtype chooses no key. It is "
    "looked at later, inside the kernel.",
)
def _(*kind: Any) -> Names:
    return _tensor_keys(kind, autograd=kind[2].is_floating_point)


def _bent(bend: Callable[[Kind], Names]) -> Callable[..., Names]:
    def answer(*kind: Any) -> Names:
        return bend(kind)

    return answer


def _without(names: Names, *unwanted: str) -> Names:
    return [name for name in names if not name.startswith(unwanted)]


def _first(names: Names, *starts: str) -> Names:
    """Those that begin so, in this order, before the others."""
    return [n for start in starts for n in names if n.startswith(start)] + _without(names, *starts)


tensor_keys.wrong(
    "integers_skip_autograd",
    "An integer tensor carries autograd's key and ADInplaceOrView as any other does: the dtype "
    "chooses no key. It is looked at later, inside the kernel.",
)(
    _bent(
        lambda kind: (
            _tensor_keys(kind)
            if kind[2].is_floating_point
            else _without(_tensor_keys(kind), "Autograd", "ADInplaceOrView")
        )
    )
)
tensor_keys.wrong(
    "integers_skip_autocast",
    "Autocast casts floating tensors only, but it is its kernel that looks: the key is there for "
    "every dtype.",
)(
    _bent(
        lambda kind: (
            _tensor_keys(kind)
            if kind[2].is_floating_point
            else _without(_tensor_keys(kind), "Autocast")
        )
    )
)
tensor_keys.wrong(
    "autograd_by_layout",
    "The autograd key has the layout in its name. Layouts share one autograd key per device: only "
    "the backend key joins the two.",
)(
    _bent(
        lambda kind: [
            "Autograd" + _tensor_keys(kind)[-1] if name.startswith("Autograd") else name
            for name in _tensor_keys(kind)
        ]
    )
)
tensor_keys.wrong(
    "autocast_of_meta",
    "A meta tensor has no autocast key: autocast is switched on per type of device, and meta is "
    "none of those that it knows.",
)(
    _bent(
        lambda kind: (
            _tensor_keys(kind) if kind[0] == "cpu" else ["AutocastMeta", *_tensor_keys(kind)]
        )
    )
)
tensor_keys.wrong(
    "inplace_key_in_inference",
    "ADInplaceOrView is still there. It keeps version counters in order, and a tensor made in "
    "inference mode has none.",
)(
    _bent(
        lambda kind: (
            _without(_tensor_keys((*kind[:6], False)), "Autograd")
            if kind[6]
            else _tensor_keys(kind)
        )
    )
)
tensor_keys.wrong(
    "negative_last",
    "The right keys, and Negative stands behind the backend's: the kernel that negates must run "
    "before the one that computes.",
)(
    _bent(
        lambda kind: (
            [*_without(_tensor_keys(kind), "Negative"), "Negative"]
            if kind[5]
            else _tensor_keys(kind)
        )
    )
)


@tensor_keys.wrong("lowest_first", "The right keys, the lowest priority first: turn them round.")
def _(*kind: Any) -> Names:
    return _tensor_keys(kind)[::-1]


@tensor_keys.wrong(
    "negative_forgotten",
    "A lazy -x carries the key Negative, whose kernel does the negation when the numbers are read.",
)
def _(*kind: Any) -> Names:
    return [key for key in _tensor_keys(kind) if key != "Negative"]


@tensor_keys.wrong(
    "negative_before_autograd",
    "Negative stands in front of autograd's key. Autograd records the lazy tensor first; its order "
    "is behind ADInplaceOrView.",
)
def _(*kind: Any) -> Names:
    keys = [key for key in _tensor_keys(kind) if key != "Negative"]
    at = 1 if kind[0] == "cpu" else 0
    return [*keys[:at], "Negative", *keys[at:]] if kind[5] else keys


tensor_keys.wrong(
    "negative_before_inplace",
    "Negative stands in front of ADInplaceOrView. Its place is behind it, before the backend's "
    "key.",
)(_bent(lambda kind: _first(_tensor_keys(kind), "Autocast", "Autograd", "Negative")))
tensor_keys.wrong(
    "no_negative_in_inference",
    "A lazy -x that was made in inference_mode carries Negative too. It lacks autograd's key and "
    "ADInplaceOrView.",
)(_bent(lambda kind: _without(_tensor_keys(kind), "Negative") if kind[6] else _tensor_keys(kind)))


@tensor_keys.wrong(
    "no_autocast_in_inference",
    "A tensor made in inference_mode keeps its autocast key. It lacks autograd's and "
    "ADInplaceOrView.",
)
def _(*kind: Any) -> Names:
    return [key for key in _tensor_keys(kind) if key != "AutocastCPU" or not kind[6]]


@tensor_keys.wrong(
    "no_autocast_of_float64",
    "A float64 tensor has the autocast key too. What autocast does with it is another question, "
    "and dtype chooses no key.",
)
def _(*kind: Any) -> Names:
    f64 = kind[2] is torch.float64
    return [key for key in _tensor_keys(kind) if key != "AutocastCPU" or not f64]


@tensor_keys.wrong(
    "autocast_of_strided_only",
    SPARSE_AUTOCAST,
)
def _(*kind: Any) -> Names:
    strided = kind[1] == "strided"
    return [key for key in _tensor_keys(kind) if key != "AutocastCPU" or strided]


@tensor_keys.wrong(
    "empty_ones_have_fewer",
    "A tensor without elements carries the keys of any other. Its shape chooses none.",
)
def _(*kind: Any) -> Names:
    keys = _tensor_keys(kind)
    return keys if all(kind[3]) else [key for key in keys if key != "ADInplaceOrView"]


tensor_keys.wrong(
    "both_if_needed",
    "A tensor without `requires_grad` carries autograd's key and ADInplaceOrView too: "
    "requires_grad chooses no key.",
)(
    _bent(
        lambda kind: (
            _tensor_keys(kind)
            if kind[4]
            else _without(_tensor_keys(kind), "Autograd", "ADInplaceOrView")
        )
    )
)
tensor_keys.wrong(
    "inplace_if_needed",
    "ADInplaceOrView is there without `requires_grad` too: it keeps version counters, and every "
    "ordinary tensor has one.",
)(
    _bent(
        lambda kind: (
            _tensor_keys(kind) if kind[4] else _without(_tensor_keys(kind), "ADInplaceOrView")
        )
    )
)
tensor_keys.wrong(
    "autograd_in_inference",
    "A tensor made in inference mode has lost ADInplaceOrView here, but not autograd's key. It "
    "has neither.",
)(
    _bent(
        lambda kind: (
            _without(_tensor_keys((*kind[:6], False)), "ADInplaceOrView")
            if kind[6]
            else _tensor_keys(kind)
        )
    )
)
tensor_keys.wrong(
    "autocast_everywhere",
    "AutocastCPU stands at a meta tensor. Meta is another device, and it has no autocast key.",
)(_bent(lambda kind: ["AutocastCPU", *_without(_tensor_keys(kind), "Autocast")]))
tensor_keys.wrong(
    "no_autocast",
    "A CPU tensor carries AutocastCPU at all times. Autocast is off because the thread excludes "
    "the key.",
)(_bent(lambda kind: _without(_tensor_keys(kind), "Autocast")))
tensor_keys.wrong(
    "autocast_behind_autograd",
    "Autograd's key stands in front of AutocastCPU. Autocast is higher: it casts before autograd "
    "records.",
)(_bent(lambda kind: _first(_tensor_keys(kind), "Autograd")))
tensor_keys.wrong(
    "inplace_before_autograd",
    "ADInplaceOrView stands in front of autograd's key. Autograd is higher and redispatches to it.",
)(_bent(lambda kind: _first(_tensor_keys(kind), "Autocast", "ADInplace")))
tensor_keys.wrong(
    "alphabetical",
    "The right keys in the order of the alphabet. Their order is that of priority.",
)(_bent(lambda kind: sorted(_tensor_keys(kind))))
tensor_keys.wrong(
    "no_autograd_of_meta",
    "A meta tensor has autograd's key and ADInplaceOrView as any other: AutogradMeta.",
)(
    _bent(
        lambda kind: (
            _tensor_keys(kind)
            if kind[0] == "cpu"
            else _without(_tensor_keys(kind), "Autograd", "ADInplaceOrView")
        )
    )
)
tensor_keys.wrong(
    "autograd_cpu_everywhere",
    "AutogradCPU stands at a meta tensor. The autograd key is named after the device: "
    "AutogradMeta.",
)(
    _bent(
        lambda kind: [
            "AutogradCPU" if name.startswith("Autograd") else name for name in _tensor_keys(kind)
        ]
    )
)
tensor_keys.wrong(
    "coo_in_the_name",
    "The backend key of sparse_coo is SparseCPU or SparseMeta, without Coo.",
)(
    _bent(
        lambda kind: _tensor_keys(
            kind,
            backend={"cpu": "SparseCooCPU", "meta": "SparseCooMeta"}[kind[0]]
            if kind[1] == "sparse_coo"
            else "",
        )
    )
)
tensor_keys.wrong(
    "csr_like_coo",
    "sparse_csr has a backend key of its own, with SparseCsr in its name: its storage is another "
    "one.",
)(_bent(lambda kind: [name.replace("SparseCsr", "Sparse") for name in _tensor_keys(kind)]))
tensor_keys.wrong(
    "two_backends",
    "A sparse tensor carries one backend key, that of layout and device together, and not the "
    "device's beside it.",
)(
    _bent(
        lambda kind: [
            *_tensor_keys(kind),
            *([] if kind[1] == "strided" else [{"cpu": "CPU", "meta": "Meta"}[kind[0]]]),
        ]
    )
)
tensor_keys.wrong(
    "as_in_the_example",
    "These are the example's four keys. Another tensor has others.",
)(_bent(lambda kind: ["AutocastCPU", "AutogradCPU", "ADInplaceOrView", "CPU"]))


@tensor_keys.cost
def _(student: Student, draw: Draw) -> str:
    keys = student.call("tensor_keys", "cpu", "strided", torch.float32, (1,), True, False, False)
    raw = int(C._dispatch_keys(torch.ones(1)).raw_repr())
    return f"{len(keys)} keys in one 64-bit integer of the tensor ({raw:#x}); no float was read"
