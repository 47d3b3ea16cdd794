"""What Python passes to a kernel's host function, checked against the function's own parameters."""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from onelayer.cuda_cpu.sanitized_child import TYPES
from onelayer.cuda_cpu.signature import Parameter, Signature
from onelayer.drawing.words import say

POINTEES = {
    "float": (torch.float32,),
    "double": (torch.float64,),
    "int": (torch.int32,),
    "int32_t": (torch.int32,),
    "unsigned": (torch.uint32, torch.int32),
    "unsigned int": (torch.uint32, torch.int32),
    "uint32_t": (torch.uint32, torch.int32),
    "long": (torch.int64,),
    "long long": (torch.int64,),
    "int64_t": (torch.int64,),
    "unsigned long long": (torch.uint64, torch.int64),
    "uint64_t": (torch.uint64, torch.int64),
    "__half": (torch.float16,),
    "half": (torch.float16,),
    "__nv_bfloat16": (torch.bfloat16,),
    "nv_bfloat16": (torch.bfloat16,),
    "bool": (torch.bool,),
    "char": (torch.int8, torch.uint8),
    "int8_t": (torch.int8,),
    "unsigned char": (torch.uint8,),
    "uint8_t": (torch.uint8,),
}


def prepare(
    signature: Signature, given: Sequence[object], device: str
) -> list[torch.Tensor | int | float | None]:
    """Return the arguments as they are, or raise TypeError with the name of the wrong one."""
    names = ", ".join(p.name for p in signature.parameters)
    if len(given) != len(signature.parameters):
        raise TypeError(
            say(
                "{function}({names}) takes {n} arguments, and {came} came",
                function=signature.name,
                names=names,
                n=len(signature.parameters),
                came=len(given),
            )
        )
    pairs = zip(signature.parameters, given, strict=True)
    return [_fitting(signature.name, p, value, device) for p, value in pairs]


def _fitting(
    function: str, parameter: Parameter, value: object, device: str
) -> torch.Tensor | int | float | None:
    where = f"{function}: {parameter.name}"
    if parameter.kind == "pointer":
        return _tensor(where, parameter, value, device)
    if parameter.kind == "stream" and value is None:
        return None
    if isinstance(value, torch.Tensor) or not isinstance(value, (int, float)):
        raise TypeError(
            say(
                "{where} is a number ({type}), not {kind}",
                where=where,
                type=parameter.kind,
                kind=type(value).__name__,
            )
        )
    if parameter.kind in ("integer", "bool", "stream") and isinstance(value, float):
        raise TypeError(say("{where} is an integer, not {value}", where=where, value=value))
    return value


def _tensor(where: str, parameter: Parameter, value: object, device: str) -> torch.Tensor | None:
    if value is None:
        return None  # a null pointer
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            say(
                "{where} is a pointer: pass a tensor, not {kind}",
                where=where,
                kind=type(value).__name__,
            )
        )
    wished = POINTEES.get(parameter.of, (value.dtype,))
    if value.dtype not in wished:
        raise TypeError(
            say(
                "{where} points to {of} ({wished}), and the tensor is {dtype}",
                where=where,
                of=parameter.of,
                wished=wished[0],
                dtype=value.dtype,
            )
        )
    if value.device.type != device:
        raise TypeError(
            say(
                "{where} must be a tensor on {device}, not on {place}",
                where=where,
                device=device,
                place=value.device,
            )
        )
    return value.detach()


def invoke(
    library: ctypes.CDLL,
    signature: Signature,
    values: Sequence[object],
    addresses: Sequence[int | None],
) -> int | float | bool | None:
    """Return what the function returns; `addresses`: of the values that are tensors."""
    function = library[signature.name]
    function.restype = TYPES.get(signature.result, ctypes.c_int)
    given = zip(signature.parameters, values, addresses, strict=True)
    value: int | float | bool | None = function(*(_as_ctypes(p, v, a) for p, v, a in given))
    return value


def _as_ctypes(parameter: Parameter, value: object, address: int | None) -> Any:
    if parameter.kind in ("pointer", "stream"):
        return ctypes.c_void_p(address if address is not None else value)  # type: ignore[arg-type]
    if parameter.kind == "float":
        return ctypes.c_float(float(value))  # type: ignore[arg-type]
    if parameter.kind == "double":
        return ctypes.c_double(float(value))  # type: ignore[arg-type]
    return ctypes.c_int64(int(value))  # type: ignore[call-overload]
