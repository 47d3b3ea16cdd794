"""`load_cpp`: from a string of C++ to an operator of torch's, in about a second."""

import ctypes
import re
import sys
import sysconfig
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

from onelayer.drawing.words import say

from .build_cache import cached
from .cpp_compiler import CompileError, compile_shared, identity, preprocessed_lines

_PRELUDE = Path(__file__).with_name("cpp_op.h")
_TORCH = Path(torch.__file__).parent
# The oldest torch that the course supports: a source that uses what came later does not compile.
_TARGET = "0x020b000000000000"
_OPERATORS = "torch/csrc/stable/"


class CppOps:
    """What a source brought: its operators as attributes, its `extern "C"` functions in `library`.

    namespace: where the operators are, `torch.ops.<namespace>`; "" for a source without any.
    build_s: seconds in the compiler, 0 where the build was there already.
    """

    def __init__(self, library: ctypes.CDLL, namespace: str, build_s: float) -> None:
        self.library, self.namespace, self.build_s = library, namespace, build_s

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(getattr(torch.ops, self.namespace), name)
        except AttributeError:
            defined = ", ".join(self.names()) or say("none")
            raise AttributeError(
                say("no operator {name!r} here; defined: {defined}", name=name, defined=defined)
            ) from None

    def names(self) -> list[str]:
        """The names of its operators."""
        prefix = f"{self.namespace}::"
        known = torch._C._dispatch_get_all_op_names()
        return sorted({n.removeprefix(prefix).split(".")[0] for n in known if n.startswith(prefix)})

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.names()})

    def __repr__(self) -> str:
        built = say("built in {s:.1f} s", s=self.build_s) if self.build_s else say("built before")
        return "\n".join([f"{self.namespace or say('no operator')}, {built}", *self._schemas()])

    def _schemas(self) -> list[str]:
        packets = [getattr(self, name) for name in self.names()]
        return [str(getattr(packet, o)._schema) for packet in packets for o in packet.overloads()]


def load_cpp(source: str, *, name: str = "op.cpp", flags: Sequence[str] = ("-O2",)) -> CppOps:
    """The operators and functions of a C++ source, compiled, loaded and registered.

        ops = onelayer.load_cpp(source)     # with STABLE_TORCH_LIBRARY(head, m) { ... }
        ops.linear(x, w, b)                 # torch.ops.head.linear

    A build is kept by the content of its source, so the second time costs milliseconds. Each call
    registers anew: the first `head` of a process is `torch.ops.head`, the next `head_2`, without
    the Python parts (fake, autograd) of the one before; so a cell can run again. Headers
    are those of torch's stable ABI, for torch 2.11 and later, in C++17.

    name: what the source is called in messages. flags: for the compiler, after our own.
    Raises CompileError, which shows lines of the source alone; RuntimeError where there is no
    compiler, or where torch refuses what the source registers.
    """
    started = time.perf_counter()
    ran: list[str] = []

    def build(out: Path) -> None:
        ran.append(name)
        compile_shared(source, out, name=name, flags=[*_flags(source), *flags])

    parts = [source, name, *flags, *_flags(source), identity(), _prelude(), torch.__version__]
    path = cached(parts, ".so", build)
    build_s = time.perf_counter() - started if ran else 0.0
    library = _loaded(path, parts, build)
    return CppOps(library, _registered(library, source, name), build_s)


def lines_read(source: str) -> int:
    """Lines of code, comments gone, that the compiler reads for a source with torch's headers.

    In C++17, or in C++20 where this torch's full headers ask for it: the standard library's own
    headers are longer there.
    """
    python = sysconfig.get_paths()["include"]
    include = [_TORCH / "include", _TORCH / "include/torch/csrc/api/include", Path(python)]
    standard = "-std=c++20" if torch.__version__ >= "2.14" else "-std=c++17"
    return preprocessed_lines(source, [standard, *(f"-isystem{place}" for place in include)])


def _flags(source: str) -> list[str]:
    common = ["-std=c++17", "-fno-gnu-unique", "-Werror=return-type"]
    if sys.platform == "linux":
        common.append("-Wl,--no-undefined")  # told now, and not when the library is loaded
    if _OPERATORS not in source and "torch/headeronly/" not in source:
        return common
    headers = [f"-DTORCH_TARGET_VERSION={_TARGET}", "-isystem", str(_TORCH / "include")]
    libraries = [f"-L{_TORCH / 'lib'}", "-ltorch_cpu", "-lc10"]
    prelude = ["-include", str(_PRELUDE)] if _OPERATORS in source else []
    return [*common, *headers, *prelude, *libraries]


@cache
def _prelude() -> str:
    return _PRELUDE.read_text(encoding="utf-8")


def _loaded(path: Path, parts: Sequence[str], build: Any) -> ctypes.CDLL:
    """The library; a kept file that cannot be loaded is built again, once."""
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)
        return ctypes.CDLL(str(cached(parts, ".so", build)))


# The stable ABI's m.def of torch 2.11 prints what is wrong with a schema, and goes on without it.
_SCHEMAS_GO_UNCHECKED = torch.__version__.startswith("2.11.")
_taken: dict[str, int] = {}


def _registered(library: ctypes.CDLL, source: str, name: str) -> str:
    """Registers, and returns the namespace with the library's operators; "" where it has none."""
    if not hasattr(library, "onelayer_register"):
        return ""
    library.onelayer_namespaces.restype = library.onelayer_register.restype = ctypes.c_char_p
    namespaces = library.onelayer_namespaces().decode().split()
    if len(namespaces) > 1:
        raise RuntimeError(
            say(
                "{name} defines the namespaces {namespaces}: one to a source.",
                name=name,
                namespaces=namespaces,
            )
        )
    own = namespaces[0] if namespaces else ""
    count = _taken.get(own, 0) + 1
    suffix = f"_{count}" if count > 1 else ""
    if _SCHEMAS_GO_UNCHECKED and (refusal := _refused(source)):
        raise RuntimeError(f"{name}: {refusal}")
    wrong = library.onelayer_register(suffix.encode())
    if wrong is not None:
        raise RuntimeError(f"{name}: {_refused(source) or wrong.decode(errors='replace')}")
    _taken[own] = count
    return own + suffix


def _refused(source: str) -> str:
    """Why torch does not take a schema of the source; "" where it takes all."""
    for at in re.finditer(r'\.def\(\s*((?:"[^"\n]*"\s*)+)', source):
        schema = "".join(re.findall(r'"([^"\n]*)"', at[1]))
        try:
            torch._C.parse_schema(schema)
        except RuntimeError as error:
            return say("line {line}", line=source[: at.start()].count("\n") + 1) + f": {error}"
    return ""


__all__ = ["CompileError", "CppOps", "lines_read", "load_cpp"]
