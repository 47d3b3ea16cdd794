"""A kernel as Triton compiles it, for a GPU that need not be there: five texts, and what the
assembler says of registers and memory.

Triton's wheel brings NVIDIA's assembler and disassembler with it, so neither a driver nor a CUDA
toolkit is needed.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from onelayer.drawing.words import say

WARP = 32
STAGES = ("ttir", "ttgir", "llir", "ptx", "sass")
"""The first four are texts of Triton's; the last is read back from the machine code."""
OPTIONS = ("num_warps", "num_stages", "maxnreg")
_MACHINE_LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", re.MULTILINE)
_INSTRUCTION = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.:]*)", re.MULTILINE)


@dataclass(frozen=True)
class Compiled:
    """texts: stage -> text, all but "sass". Of a thread: registers, and spilled_bytes, what did not
    fit into them. Of a program: shared_bytes, warps. seconds: the compiler's."""

    name: str
    texts: Mapping[str, str]
    registers: int
    spilled_bytes: int
    shared_bytes: int
    warps: int
    seconds: float
    cubin: bytes

    @cached_property
    def sass(self) -> str:
        """The machine code's instructions, a line each."""
        return "\n".join(_MACHINE_LINE.findall(_cuobjdump(self.cubin, "-sass")))

    def text(self, stage: str) -> str:
        return self.sass if stage == "sass" else self.texts[stage]

    def instructions(self, *beginnings: str) -> dict[str, int]:
        """How often each PTX instruction stands in the text that begins with one of these."""
        found = Counter(_INSTRUCTION.findall(self.texts["ptx"]))
        return {one: n for one, n in sorted(found.items()) if one.startswith(beginnings or "")}

    def lines(self, stage: str, *words: str) -> list[str]:
        """The lines of a stage that hold one of the words, without indentation."""
        own = self.text(stage).splitlines()
        return [line.strip() for line in own if any(word in line for word in words)]

    def __repr__(self) -> str:
        return say(
            "{name}: {warps} warps, {registers} registers a thread, {spilled} bytes spilled, "
            "{shared:,} bytes shared",
            name=self.name,
            warps=self.warps,
            registers=self.registers,
            spilled=self.spilled_bytes,
            shared=self.shared_bytes,
        )


def compiled(
    jit: Any, capability: int, *, divisible: Collection[str] = (), fresh: bool = False, **given: Any
) -> Compiled:
    """`jit`, a triton JITFunction, for a GPU of that capability: 75 (T4), 80 (A100), 90 (H100),
    100 (B200).

    given: for each argument its type as text ("*fp32", "i32"), and for each tl.constexpr its value.
    num_warps, num_stages, maxnreg: the compiler's options. divisible: integers
    that are multiples of 16; pointers are taken to be, as torch's allocators make them. fresh:
    compile also where Triton has kept an earlier result. Raises what Triton raises.
    """
    # As every Triton up to 3.9 does, which warns that 3.10 will not: a * b + c is rounded once.
    options = {"enable_fp_fusion": True}
    options |= {name: given.pop(name) for name in OPTIONS if name in given}
    constants = {p.name: given[p.name] for p in jit.params if p.is_constexpr}
    types = {n: "constexpr" if n in constants else given[n] for n in jit.arg_names}
    aligned = [
        (place,)
        for place, name in enumerate(jit.arg_names)
        if types[name].startswith("*") or name in divisible
    ]
    source = ASTSource(jit, types, constants, {at: [["tt.divisibility", 16]] for at in aligned})
    began = time.perf_counter()
    with knobs.compilation.scope():
        knobs.compilation.always_compile = fresh
        made = triton.compile(source, target=GPUTarget("cuda", capability, WARP), options=options)
    seconds = time.perf_counter() - began
    used = _resources(made.asm["cubin"])
    return Compiled(
        name=say("{kernel} for sm_{capability}", kernel=made.metadata.name, capability=capability),
        texts={stage: made.asm[stage] for stage in STAGES[:-1]},
        registers=used["REG"],
        spilled_bytes=used["STACK"] + used["LOCAL"],
        shared_bytes=made.metadata.shared,
        warps=made.metadata.num_warps,
        seconds=seconds,
        cubin=made.asm["cubin"],
    )


def _resources(cubin: bytes) -> dict[str, int]:
    """REG, STACK, SHARED and LOCAL of the one kernel in it."""
    said = _cuobjdump(cubin, "--dump-resource-usage")
    return {name: int(n) for name, n in re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", said)}


def _cuobjdump(cubin: bytes, asked: str) -> str:
    """What NVIDIA's tool says of the machine code."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        call = [knobs.nvidia.cuobjdump.path, asked, file.name]
        return subprocess.run(call, check=True, capture_output=True, text=True).stdout
