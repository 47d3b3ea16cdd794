"""PTX, read: how wide the accesses are, what is masked, and who multiplies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from autograder.judge import Draw, Student, Wrong, describe, expect_equal, expect_kind, within

from . import lab

Facts = dict[str, Any]
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100")
NAMES = ("loads", "stores", "masked", "mma", "registers")
_FORM = f"a dict with {', '.join(map(repr, NAMES))}"
_ACCESS = re.compile(r"^(@!?%\w+\s+)?(ld|st)\.([\w.:]+)")
_ANYWHERE = re.compile(r"(@!?%\w+\s+)?\b(ld|st)\.([\w.:]+)")
_HELD = {"%rs": 2, "%r": 4, "%f": 4, "%rd": 8, "%fd": 8}
"""The bytes of a register, by its kind."""


@lab.question(
    "read_ptx",
    points=4,
    minutes=8,
    difficulty=3,
    hints=(
        "Print the lines with `.global` in them: which are instructions, and what do .v4 and .b32 "
        "say together?",
        "An instruction is ld.global or st.global, perhaps behind a predicate @%p1, with modifiers "
        "between dots: .v2 and .v4 are the number of values, .b16 to .b64 (or .f, .u, .s) their "
        "bits. Comments are none. A tensor core is asked by mma.sync, wgmma.mma_async or "
        "tcgen05.mma; fence, commit and ld beside them multiply nothing.",
        r're.match(r"(@!?%\w+\s+)?(ld|st)\.global\.", line), then the parts of its first word',
    ),
)
def read_ptx(student: Student, draw: Draw) -> None:
    """Facts about a kernel from its PTX.

    ptx (text) -> {"loads": {bytes of one access: how many ld.global}, "stores": the same of
    st.global, "masked": how many of both have a predicate, "mma": how many instructions for the
    tensor cores, "registers": how many 32-bit registers %r are declared}.
    """
    texts = [_edited(draw, _compiled(target), fixed) for target in TARGETS for fixed in (True,)]
    texts += [
        _edited(draw, _compiled(draw.choice(TARGETS)), False) for _ in draw.cases(3)
    ]  # fmt: skip
    for ptx in texts:
        _expect_facts(student.call("read_ptx", ptx), facts(ptx), ptx)


def _expect_facts(got: Any, want: Facts, ptx: str) -> None:
    got = expect_kind(got, dict, _FORM)
    if set(got) != set(want):
        raise Wrong(expected=_FORM, got=describe(sorted(map(str, got))))
    for name in NAMES:
        with within(f"{name},"):
            expect_equal(got[name], want[name], why=_why(ptx, name, got, want))


def _why(ptx: str, name: str, found: Facts, right: Facts) -> str:
    """The sentence of the one misreading that finds the same in this text, all of it; or what is
    true of any other."""
    got, want = found[name], right[name]
    many = name in ("loads", "stores")
    if many and not isinstance(got, dict):
        return "loads and stores are dicts: for each width in bytes how many accesses have it."
    if many and not all(isinstance(width, int) for width in got):
        return "A width in bytes is a number: the keys of loads and stores are ints."
    if not many and not isinstance(got, int):
        return "masked, mma and registers are numbers, each an int."
    same = [sentence for sentence, reader in _WRONG.values() if reader(ptx) == found]
    if len(same) == 1:
        return same[0]
    for width in sorted({*got, *want}) if many else ():
        if (mine := got.get(width, 0)) != (there := want.get(width, 0)):
            return (
                f"Accesses that are {width} bytes wide: {there} in the text, {mine} counted. What "
                "stands behind // is none; with a predicate or modifiers it is one too."
            )
    return {"registers": _DECLARED, "mma": _MULTIPLY, "masked": _GUARDED}.get(name, "")


_GUARDED = (
    "A load from global memory or a store to it has a predicate where its line begins with @%p1 or "
    "@!%p1, of any number: each of them counts, and no other line does."
)


_DECLARED = (
    "The number of registers %r stands between < and > in the line that declares them, .reg .b32. "
    "What the instructions name is not asked."
)


_MULTIPLY = (
    "On tensor cores multiply mma.sync, wgmma.mma_async and tcgen05.mma, with a predicate or "
    "without. Another word that begins or ends alike does not, and a comment does not."
)


@cache
def _compiled(target: str) -> str:
    return resources.files(__package__).joinpath("ptx", f"{target}.ptx").read_text("utf-8")


_MMA = (
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 \t{ %r1, %r2, %r3, %r4 }, { %r5, %r6 }, "
    "{ %r7 }, { %r1, %r2, %r3, %r4 };"
)
_FIXED = (
    "\t@%p1 ld.global.L1::evict_last.v2.b32 \t{ %r1, %r2 }, [ %rd1 + 0 ];",
    "\tld.global.b16 \t{ %rs1 }, [ %rd1 + 0 ];",
    "\tld.global.nc.v4.f32 \t{ %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];",
    "\t@!%p1 st.global.v2.b64 \t[ %rd1 + 0 ], { %rd2, %rd3 };",
    "\t@%p2 st.global.u8 \t[ %rd1 + 0 ], { %rs1 };",
    "\tst.global.v4.b16 \t[ %rd1 + 0 ], { %rs1, %rs2, %rs3, %rs4 };",
    "\t@%p3 ld.shared.v4.b32 \t{ %r1, %r2, %r3, %r4 }, [ %r5 + 0 ];",
    "\t@%p3 st.shared.b32 \t[ %r5 + 0 ], { %r1 };",
    f"\t{_MMA}",
    f"\t@%p1 {_MMA}",
    "\twgmma.fence.sync.aligned;",
    "\tst.global.b32 \t[ %rd1 + 0 ], { %r1 }; // all lanes: @%p1 guards the next one",
    "\t// @%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];",
    "\t// mma.sync.aligned.m16n8k16",
    "// st.global.b32 [ %rd5 + 0 ], { %r28 };",
    "\tadd.s32 \t%r1, %r2, 1; // was: ld.global.b32 { %r1 }, [ %rd1 + 0 ];",
    "\t.reg .f32 \t%f<27>;",
    "\t@%p4 bra \t$L__BB0_2;",
    "\tfma.rn.f32 \t%r1, %r2, %r3, %r4;",
)


def _edited(draw: Draw, ptx: str, fixed: bool) -> str:
    """Another number of registers, and some more instructions in the body: those that tell readers
    apart, each at least once where it is `fixed`."""
    lines = ptx.splitlines()
    added = list(_FIXED) if fixed else []
    added += [_drawn(draw) for _ in range(draw.integer(3, 8))]
    first = next(k for k, line in enumerate(lines) if "ld.param" in line)
    for line in added:
        lines.insert(draw.integer(first, len(lines) - 2), line)
    text = "\n".join(lines)
    return re.sub(r"%r<\d+>", f"%r<{draw.integer(60, 255)}>", text) + "\n"


def _drawn(draw: Draw) -> str:
    predicate = draw.choice(("", "@%p1 ", "@!%p2 "))
    width = draw.choice(("", ".v2", ".v4"))
    of = draw.choice((".b16", ".b32", ".f32", ".u32", ".s32", ".b64"))
    where = draw.choice(("global", "global", "shared"))
    kind = {"16": "%rs", "32": "%r", "64": "%rd"}[of[-2:]]
    held = ", ".join(f"{kind}{k}" for k in range(2, 2 + int(width[2:] or 1)))
    if draw.choice((True, False)):
        return f"\t{predicate}ld.{where}{width}{of} \t{{ {held} }}, [ %rd1 + 0 ];"
    return f"\t{predicate}st.{where}{width}{of} \t[ %rd1 + 0 ], {{ {held} }};"


@dataclass(frozen=True)
class Reader:
    """The facts of a text, and the ways to misread it."""

    vectors: Sequence[str] = ("v2", "v4")
    bits: int = 8  # of a unit of the widths
    value_bits: int = 0  # of each value; 0: as its type says
    types: str = "bfus"
    comments: bool = False
    spaces: Sequence[str] = ("global",)
    predicated: bool = True  # accesses behind a predicate are found
    negated: bool = True
    negated_found: bool = True  # accesses behind @! are found
    each_value: bool = False  # of a vector counts as an access
    exchanged: bool = False
    masked: Sequence[str] = ("ld", "st")
    all_masked: bool = False
    masked_elsewhere: bool = False  # a predicate counts of any load or store
    named_anywhere: bool = False  # %p in an access is taken for a predicate of it
    anywhere: bool = False  # an access is looked for in the whole line, behind // too
    by_register: bool = False  # the registers of an access say how wide it is
    remarked: bool = True  # what stands before a // in its line counts
    registers: str = r"^\.reg\s+\.b32\s+%r<(\d+)>"
    sum_registers: bool = False
    tensor_cores: Sequence[str] = ("mma.sync", "wgmma.mma_async", "tcgen05.mma")
    every_mma: bool = False
    guarded_mma: bool = True  # what multiplies behind a predicate is found
    modifiers: bool = True
    one_less: bool = False

    def __call__(self, ptx: str) -> Facts:
        return deepcopy(_kept(self, ptx))

    def read(self, ptx: str) -> Facts:
        loads: dict[int, int] = {}
        stores: dict[int, int] = {}
        masked = mma = registers = 0
        for line in ptx.splitlines():
            code = line.strip() if not self.comments else line.strip().removeprefix("//").strip()
            mma += self._multiplies(code)
            if declared := re.match(self.registers, code):
                registers = int(declared[1]) - self.one_less + registers * self.sum_registers
            if "//" in code and not self.remarked:
                continue
            masked += self.all_masked and code.startswith("@")
            access = _ANYWHERE.search(code) if self.anywhere else _ACCESS.match(code)
            if not access or not self._counts(access[3]) or not self._finds(access[1] or ""):
                masked += self.masked_elsewhere and bool(access and access[1])
                continue
            of = loads if (access[2] == "ld") != self.exchanged else stores
            width = _of_registers(code) if self.by_register else self._width(access[3])
            many = _values(access[3]) if self.each_value else 1
            of[width] = of.get(width, 0) + many
            predicate = access[1] or "%p" * (self.named_anywhere and "%p" in code)
            counts = access[2] in self.masked and not self.all_masked
            masked += counts and bool(predicate) and (self.negated or "!" not in predicate)
        return {"loads": loads, "stores": stores, "masked": masked, "mma": mma,
                "registers": registers}  # fmt: skip

    def _finds(self, predicate: str) -> bool:
        return not predicate or (self.predicated and (self.negated_found or "!" not in predicate))

    def _counts(self, words: str) -> bool:
        parts = words.split(".")
        if not self.modifiers and not re.fullmatch(r"v[24]|[bfus]\d+", parts[1]):
            return False
        return parts[-1][0] in self.types and (not self.spaces or parts[0] in self.spaces)

    def _width(self, words: str) -> int:
        parts = words.split(".")
        bits = self.value_bits or int(parts[-1][1:])
        many = next((int(part[1]) for part in parts if part in self.vectors), 1)
        return bits * many // self.bits

    def _multiplies(self, code: str) -> bool:
        if self.every_mma:
            return bool(re.match(r"(@!?%\w+\s+)?(mma|wgmma|tcgen05)\.", code))
        if not self.tensor_cores:
            return "mma" in code
        if code.startswith("@") and not self.guarded_mma:
            return False
        word = code.split(maxsplit=1)[-1] if code.startswith("@") else code
        return word.startswith(tuple(f"{name}." for name in self.tensor_cores))


def _values(words: str) -> int:
    """How many values an access has."""
    return next((int(part[1]) for part in words.split(".") if part in ("v2", "v4")), 1)


def _of_registers(code: str) -> int:
    """The bytes of all registers between the braces."""
    held = re.search(r"\{([^}]*)\}", code)
    return sum(_HELD.get(kind, 0) for kind in re.findall(r"%[a-z]+", held[1])) if held else 0


@lru_cache(maxsize=1024)
def _kept(reader: Reader, ptx: str) -> Facts:
    """A diagnosis asks every reader of the same texts, many times."""
    return reader.read(ptx)


facts = Reader()
_WRONG = {
    "vectors_ignored": (
        "The widths are those of one value. .v4.b32 moves four of them at once: 16 bytes.",
        Reader(vectors=()),
    ),
    "bits": (
        "These are bits. An access of .v4.b32 is 16 bytes wide.",
        Reader(bits=1),
    ),
    "comments_count": (
        "Lines behind // are counted. The assembler does not see them.",
        Reader(comments=True),
    ),
    "remarks_count": (
        "What stands behind // is counted, in a line of its own or not. The assembler does not see "
        "it.",
        Reader(comments=True, anywhere=True),
    ),
    "width_of_registers": (
        "The widths are those of the registers. A value of 8 bits is held in a register of 16: "
        "how wide the access is, its type says.",
        Reader(by_register=True),
    ),
    "shared_too": (
        "ld.shared and st.shared are counted too. They go to shared memory.",
        Reader(spaces=("global", "shared")),
    ),
    "negated_predicates": (
        "@!%p1 is a predicate as well: the lane takes part where it is false.",
        Reader(negated=False),
    ),
    "negated_missed": (
        "Accesses behind @!%p are left out. It stands in front of the instruction as @%p does.",
        Reader(negated_found=False),
    ),
    "each_value": (
        "Each value of a vector is counted as an access. .v4.b32 is one access, 16 bytes wide.",
        Reader(vectors=(), each_value=True),
    ),
    "named_anywhere": (
        "An access is taken for masked where its line names a %p anywhere. A predicate stands in "
        "front of the instruction, with an @.",
        Reader(named_anywhere=True),
    ),
    "remarked_missed": (
        "An instruction with a comment behind it is left out. Only what follows // is none.",
        Reader(remarked=False),
    ),
    "ampere_alone": (
        "Tensor cores are looked for as mma.sync alone. On sm_90a it is wgmma.mma_async, "
        "on sm_100a tcgen05.mma.",
        Reader(tensor_cores=("mma.sync",)),
    ),
    "fences_multiply": (
        "Every instruction of the tensor cores is counted. A fence, a commit and a load of theirs "
        "multiply nothing.",
        Reader(every_mma=True),
    ),
    "modifiers_missed": (
        "An access with a modifier, such as ld.global.nc or ld.global.L1::evict_last, is left out.",
        Reader(modifiers=False),
    ),
    "every_space": (
        "Loads of parameters and of shared memory are counted too. Asked for are ld.global and "
        "st.global.",
        Reader(spaces=()),
    ),
    "values": (
        "The keys are numbers of values. .v4.b32 are 4 values of 4 bytes each: 16.",
        Reader(value_bits=8),
    ),
    "values_of_4_bytes": (
        "Each value is taken for 4 bytes. .b16 has 2 and .b64 has 8.",
        Reader(value_bits=32),
    ),
    "pairs_missed": (
        "The widths of .v2 are those of one value: they are two.",
        Reader(vectors=("v4",)),
    ),
    "fours_missed": (
        "The widths of .v4 are those of one value: they are four.",
        Reader(vectors=("v2",)),
    ),
    "only_b": (
        "Accesses of .f32, .u8 and .s32 are left out: a type need not begin with b.",
        Reader(types="b"),
    ),
    "predicated_missed": (
        "Accesses behind a predicate are left out. @%p1 stands in front of the instruction.",
        Reader(predicated=False),
    ),
    "loads_for_stores": (
        "Loads and stores are exchanged: ld is a load, st is a store.",
        Reader(exchanged=True),
    ),
    "masked_loads": (
        "Only loads behind a predicate are counted. Stores have one too.",
        Reader(masked=("ld",)),
    ),
    "masked_stores": (
        "Only stores behind a predicate are counted. Loads have one too.",
        Reader(masked=("st",)),
    ),
    "every_predicate": (
        "Every instruction behind a predicate is counted. Asked for are those that load from "
        "global memory or store to it.",
        Reader(all_masked=True),
    ),
    "masked_in_shared": (
        "Loads and stores of shared memory behind a predicate are counted too. Asked for are those "
        "of global memory.",
        Reader(masked_elsewhere=True),
    ),
    "blackwell_missed": (
        "tcgen05.mma is left out, with which sm_100a multiplies.",
        Reader(tensor_cores=("mma.sync", "wgmma.mma_async")),
    ),
    "hopper_missed": (
        "wgmma.mma_async is left out, with which sm_90a multiplies.",
        Reader(tensor_cores=("mma.sync", "tcgen05.mma")),
    ),
    "guarded_mma_missed": (
        "What multiplies behind a predicate is left out. @%p1 stands in front of the instruction, "
        "as of tcgen05.mma on sm_100a.",
        Reader(guarded_mma=False),
    ),
    "all_of_blackwell": (
        "Every tcgen05 instruction is counted. Only tcgen05.mma multiplies.",
        Reader(tensor_cores=("mma.sync", "wgmma.mma_async", "tcgen05")),
    ),
    "all_of_hopper": (
        "Every wgmma instruction is counted. Only wgmma.mma_async multiplies.",
        Reader(tensor_cores=("mma.sync", "wgmma", "tcgen05.mma")),
    ),
    "mma_anywhere": (
        "Every line with mma in it is counted, fences and comments too. Asked for are the "
        "instructions that multiply.",
        Reader(tensor_cores=()),
    ),
    "fma_multiplies": (
        "fma is counted. It multiplies two numbers, and not on the tensor cores.",
        Reader(tensor_cores=("mma.sync", "wgmma.mma_async", "tcgen05.mma", "fma")),
    ),
    "registers_of_64": (
        "These are the registers of 64 bits, %rd. Asked for are those of 32: %r.",
        Reader(registers=r"^\.reg\s+\.b64\s+%rd<(\d+)>"),
    ),
    "registers_of_all_kinds": (
        "The registers of all kinds are added up. Asked for are the 32-bit ones that are called "
        "%r.",
        Reader(registers=r"^\.reg\s+\.\w+\s+%\w+<(\d+)>", sum_registers=True),
    ),
    "last_kind_of_register": (
        "This is the number of the last .reg line. Asked for is that of the one with %r.",
        Reader(registers=r"^\.reg\s+\.\w+\s+%\w+<(\d+)>"),
    ),
    "float_registers_too": (
        "%f is counted beside %r. Asked for are those that are called %r.",
        Reader(registers=r"^\.reg\s+\.[bf]32\s+%[rf]<(\d+)>", sum_registers=True),
    ),
    "last_register": (
        "%r<119> declares 119 registers, %r0 to %r118: this is the number of the last one.",
        Reader(one_less=True),
    ),
}
for _key, (_sentence, _reader) in _WRONG.items():
    read_ptx.wrong(_key, _sentence, read_ptx=_reader)


@read_ptx.cost
def _(student: Student, draw: Draw) -> str:
    found = {target: student.call("read_ptx", _compiled(target))["mma"] for target in TARGETS}
    return "instructions for the tensor cores: " + ", ".join(
        f"{target} {many}" for target, many in found.items()
    )
