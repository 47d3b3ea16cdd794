"""`play_promises`: an operator whose kernel reads raw memory, and what fails until it is told more.

Each combination is registered with torch and used; the view shows what came of it.
"""

import ctypes
import warnings
from collections.abc import Callable
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor

from onelayer.drawing.explorable import Explorable, Line, Part, Scene, explorable
from onelayer.drawing.words import say

_NO, _YES = "no", "yes"
_MEANS = {
    "green": "right",
    "orange": "an error",
    "red": "wrong numbers, and no error",
}
_NAMESPACE = "onelayer_promises"
_numbers = count()


def play_promises() -> Explorable:
    """A head's operator on addresses, as C++ would write it: choose what it is given besides its
    kernel, and see what each use makes of it.

        play_promises()

    All outcomes come from the installed torch: 16 operators are registered, used and dropped.
    """
    answers = (say(_NO), say(_YES))
    choices = {
        say("makes inputs contiguous"): answers,
        say("has a backward"): answers,
        say("has a fake kernel"): answers,
        say("has a rule for autocast"): answers,
    }
    means = {look: say(words) for look, words in _MEANS.items()}
    return explorable(say("an operator and its promises"), choices, _scene, means=means)


def _scene(*given: str) -> Scene:
    looks = outcomes(*(one == say(_YES) for one in given))
    lines = [Line(say(use), [Part(1, look, say(_MEANS[look]))]) for use, look in looks.items()]
    right = sum(look == "green" for look in looks.values())
    silent = [say(use) for use, look in looks.items() if look == "red"]
    told = say("{right} of {all} uses are right.", right=right, all=len(looks))
    if silent:
        told += say(" Nobody is told about: {uses}.", uses=", ".join(silent))
    return Scene(lines, told)


def outcomes(contiguous: bool, backward: bool, fake: bool, autocast: bool) -> dict[str, str]:
    """What comes of each use of an operator that has these four or not: a look of the view."""
    with torch.library._scoped_library(_NAMESPACE, "FRAGMENT") as library:  # private
        name = f"head{next(_numbers)}"
        library.define(f"{name}(Tensor x, Tensor w) -> Tensor")
        library.impl(name, _kernel(contiguous=contiguous), "CPU")
        whole = f"{_NAMESPACE}::{name}"
        if backward:
            torch.library.register_autograd(whole, _backward, setup_context=_save, lib=library)
        if fake:
            torch.library.register_fake(whole, _shape, lib=library)
        if autocast:
            torch.library.register_autocast(whole, "cpu", torch.float32, lib=library)
        operator = getattr(getattr(torch.ops, _NAMESPACE), name)
        return {use: _outcome(check, operator) for use, check in _USES.items()}


def _outcome(use: Callable[..., bool], operator: Callable[..., Tensor]) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "green" if use(operator) else "red"
    except Exception:  # whatever torch raises is the outcome
        return "orange"


def _floats(x: Tensor) -> Tensor:
    """The floats at the address of x, row by row, whatever its strides are."""
    if x.dtype is not torch.float32:
        raise TypeError("the kernel reads float32")
    here = (ctypes.c_float * x.numel()).from_address(x.data_ptr())
    return torch.frombuffer(here, dtype=torch.float32).view(x.shape).clone()


def _kernel(*, contiguous: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def kernel(x: Tensor, w: Tensor) -> Tensor:
        if contiguous:
            x, w = x.contiguous(), w.contiguous()
        return _floats(x) @ _floats(w).T

    return kernel


def _save(
    ctx: torch.autograd.function.FunctionCtx, inputs: tuple[Tensor, ...], output: Tensor
) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: torch.autograd.function.FunctionCtx, dz: Tensor) -> tuple[Tensor, Tensor]:
    x, w = ctx.saved_tensors  # type: ignore[attr-defined]
    return dz @ w, dz.T @ x


def _shape(x: Tensor, w: Tensor) -> Tensor:
    return x.new_empty(len(x), len(w))


def _inputs() -> tuple[Tensor, Tensor]:
    return torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3).cos()


def _called(operator: Callable[..., Tensor]) -> bool:
    x, w = _inputs()
    return operator(x, w).allclose(F.linear(x, w))


def _turned(operator: Callable[..., Tensor]) -> bool:
    x, w = _inputs()
    x = x.T.contiguous().T
    return operator(x, w).allclose(F.linear(x, w))


def _differentiated(operator: Callable[..., Tensor]) -> bool:
    x, w = _inputs()
    w.requires_grad_()
    (dw,) = torch.autograd.grad(operator(x, w).sin().sum(), w)
    (want,) = torch.autograd.grad(F.linear(x, w).sin().sum(), w)
    return dw.allclose(want)


def _traced(operator: Callable[..., Tensor]) -> bool:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode:
        x, w = (mode.from_tensor(t) for t in _inputs())
        return operator(x, w).shape == (2, 4)


def _cast(operator: Callable[..., Tensor]) -> bool:
    x, w = _inputs()
    x = x.bfloat16()  # as the layer before it hands it on
    with torch.autocast("cpu", torch.bfloat16):
        z = operator(x, w)
    return z.allclose(F.linear(x.float(), w))


_USES: dict[str, Callable[..., bool]] = {
    "a plain call": _called,
    "a transposed x": _turned,
    "backward": _differentiated,
    "tracing for compile": _traced,
    "under autocast": _cast,
}
