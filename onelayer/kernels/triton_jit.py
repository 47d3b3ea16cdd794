"""`@kernel`: Triton's jit where there is a GPU, Triton's interpreter where there is none."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton
import triton.experimental.gluon  # else Triton does so at the first launch, and finds tl changed
from triton import language as tl
from triton.runtime.errors import InterpreterError
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

NUMPYS_REFUSAL = "only 0-dimensional arrays can be converted to Python scalars"
_HOMES = (tl, tl.core, tl.math, tl.standard, tl.tensor, tl.dtype, tl.core.tensor_descriptor_base)
"""What the interpreter patches."""
OLD_INTERPRETER = "The interpreter of Triton {} needs an older numpy: pip install 'numpy<2.4'"


def interpreted() -> bool:
    """Whether kernels run in the interpreter: as TRITON_INTERPRET says, else where no GPU is.

    The interpreter runs one program after the other, on the CPU, in numpy: it misses races between
    programs and the rounding of short dtypes inside `tl.dot`.
    """
    said = os.environ.get("TRITON_INTERPRET")
    return not torch.cuda.is_available() if said is None else said == "1"


def kernel(function: Callable[..., Any]) -> Any:
    """`function` as a Triton kernel, to be launched as `function[grid](...)`."""
    return Interpreted(function) if interpreted() else triton.jit(function)


class Interpreted(InterpretedFunction):  # type: ignore[misc]
    """Runs, whatever TRITON_INTERPRET said when triton was first imported, and by whomever."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Raises InterpreterError, or RuntimeError where it is the numpy that is too new."""
        try:
            with _standard_functions_interpreted():
                return super().run(*args, **kwargs)
        except InterpreterError as error:
            if NUMPYS_REFUSAL in str(error):
                raise RuntimeError(OLD_INTERPRETER.format(triton.__version__)) from error
            raise


@contextmanager
def _standard_functions_interpreted() -> Iterator[None]:
    """tl.sum, tl.max and their like are jit functions too, made when triton was imported.

    Afterwards the language is what it was: where one of them was called, Triton 3.7's interpreter
    leaves its own operators behind, and nothing compiles any more in this process.
    """
    stood = [(home, dict(vars(home))) for home in _HOMES]
    functions = [f for _, names in stood for f in names.values() if isinstance(f, JITFunction)]
    instead = {id(f): InterpretedFunction(f.fn) for f in functions}
    try:
        for home, names in stood:
            for name, value in names.items():
                if id(value) in instead and home in (tl, tl.standard):
                    setattr(home, name, instead[id(value)])
        yield
    finally:
        for home, names in stood:
            _restore(home, names)


def _restore(home: Any, names: dict[str, Any]) -> None:
    """What is new in a module stays: the interpreter keeps functions that look for it there."""
    for name, value in list(vars(home).items()):
        if name in names and value is not names[name]:
            setattr(home, name, names[name])
        elif name not in names and isinstance(home, type):
            delattr(home, name)
