"""The mocked library, built on first use by this machine's g++ for the torch that is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import sys
import sysconfig
from functools import cache
from pathlib import Path

from onelayer.custom_op import build_cache, cpp_compiler
from onelayer.drawing.words import say
from onelayer.mock_cuda.stubs import assembly, unmocked_names

NATIVE = Path(__file__).parent / "native"
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-DNDEBUG", "-fvisibility=default", "-fno-gnu-unique")
NAME = "libcuda.so.1"
"""Also the driver's name: whoever looks for the driver by it finds this library loaded already."""
ELSEWHERE = " Elsewhere the chapters show recordings that a mocked device made."


class NoMock(RuntimeError):
    """There is no mocked device here; the message says what is missing, and what to do."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the sentence, and no lines of ours."""
        return [f"NoMock: {self}"]


@cache
def library() -> Path:
    """The library, in a folder of its own under the names by which programs ask for it.

    Raises NoMock where torch is no CUDA build, or the machine no Linux on x86_64 with g++;
    CompileError where the sources do not compile, which is our fault.
    """
    packages = _require()
    built = build_cache.cached(_parts(packages), ".so", lambda out: _build(packages, out))
    folder = built.with_suffix(".mock")
    folder.mkdir(exist_ok=True)
    for name in (NAME, "libcuda.so", "libnvidia-ml.so.1"):
        link = folder / name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(built)
    return folder / NAME


def _require() -> Path:
    """The folder of NVIDIA's wheels that torch's CUDA build brought. Raises NoMock."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise NoMock(say("The mocked device needs Linux on x86_64.") + say(ELSEWHERE))
    packages = nvidia_packages()
    if packages is None:
        lacking = say(
            "The mocked device needs a CUDA build of torch, and this one has none of CUDA's "
            'headers: pip install "torch==={version}" (5 GB).',
            version=_torch_version(),
        )
        raise NoMock(lacking + say(ELSEWHERE))
    try:
        cpp_compiler.compiler()
    except cpp_compiler.NoCompiler as error:
        raise NoMock(str(error)) from None
    return packages


def nvidia_packages() -> Path | None:
    """Where the wheels of NVIDIA lie whose headers a CUDA build of torch brings, or None."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        if (found := Path(place)) and _headers(found):
            return found
    return None


def _headers(packages: Path) -> list[Path]:
    return [header.parent for header in sorted(packages.glob("*/include/cuda_runtime_api.h"))]


def _torch_version() -> str:
    return importlib.metadata.version("torch").partition("+")[0]


def _parts(packages: Path) -> list[str | bytes]:
    """All that decides what the library is."""
    sources = sorted(path for path in NATIVE.rglob("*") if path.is_file())
    versions = [importlib.metadata.version("torch"), sys.version, str(packages)]
    mine = [Path(__file__), Path(__file__).with_name("stubs.py")]
    texts = [path.read_bytes() for path in (*sources, *mine)]
    return [*versions, cpp_compiler.identity(), *FLAGS, *texts]


def _build(packages: Path, out: Path) -> None:
    """Writes the library: our sources in one unit, the reader of Python's lines, the stubs."""
    headers = _headers(packages)[0]
    nccl = packages / "nccl" / "include"
    places = (NATIVE, NATIVE / "stand_in", headers, nccl, out.parent)
    includes = [f"-I{place}" for place in places]
    stubs = out.with_suffix(".s")
    stubs.write_text(assembly(unmocked_names(packages, headers / "cuda.h")))
    lines = out.with_suffix(".o")
    _compile("-x", "c", "-O1", "-fPIC", *_python(), "-c", NATIVE / "python_line.c", "-o", lines)
    (out.parent / "callback_names.h").write_text(_callback_names(headers))
    layouts = _record_layouts((headers / "cupti_activity.h").read_text())
    parts = [NATIVE / "all.cpp", lines, stubs]
    defines = [*layouts, _table_of_errors(packages)]
    _compile(*FLAGS, *includes, *defines, "-shared", f"-Wl,-soname,{NAME}", *parts, "-o", out)


def _python() -> list[str]:
    """What the reader of Python's frames needs; nothing where Python came without its headers."""
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "internal" / "pycore_frame.h").exists():
        return []
    return ["-DONELAYER_PYTHON", "-DNDEBUG", f"-I{headers}"]


def _record_layouts(header: str) -> list[str]:
    """The newest layout of each of CUPTI's records, as the header's version has it."""
    defines = []
    for name, word in (("Kernel", "KERNEL"), ("Memcpy", "MEMCPY"), ("Memset", "MEMSET")):
        numbers = [int(n) for n in re.findall(rf"}} CUpti_Activity{name}(\d+);", header)]
        defines.append(f"-DONELAYER_{word}_RECORD=CUpti_Activity{name}{max(numbers)}")
    return defines


def _table_of_errors(packages: Path) -> str:
    """What the library is called whose names and texts of errors are asked for."""
    return f'-DONELAYER_CUDART="{next(packages.glob("*/lib/libcudart.so.*")).name}"'


def _callback_names(headers: Path) -> str:
    """C++ that gives the name of each function of the runtime and the driver by CUPTI's number."""
    return "\n".join(_names(headers / f"cupti_{api}_cbid.h", api) for api in ("runtime", "driver"))


def _names(header: Path, api: str) -> str:
    numbered = re.findall(r"TRACE_CBID_(\w+?)(?:_v\d+)?\s*=\s*(\d+)\s*,", header.read_text())
    cases = [f'        case {number}: return "{name}";' for name, number in numbered]
    head = f"static const char* {api}_name(uint32_t cbid) {{\n    switch (cbid) {{"
    return "\n".join([head, *cases, "        default: return nullptr;\n    }\n}"])


def _compile(*words: str | Path) -> None:
    done = cpp_compiler.run([*cpp_compiler.compiler(), *words])
    if done.returncode:
        told = say("The mocked device does not compile.")
        raise cpp_compiler.CompileError(f"{told}\n{done.stderr}")
