"""What runs in the clean room of lab 12: it builds a wheel of texts, and installs it where a fresh
process finds it, and nothing else of the project. None of it is a student's.

It is a build backend by hand, as on the chapter's page: one call of the compiler, and a folder in a
zip. Only its text travels, so it imports nothing beside it.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import importlib
import os
import re
import sys
import tempfile
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onelayer.custom_op.build_cache import cached
from onelayer.custom_op.cpp_compiler import compile_shared, compiler, identity, run
from onelayer.distributed.ranks import RanksFailed, run_ranks

Case = tuple[Tensor, Tensor, Tensor, Tensor]
TAKEN: dict[str, str] = {}
TORCH = Path(torch.__file__).parent
OLDEST = "0x020b000000000000"
HEADERS = ["-std=c++17", "-isystem", str(TORCH / "include")]
FLAGS = [*HEADERS, "-O2", "-Werror=return-type", f"-L{TORCH / 'lib'}", "-ltorch_cpu"]
TIMEOUT_S = 60.0


class NotInstalled(RuntimeError):
    """The installed package does not do what is asked of it; the message begins with the step."""


def take(files: dict[str, str]) -> None:
    """From now on these texts, by their paths, are the project."""
    TAKEN.clear()
    TAKEN.update(files)


def built() -> dict[str, Any]:
    """The wheel's "name", its "files", and the names that its library "asks" for and what it
    "links". Raises CompileError."""
    library = _library()
    return {"name": _wheel().name, "files": sorted(_files())} | _asked(library)


def names_of_oldest() -> list[str]:
    """The C functions that torch's stable headers know for the oldest release."""
    headers = ("torch/csrc/stable/library.h", "torch/csrc/stable/ops.h")
    source = f"#define TORCH_TARGET_VERSION {OLDEST}\n"
    source += "".join(f"#include <{header}>\n" for header in headers)
    told = run([*compiler(), *HEADERS, "-E", "-x", "c++", "-"], given=source).stdout
    return sorted(set(re.findall(r"\b((?:aoti_)?torch_\w+)\s*\(", told)))


def imported() -> list[Any]:
    """[the operator's schema, the shape and dtype of its fake result], after two imports."""
    schema, shape, dtype = _in_a_process(_look, _installed())
    return [schema, list(shape), dtype]


def computed(cases: Sequence[Case]) -> list[Tensor]:
    """What the operator answers to each (x, w, b, t)."""
    answers: list[Tensor] = _in_a_process(_compute, _installed(), cases)
    return answers


def load() -> None:
    """Imports the package into this very process, which is to be a room of the jail: for a race."""
    _import_from(_installed())


def raced(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    """One call of the operator that was loaded."""
    answer: Tensor = _operator()(x, w, b, t)
    return answer


def _in_a_process(function: Callable[..., Any], *args: Any) -> Any:
    """In one that has imported torch and nothing of ours. Raises NotInstalled."""
    try:
        (got,) = run_ranks(1, function, *args, backend="", timeout_s=TIMEOUT_S, show=False)
    except RanksFailed as ended:
        raise NotInstalled(f"ended: {ended}") from None
    if isinstance(got, str):
        raise NotInstalled(got)
    return got


def _look(site: str) -> Any:
    """(schema, shape, dtype), or "step: why it failed". Imports again, as a notebook does."""
    step = "import"
    try:
        _import_from(site)
        step = "registers"
        op = _operator()
        schema = str(op.default._schema)
        step = "again"
        del sys.modules["headloss"]
        _import_from(site)
        step = "fake"
        x, w, b = (torch.empty(size, device="meta") for size in ((7, 5), (11, 5), (11,)))
        y = op(x, w, b, torch.empty(7, dtype=torch.int64, device="meta"))
        return schema, tuple(y.shape), y.dtype
    except Exception as error:
        return f"{step}: {type(error).__name__}: {str(error).splitlines()[0][:200]}"


def _compute(site: str, cases: Sequence[Case]) -> Any:
    try:
        _import_from(site)
        torch.set_deterministic_debug_mode("warn")  # memory that nobody wrote is NaN then
        return [_operator()(*case) for case in cases]
    except Exception as error:
        return f"call: {type(error).__name__}: {str(error).splitlines()[0][:200]}"


def _operator() -> Any:
    """By the module's name: what travels by cloudpickle may not name torch.ops, which does not."""
    return importlib.import_module("torch").ops.headloss.head_loss


def _import_from(site: str) -> None:
    """As another program does, which was not started in the project's folder."""
    os.chdir("/")
    if site not in sys.path:
        sys.path.insert(0, site)
    importlib.invalidate_caches()
    importlib.import_module("headloss")


@functools.cache
def _place() -> Path:
    return Path(tempfile.mkdtemp(prefix="headloss-"))


def _installed() -> str:
    """The folder in which the wheel was unpacked."""
    site = tempfile.mkdtemp(prefix="site-", dir=_place())
    zipfile.ZipFile(_wheel()).extractall(site)
    return site


def _library() -> Path:
    source = TAKEN["csrc/headloss.cpp"]
    end = ["-Wl,--no-undefined"] if sys.platform == "linux" else []

    def build(out: Path) -> None:
        compile_shared(source, out, name="headloss.cpp", flags=[*FLAGS, *end])

    return cached([source, *FLAGS, *end, identity(), torch.__version__], ".so", build)


def _asked(library: Path) -> dict[str, list[str]]:
    nm = "-u" if sys.platform == "darwin" else "-uD"
    told = [line.split() for line in run(["nm", nm, library]).stdout.splitlines()]
    asks = sorted({words[-1].partition("@")[0] for words in told if words})
    if sys.platform == "darwin":
        return {"asks": [name.removeprefix("_") for name in asks], "links": []}
    needed = re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-d", library]).stdout)
    return {"asks": asks, "links": sorted(needed)}


def _files() -> dict[str, bytes]:
    """What goes into the wheel, before its RECORD."""
    told = tomllib.loads(TAKEN["pyproject.toml"])
    project = told["project"]
    data = told.get("tool", {}).get("setuptools", {}).get("package-data", {})
    patterns = [*data.get("headloss", []), *data.get("*", [])]
    files = {"headloss/__init__.py": TAKEN["headloss/__init__.py"].encode()}
    if any(fnmatch.fnmatch("_C.so", pattern) for pattern in patterns):
        files["headloss/_C.so"] = _library().read_bytes()
    info = f"{project['name']}-{project['version']}.dist-info"
    head = [f"Name: {project['name']}", f"Version: {project['version']}"]
    head += [f"Requires-Python: {project['requires-python']}"]
    head += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    files[f"{info}/METADATA"] = "\n".join(["Metadata-Version: 2.4", *head, ""]).encode()
    files[f"{info}/WHEEL"] = TAKEN["WHEEL"].encode()
    return files


def _wheel() -> Path:
    """The wheel, written as its name says."""
    files = _files()
    info = next(path for path in files if path.endswith("/WHEEL")).removesuffix("/WHEEL")
    record = "".join(f"{path},{_hash(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    tags = [tag.split("-") for tag in re.findall(r"(?m)^Tag: (\S+)$", TAKEN["WHEEL"])]
    parts = [".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True)]
    place = _place() / "-".join([info.removesuffix(".dist-info"), *parts])
    wheel = place.with_name(f"{place.name}.whl")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as made:
        for path, data in files.items():
            made.writestr(path, data)
    return wheel


def _hash(data: bytes) -> str:
    return "sha256=" + urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
