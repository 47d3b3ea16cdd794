"""Where a sum lives, asked of torch's fake tensors, which follow a GPU's rules without a GPU."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, some

from . import lab
from .meta_layer import Sizes

Place = tuple[str, Sizes]  # where a tensor is, and its shape

_RAISED = {
    "RuntimeError": "Where the sum is refused, return None. An exception is what torch's own sum "
    "has for it."
}
_NUMBERED = 'This is the name of one GPU, with its number. The type alone was asked for, "cuda".'


@lab.question(
    "device_of_sum",
    points=2,
    minutes=7,
    difficulty=2,
    hints=(
        "PyTorch moves nothing for you, with one small exception. Which tensor is small enough?",
        "The same device: that one. Different devices: only a CPU tensor of shape () may join, "
        "and the result is where the other one is. A shape of (1,) is no exception.",
        'if a[0] == b[0]: return a[0]; if ("cpu", ()) in (a, b): return "cuda"; return None',
    ),
)
def device_of_sum(student: Student, draw: Draw) -> None:
    """Where `a + b` lives, or None where PyTorch refuses to add them.

    a, b: (device, shape), with device "cpu" or "cuda" -> "cpu", "cuda" or None.
    """
    n = draw.integer(2, 999)
    pairs = [*_awkward(n), *(_pair(draw) for _ in draw.cases(12)), *some(_every_pair(n), 110)]
    answers = student.each("device_of_sum", pairs)
    for pair in pairs:
        want = _device_of_sum(*pair)
        with explaining(_RAISED if want is None else {}):
            got = next(answers)
        expect_equal(got, want, why=_because(got, *pair))


def _because(got: Any, a: Place, b: Place) -> str:
    """What decides about these two places; "" for what is no such answer."""
    if got is False:
        return "Where the sum is refused the answer is None, else the name of a device."
    if got not in ("cpu", "cuda", None):
        return _NUMBERED if isinstance(got, str) and got.startswith("cuda:") else ""
    if a[0] == b[0]:
        return f"Both are on {a[0]}, and so is their sum: a shape counts only between two devices."
    on_cpu = a[1] if a[0] == "cpu" else b[1]
    if on_cpu == ():
        return (
            "The tensor on the CPU has the shape (): it is a number, and joins the one on the GPU."
        )
    return (
        f"The tensor on the CPU has the shape {on_cpu}. It is no number, so it cannot join a "
        "tensor on the GPU."
    )


def _awkward(n: int) -> list[tuple[Place, Place]]:
    return [
        (("cpu", (n,)), ("cpu", (n,))),
        (("cuda", (n,)), ("cuda", (n,))),
        (("cpu", (n,)), ("cuda", (n,))),
        (("cuda", (n,)), ("cpu", (n,))),
        (("cpu", (n,)), ("cuda", (2, n))),  # fewer dimensions make no number
        (("cuda", (n,)), ("cpu", ())),
        (("cpu", ()), ("cuda", (n,))),
        (("cpu", (n,)), ("cuda", ())),
        (("cuda", ()), ("cpu", (n,))),
        (("cpu", (1,)), ("cuda", (n,))),
        (("cuda", (n,)), ("cpu", (1, 1))),
        (("cpu", (0,)), ("cuda", (1,))),
        (("cpu", ()), ("cuda", ())),
        (("cuda", ()), ("cpu", ())),
        (("cpu", ()), ("cpu", (n,))),
        (("cuda", ()), ("cuda", ())),
        (("cuda", ()), ("cuda", (n,))),
        (("cuda", (n, 2)), ("cpu", ())),
        (("cpu", (0,)), ("cpu", (1,))),
    ]


def _every_pair(n: int) -> list[tuple[Place, Place]]:
    """Each of these shapes on each device, with each other one that it fits."""
    shapes: list[Sizes] = [(), (1,), (n,), (0,), (1, 1), (n, 1), (0, 1), (1, 1, 1), (1, 1, 1, n)]
    places = [(device, shape) for device in ("cpu", "cuda") for shape in shapes]
    return [(a, b) for a, b in itertools.product(places, places) if _fit(a[1], b[1])]


def _fit(one: Sizes, other: Sizes) -> bool:
    return all(n == m or 1 in (n, m) for n, m in zip(one[::-1], other[::-1], strict=False))


def _pair(draw: Draw) -> tuple[Place, Place]:
    """Two places whose shapes fit together: too many for a list of the answers."""
    shape = draw.shape(draw.integer(1, 3), low=1, high=999)
    other = draw.choice(((), (1,), shape, shape[1:], (1, *shape[1:])))
    a, b = draw.shuffled([shape, other])
    return (draw.choice(("cpu", "cuda")), a), (draw.choice(("cpu", "cuda")), b)


def _device_of_sum(a: Place, b: Place) -> str | None:
    """torch's own answer: fake tensors have a device and a shape, and no memory on it."""
    with FakeTensorMode():
        x, y = (torch.empty(shape, device=device) for device, shape in (a, b))
        try:
            return (x + y).device.type
        except RuntimeError:
            return None


device_of_sum.wrong(
    "moves_to_the_gpu",
    "Nothing is moved to the GPU for you: two tensors with dimensions on two devices are an error.",
    device_of_sum=lambda a, b: "cuda" if "cuda" in (a[0], b[0]) else "cpu",
)
device_of_sum.wrong(
    "follows_the_first",
    "Nobody's device wins: two tensors with dimensions on two devices are an error, whichever "
    "comes first.",
    device_of_sum=lambda a, b: a[0],
)
device_of_sum.wrong(
    "never_mixes",
    "Nearly. One mixture is allowed: a CPU tensor of shape () counts as a plain number.",
    device_of_sum=lambda a, b: a[0] if a[0] == b[0] else None,
)


@device_of_sum.wrong(
    "numbers_from_the_gpu_too",
    "A single number on the GPU may not join a CPU tensor with dimensions: fetching it would make "
    "the CPU wait. Only a CPU number may join a GPU tensor.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    if a[1] == () and b[1] == ():
        return "cuda"
    return b[0] if a[1] == () else a[0] if b[1] == () else None


@device_of_sum.wrong(
    "one_element_is_enough",
    "A shape of (1,) is a vector with one element, not a number. Only shape () may mix.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    on_cpu = a if a[0] == "cpu" else b
    return "cuda" if torch.Size(on_cpu[1]).numel() == 1 else None


@device_of_sum.wrong(
    "device_of_the_number",
    "The mixture is allowed, and the result stays where the larger tensor is: the number joins it.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    return "cpu" if ("cpu", ()) in (a, b) else None


@device_of_sum.wrong(
    "any_number_joins",
    "A number on the GPU does not make a CPU tensor with dimensions follow it there. Only a number "
    "on the CPU may join.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    return "cuda" if () in (a[1], b[1]) else None


@device_of_sum.wrong(
    "only_gpu_numbers",
    "It is the number on the CPU that may join, and not the one on the GPU.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    return "cuda" if ("cuda", ()) in (a, b) else None


@device_of_sum.wrong(
    "number_second_only",
    "A CPU number may come first too: the order of a and b decides nothing.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    return "cuda" if b == ("cpu", ()) else None


@device_of_sum.wrong(
    "number_first_only",
    "A CPU number may come second too: the order of a and b decides nothing.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    return "cuda" if a == ("cpu", ()) else None


@device_of_sum.wrong(
    "two_numbers_refused",
    "Two numbers on two devices may be added too: the CPU's joins the GPU's.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    return "cuda" if ("cpu", ()) in (a, b) and a[1] != b[1] else None


@device_of_sum.wrong(
    "other_than_the_number",
    "Two numbers on two devices give one on the GPU, and a number on the GPU joins no CPU tensor "
    "with dimensions: ask where the number is.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    return b[0] if a[1] == () else a[0] if b[1] == () else None


@device_of_sum.wrong(
    "vectors_too",
    "A vector on the CPU is no number. Only a CPU tensor of shape () may join.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    on_cpu = a if a[0] == "cpu" else b
    return "cuda" if len(on_cpu[1]) <= 1 else None


@device_of_sum.wrong(
    "no_more_than_one_element",
    "A CPU tensor of shape (1,) or (0,) has dimensions, so it is no number. Only shape () may "
    "join.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    on_cpu = a if a[0] == "cpu" else b
    return "cuda" if torch.Size(on_cpu[1]).numel() <= 1 else None


@device_of_sum.wrong(
    "one_vector_of_one",
    "A shape of (1,) is a vector with one element. The number that may join has the shape ().",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    on_cpu = a if a[0] == "cpu" else b
    return "cuda" if on_cpu[1] in ((), (1,)) else None


@device_of_sum.wrong(
    "same_shape_may_mix",
    "One shape is no reason: two tensors with dimensions on two devices are refused. Only a CPU "
    "number may join.",
)
def _(a: Place, b: Place) -> str | None:
    if a[0] == b[0]:
        return a[0]
    return "cuda" if a[1] == b[1] else None


@device_of_sum.wrong(
    "always_joins_the_gpu",
    "A CPU number plus a CPU tensor stays on the CPU: there is no GPU in this sum.",
)
def _(a: Place, b: Place) -> str | None:
    return "cuda" if ("cpu", ()) in (a, b) else a[0] if a[0] == b[0] else None


@device_of_sum.wrong(
    "shapes_must_agree",
    "Shapes need not agree: they are broadcast, and a CPU number may join a GPU tensor of any "
    "shape.",
)
def _(a: Place, b: Place) -> str | None:
    if a[1] != b[1]:
        return None
    return a[0] if a[0] == b[0] else "cuda" if a[1] == () else None


@device_of_sum.wrong(
    "place_returned",
    "This is the device with its shape. The device alone was asked for.",
)
def _(a: Place, b: Place) -> Place | None:
    if a[0] == b[0]:
        return a
    on_cpu, on_gpu = (a, b) if a[0] == "cpu" else (b, a)
    return on_gpu if on_cpu[1] == () else None


device_of_sum.wrong(
    "yes_or_no",
    "This says whether they are on one device. Asked for is the device of the sum, or None.",
    device_of_sum=lambda a, b: a[0] == b[0],
)
device_of_sum.wrong(
    "word_none",
    'This is the text "None". The answer where the sum is refused is None itself.',
    device_of_sum=lambda a, b: _device_of_sum(a, b) or "None",
)


@device_of_sum.wrong(
    "device_itself",
    "This is a torch.device. Its type, a text, was asked for: device.type.",
)
def _(a: Place, b: Place) -> torch.device | None:
    found = _device_of_sum(a, b)
    return torch.device(found) if found else None


@device_of_sum.wrong(
    "with_a_number",
    _NUMBERED,
)
def _(a: Place, b: Place) -> str | None:
    found = _device_of_sum(a, b)
    return "cuda:0" if found == "cuda" and a[0] != b[0] else found


@device_of_sum.cost
def _(student: Student, draw: Draw) -> str:
    number = student.call("device_of_sum", ("cuda", (32, 600)), ("cpu", ()))
    refused = student.call("device_of_sum", ("cuda", (32, 600)), ("cpu", (600,)))
    joins, sent = torch.zeros(()).nbytes, torch.zeros(600).nbytes
    return (
        f"logits on the GPU plus a CPU number: {number}; plus the bias left on the CPU: {refused}. "
        f"The number's {joins} bytes come along, the bias's {sent:,} have to be sent by you"
    )
