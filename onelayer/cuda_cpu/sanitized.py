"""Kernels under ASan or TSan, each call in a process of its own that has the sanitizer loaded."""

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch

from onelayer.cuda_cpu.arena import Arena, extent
from onelayer.cuda_cpu.modes import Mode, compiler
from onelayer.cuda_cpu.runtime_library import LaunchRecord, Report
from onelayer.cuda_cpu.sanitizer_output import sanitizer_faults
from onelayer.cuda_cpu.sentences import Context, faults
from onelayer.cuda_cpu.signature import Signature
from onelayer.cuda_cpu.text import Text
from onelayer.custom_op.cpp_compiler import NoCompiler, run
from onelayer.drawing.words import say

from .kernel_file import Kernels, Tensors, Values
from .outcome import Run, launches_of

_LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}
_FOUND = 86  # the exit code of a sanitizer that stopped the process
_OPTIONS = {
    "ASAN_OPTIONS": f"detect_leaks=0:exitcode={_FOUND}:verify_asan_link_order=0",
    "TSAN_OPTIONS": "exitcode=0:report_thread_leaks=0:report_signal_unsafe=0",
}
CHILD = Path(__file__).with_name("sanitized_child.py")


class Sanitized(Kernels):
    """A library that only a process with its sanitizer can load."""

    def __init__(self, text: Text, mode: Mode, library: Path) -> None:
        super().__init__(text)
        self.mode, self.path = mode, library

    def _run(self, signature: Signature, values: Values, unwritten: Tensors) -> Run:
        arena = Arena([v for v in values if isinstance(v, torch.Tensor)])
        with tempfile.TemporaryDirectory() as name:
            room = Path(name)
            groups = arena.groups()
            memory = b"".join(ctypes.string_at(e.low, e.size) for e in groups)
            (room / "memory").write_bytes(memory)
            (room / "job.json").write_text(json.dumps(self._job(signature, values, arena)))
            said = self._child(room)
            value = room / "value.json"
            if not value.exists():
                return Run.of(None, sanitizer_faults(said, self.text), (), said)
            arena.take((room / "memory").read_bytes())
            records = _records(room / "launches", LaunchRecord)
            reports = _records(room / "reports", Report)
            told = faults(reports, Context(self.text, [], records))
            told += tuple(sanitizer_faults(said, self.text))
            return Run.of(json.loads(value.read_text()), told, launches_of(records), said)

    def _job(self, signature: Signature, values: Values, arena: Arena) -> dict[str, Any]:
        arguments: list[tuple[str, Any]] = []
        for parameter, value in zip(signature.parameters, values, strict=True):
            if isinstance(value, torch.Tensor) and not value.numel():
                arguments.append(("pointer", None))
            elif isinstance(value, torch.Tensor):
                arguments.append(("tensor", arena.offset(extent(value))))
            else:
                arguments.append((parameter.kind, value))
        return {
            "library": str(self.path),
            "function": signature.name,
            "result": signature.result,
            "arguments": arguments,
            "sizes": [e.size for e in arena.groups()],
            "report_bytes": ctypes.sizeof(Report),
            "launch_bytes": ctypes.sizeof(LaunchRecord),
        }

    def _child(self, room: Path) -> str:
        sanitizer = self.mode.sanitize or "address"
        command = [sys.executable, "-I", "-S", str(CHILD), str(room)]
        if sanitizer == "thread":
            command = [*_fixed_addresses(), *command]
        environment = {**os.environ, **_OPTIONS, "LD_PRELOAD": _sanitizer_library(sanitizer)}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace"
        )
        print(done.stdout, end="")
        if done.returncode not in (0, _FOUND):
            told = say("the process under the sanitizer failed:")
            raise RuntimeError(f"{told}\n{done.stderr[-2000:]}")
        return done.stderr


def _records(path: Path, kind: Any) -> list[Any]:
    data = path.read_bytes()
    size = ctypes.sizeof(kind)
    return [kind.from_buffer_copy(data[i : i + size]) for i in range(0, len(data), size)]


@cache
def _sanitizer_library(sanitizer: str) -> str:
    """The path of the sanitizer's library, which has to be loaded before all others."""
    name = _LIBRARIES[sanitizer]
    path = run([*compiler(), f"-print-file-name={name}"]).stdout.strip()
    if not os.path.isabs(path):
        raise NoCompiler(
            say("a sanitizer run needs g++ with {name}; this compiler has none", name=name)
        )
    return os.path.realpath(path)


@cache
def _fixed_addresses() -> tuple[str, ...]:
    """What switches address randomisation off, which TSan cannot take on every kernel."""
    tool = shutil.which("setarch")
    wish = (tool, platform.machine(), "-R") if tool else ()
    return wish if wish and run([*wish, "true"]).returncode == 0 else ()
