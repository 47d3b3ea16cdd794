"""Which wheels an interpreter on a platform installs, by their names alone.

The rules are PEP 425 (tags), PEP 427 (file names), PEP 600 (manylinux) and PEP 703 (no stable ABI
without the GIL); the lab's test compares them with the `packaging` library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, Wrong, describe, expect_tuple

from . import lab

Machine = Mapping[str, Any]
Version = tuple[int, int]
LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
"""What the glibc of a manylinux tag was before PEP 600 wrote it into the name."""
OLDEST = {"x86_64": 5, "aarch64": 17}
"""The second number of the oldest glibc for which `packaging`, and so pip, has a tag."""
SETS = (
    "Each of the three tags may be a set, with dots between. The wheel fits if one of each set "
    "fits, all three together, whatever the others of the set are."
)
ANY_NEEDS_NONE = (
    "`any` fits with the ABI `none` alone. Of this set `none` fits another Python than this one, "
    "and the other ABI does not go with `any`."
)
ABI3 = "An `abi3` wheel fits the Python in its tag and all later ones with the GIL."
OWN = (
    "`cp312-cp312` fits Python 3.12, and this wheel names this very Python. The first digit is "
    "the major version, all others are the minor one."
)
NO_ABI = (
    "`cp312-none` asks for CPython 3.12 and for no ABI: it fits there with the GIL and without it."
)
ANY = "`py3-none-any` fits every Python 3 on every machine."
THE_SAME = "The tag names the oldest glibc or macOS that will do. The machine has just that one."
WINDOWS = (
    "`win_amd64` and `win_arm64` are Windows on these two processors. They ask for no version."
)
NEW_ABI = "A wheel for a newer Python was taken: `cp313-cp313` runs on 3.13 alone."
PYTHON_2 = "`py2` is Python 2. This machine has Python 3."
MUSL = "`musllinux` is for another C library than glibc, and fits none of these machines."
SYSTEM = "A wheel for another operating system was taken. The platform tag begins with the system."
NEWER = (
    "A wheel for a newer glibc or macOS than the machine has was taken. The tag names the "
    "oldest that will do."
)
ORDER = "The names are the right ones. Keep them in the order given."
TWICE = "A name came back twice. Each wheel is one file, whichever of its tags fit."
NO_NAME = "The answer is a list of the file names that fit, as they were given."
BY_PARTS = (
    "Versions are compared as pairs: macOS 10.15 is older than 12.0, though 15 is more than 0."
)
GIL = (
    "`cp313` and `cp313t` are two ABIs: the t is for a Python without the GIL, and each takes "
    "its own alone."
)
PY3X = (
    "`py39-none` is code for 3.9 and all later ones, 3.10 and 3.11 too: no ABI ties it to one "
    "version."
)
PLAIN_LINUX = (
    "A plain `linux_...` tag was left out. An index refuses such a wheel, since it promises no "
    "glibc; pip installs it."
)
LEGACY_NAMES = (
    "A tag from before PEP 600 was left out: `manylinux1`, `manylinux2010` and `manylinux2014` "
    "stand for glibc 2.5, 2.12 and 2.17."
)
UNIVERSAL = (
    "`universal2` is both processors of macOS in one file, for the macOS in its tag and all later "
    "ones."
)
AS_TEXT = (
    "glibc 2.5 is older than 2.28: 5 is less than 28. As texts, or as decimals, they compare "
    "the other way round."
)
LEGACY_ELSEWHERE = (
    "`manylinux2014` was left out. It stands for glibc 2.17, and is for other processors than "
    "x86_64 too."
)
OLDER = "A wheel for an older glibc or macOS was left out: the tag names the oldest that will do."
INTEL = (
    "`manylinux1` and `manylinux2010` are for x86_64 alone. Of the old names only `manylinux2014` "
    "is for other processors too."
)
SECOND = (
    "From macOS 11 on a tag's second number is 0, and pip knows no other: `macosx_11_3` fits "
    "nowhere."
)
CP_NONE = "`cp311-none` names one CPython. It does not hold for later ones, as `py311-none` does."
PY3X_ASKS = (
    "A wheel that asks for a newer Python was taken: `py314-none` is for 3.14 at "
    "least. The digits behind the 3 are the minor version."
)
ABI3_ANYWHERE = (
    "An `abi3` wheel of a newer Python was taken. Its Python tag names the oldest that it runs on."
)
ABI3_NO_GIL = (
    "An `abi3` wheel was taken by a Python without the GIL. There objects look different, and "
    "`abi3` does not hold."
)
OLD_ABI = (
    "A wheel for an older Python was taken: `cp311-cp311` runs on 3.11 alone. Of the ABIs only "
    "`abi3` promises later ones."
)
ARCHITECTURE = (
    "A wheel for another architecture was taken. A platform tag ends with it; `win32` is x86 "
    "with 32 bits."
)
_RAISED = {
    "ValueError": "A name has five parts or six: a build number may stand behind the version. "
    "Count the tags from the end; each of the three may be a set, as `py2.py3`.",
}


@lab.question(
    "wheel_fits",
    points=4,
    minutes=9,
    difficulty=3,
    hints=(
        "A name ends in three tags: Python, ABI, platform. Which of them may each name several "
        "things, and what stands between those?",
        "A wheel fits when one of its Python tags, one of its ABI tags and one of its platform "
        "tags fit together. Versions are pairs of integers: a wheel may ask for less than the "
        "machine has, but only `abi3`, `py3x`, `manylinux` and `macosx` do.",
        'python, abi, platform = name.removesuffix(".whl").split("-")[-3:]',
    ),
)
def wheel_fits(student: Student, draw: Draw) -> None:
    """Which of these wheels pip would install on a machine.

    names: file names of wheels; machine: a dict -> the names that fit, in the order given.
    """
    fixed = [_linux(draw, False) | {"arch": "aarch64"}, _linux(draw, True) | {"arch": "x86_64"}]
    fixed += [_mac(draw, "arm64"), _mac(draw, "x86_64")]
    drawn = [_machine(draw) for _ in draw.cases(2)]
    windows = [_windows(draw), _windows(draw) | {"arch": "arm64"}]
    place = _linux(draw, False) | {"arch": "x86_64"}
    old = [place | {"glibc": (2, draw.integer(14, 15))}]  # before 2014's
    for _, minor in LEGACY.values():  # just as old as these, and one older
        older = [one for one in (minor, minor - 1) if one >= OLDEST["x86_64"]]
        old += [_linux(draw, False) | {"arch": "x86_64", "glibc": (2, one)} for one in older]
    calls = [(machine, False) for machine in (*fixed, old[0], *windows, *drawn, *old[1:])]
    calls.append((_mac(draw, "x86_64") | {"macos": (10, draw.integer(13, 14))}, False))
    calls += [(fixed[0], True), (fixed[2], True)]
    for machine, unknown in calls:
        names = _names(draw, machine) + (_unknown(draw, machine) if unknown else [])
        names = draw.shuffled(names)
        with explaining(_RAISED):
            got = student.call("wheel_fits", names, machine)
        _expect(got, names, machine)


def _expect(got: Any, names: list[str], machine: Machine) -> None:
    mine = list(expect_tuple(got, None, "a list of names"))
    want = [name for name in names if fits(name, machine)]
    for name in sorted(names, key=_rules_in):
        if name in want and name not in mine:
            missing = [one for one in want if one not in mine]
            why = _decimals(missing, machine) or _as_texts(missing, machine)
            why = why or why_it_fits(name, machine)
            raise Wrong(expected=f"{name} fits", got="left out", why=why)
        if name in mine and name not in want:
            why, place = why_it_does_not(name, machine), f"[{mine.index(name)}]"
            raise Wrong(expected=f"{name} left out", got="fits", where=place, why=why)
    for k, name in enumerate(mine):
        if name not in want or mine.index(name) != k:
            why = NO_NAME if name not in want else TWICE
            raise Wrong(expected=f"{len(want)} names", got=describe(name), where=f"[{k}]", why=why)
    if mine != want:
        raise Wrong(expected="the order given", got="another order", why=ORDER)


def _decimals(missing: Sequence[str], machine: Machine) -> str:
    """A sentence where all that is missing asks for a Python of one digit behind the 3."""
    pythons = [_tags(name)[0] for name in missing]
    if any(len(python) != 4 or python[2] != "3" for python in pythons):
        return ""
    asked, have = pythons[0][3], machine["python"][1]
    return f"3.{asked} is earlier than 3.{have}: compare (3, {asked}) and (3, {have})."


def _as_texts(missing: Sequence[str], machine: Machine) -> str:
    """AS_TEXT, where each tag alone that is missing asks for a glibc that is older as a number and
    newer as a text."""
    alone = [name for name in missing if "." not in "".join(_tags(name))]
    asked = [_system_asked(_tags(name)[2], False) for name in alone]
    have = machine.get("glibc")
    if have is None or not asked or any(one is None for one in asked):
        return ""
    versions = [one[1] for one in asked if one]
    turned = all(v < have and [*map(str, v)] > [*map(str, have)] for v in versions)
    return AS_TEXT if turned else ""


def _rules_in(name: str) -> tuple[bool, bool, bool]:
    """Names of one rule first: whoever has those right is wrong about the other rule."""
    python, abi, platform = _tags(name)
    sets = "." in python + abi + platform
    return sets, (python, abi) != ("py3", "none"), platform != "any"


def _tags(name: str) -> list[str]:
    return name.removesuffix(".whl").split("-")[-3:]


def why_it_fits(name: str, machine: Machine) -> str:
    """The rule by which a wheel fits that was left out; of two, the one about its Python."""
    python, abi, platform = _tags(name)
    here = f"cp3{machine['python'][1]}"
    if "." in python + abi + platform:
        return SETS
    if abi == "abi3":
        return ABI3
    if python.startswith("cp"):
        same = NO_ABI if abi == "none" else GIL if abi.endswith("t") else OWN
        return same if python == here else ""
    if python != "py3":
        return PY3X
    if platform == "any":
        return ANY
    if platform.startswith("linux"):
        return PLAIN_LINUX
    if platform.partition("_")[0] in LEGACY:
        return LEGACY_NAMES if machine["arch"] == "x86_64" else LEGACY_ELSEWHERE
    if platform.endswith("universal2"):
        return UNIVERSAL
    asked = _system_asked(platform, True)
    have = machine.get("macos") or machine.get("glibc")
    return WINDOWS if asked is None else THE_SAME if asked[1] == have else OLDER


def why_it_does_not(name: str, machine: Machine) -> str:
    """The rule by which a wheel does not fit that was taken; of two, the one about its Python."""
    python, abi, platform = _tags(name)
    if platform == "any" and "none" in abi.split(".") != ["none"] and "." not in python:
        return ANY_NEEDS_NONE
    if "." in python + abi + platform:
        return SETS
    if not _python_fits(python, abi, machine):
        minor, have = int(python[3:] or 0), machine["python"][1]
        if python[2:3] != "3":
            return PYTHON_2
        if abi == "none":
            return _of_one(python) if python.startswith("cp") else PY3X_ASKS
        if abi == "abi3":
            return ABI3_ANYWHERE if minor > have else ABI3_NO_GIL
        return GIL if minor == have else OLD_ABI if minor < have else NEW_ABI
    if platform.startswith("musllinux"):
        return MUSL
    asked = _system_asked(platform, True)
    system = asked[0].removeprefix("many") if asked else platform.partition("_")[0]
    if not system.startswith(machine["system"]):
        return SYSTEM
    if asked is None or asked[2] not in (machine["arch"], "universal2"):
        return ARCHITECTURE
    if not _known(platform):
        if asked[0] == "manylinux":
            return INTEL
        return SECOND if asked[1] <= machine["macos"] else NEWER
    if (old := platform.partition("_")[0]) in LEGACY:
        have = ".".join(map(str, machine["glibc"]))
        return f"`{old}` asks for glibc 2.{LEGACY[old][1]}, and the machine has {have}."
    return NEWER


def _of_one(python: str) -> str:
    """Why an older CPython's wheel without an ABI does not fit."""
    later = python.replace("cp", "py")
    return (
        f"`{python}-none` names one CPython. It does not hold for later ones, as `{later}-none` "
        "does."
    )


def _known(platform: str) -> bool:
    """Whether pip has such a tag at all."""
    asked = _system_asked(platform, True)
    if asked is None:
        return True
    old = platform.partition("_")[0]
    if old in LEGACY:
        return old == "manylinux2014" or asked[2] == "x86_64"
    return old != "macosx" or asked[1][0] < 11 or asked[1][1] == 0


def _python(draw: Draw, low: int = 10) -> tuple[int, int]:
    return 3, draw.integer(low, 13)


def _linux(draw: Draw, free_threaded: bool) -> dict[str, Any]:
    python = (3, draw.integer(13, 14)) if free_threaded else _python(draw, 11)
    return {
        "system": "linux",
        "arch": draw.choice(("x86_64", "aarch64")),
        "python": python,
        "free_threaded": free_threaded,
        "glibc": (2, draw.integer(28, 39)),
    }


def _mac(draw: Draw, arch: str) -> dict[str, Any]:
    place = {"system": "macosx", "arch": arch, "python": _python(draw, 11), "free_threaded": False}
    return place | {"macos": (draw.integer(12, 15), 0)}


def _windows(draw: Draw) -> dict[str, Any]:
    place = {"system": "win", "arch": "amd64", "python": _python(draw, 11)}
    return place | {"free_threaded": False}


def _machine(draw: Draw) -> dict[str, Any]:
    kind = draw.integer(0, 3)
    if kind < 2:
        return _linux(draw, bool(kind))
    return _mac(draw, draw.choice(("arm64", "x86_64"))) if kind == 2 else _windows(draw)


def _names(draw: Draw, machine: Machine) -> list[str]:
    """Wheels of which each asks for one rule, of this machine's family and of others."""
    minor = machine["python"][1]
    own = _own_platforms(draw, machine)
    plain, others = own[0], own[1:] + _foreign(draw, machine)
    here, older, newer = f"cp3{minor}", f"cp3{minor - 1}", f"cp3{minor + 1}"
    tags = [
        f"{here}-{here}-{plain}",
        f"{here}-{here}t-{plain}",
        f"{older}-{older}-{plain}",
        f"{newer}-{newer}-{plain}",
        f"cp3{draw.integer(6, 9)}-abi3-{plain}",
        f"{older}-abi3-{plain}",  # and not only of one digit behind the 3
        f"{here}-abi3-{plain}",
        f"{newer}-abi3-{plain}",
        f"{older}.{here}-{older}.{here}-{plain}",
        f"{here}.{older}-{here}.{older}-{plain}",
        f"{older}.{newer}-{older}.{newer}-{plain}",
        f"{older}.{here}-{older}.{here}-{own[0]}.{own[1]}",  # also side by side, by the second
        f"{newer}.{older}.{here}-{newer}.{older}.{here}-{plain}",
        f"{older}.py3{minor + 1}-none.abi3-{plain}",  # one of each, and one of them together
        f"{here}-none.abi3-{plain}",
        f"{older}-abi3.none-any",  # `any` is with no ABI, and then this is for an older one alone
        f"{here}-abi3.none-{plain}",
        f"{here}-none-{plain}",
        f"py3-none-{plain}",
        "py3-none-any",
        "py2.py3-none-any",
        "py3.py2-none-any",
        "py2-none-any",
        "py27-none-any",
        f"cp27-cp27mu-{plain}",
        f"py3{draw.integer(6, 9)}-none-any",
        f"py3{minor - 1}-none-any",
        f"py3{minor}-none-any",
        f"py3{minor + 1}-none-any",
        f"{older}-none-any",
        *(f"py3-none-{platform}" for platform in others),
    ]
    return [_named(draw, tag) for tag in tags]


def _unknown(draw: Draw, machine: Machine) -> list[str]:
    """Wheels whose platform is old enough, by tags that pip does not have. They are asked last:
    then whoever knows these two rules no better is told first of all others."""
    arch = machine["arch"]
    tags = [f"manylinux1_{arch}", f"manylinux2010_{arch}"]
    if machine["system"] == "macosx":
        tags = [f"macosx_11_3_{arch}", "macosx_11_1_universal2"]
    return [_named(draw, f"py3-none-{tag}") for tag in tags]


def _named(draw: Draw, tags: str) -> str:
    name = draw.choice(("headloss", "one_layer", "fused_head", "wide_head"))
    version = f"{draw.integer(0, 3)}.{draw.integer(0, 12)}.{draw.integer(0, 9)}"
    local = draw.choice(("", "", "+cpu", "+cu130"))
    build = draw.choice(("", "-1", f"-{draw.integer(2, 9)}fix"))
    return f"{name}-{version}{local}{build}-{tags}.whl"


def _own_platforms(draw: Draw, machine: Machine) -> list[str]:
    """Platform tags of this system, the first of which fits."""
    arch = machine["arch"]
    if machine["system"] == "win":
        other = "amd64" if arch == "arm64" else "arm64"
        return [f"win_{arch}", "win32", f"win_{other}", f"win32.win_{arch}.win_{other}"]
    if machine["system"] == "macosx":
        other = "x86_64" if arch == "arm64" else "arm64"
        major, second = machine["macos"]
        return [
            f"macosx_{'11_0' if major > 10 else '10_9'}_{arch}",
            f"macosx_{major}_{second}_{arch}",
            f"macosx_{major + 1}_0_{arch}",
            f"macosx_{major}_{second + draw.integer(1, 6)}_{arch}",  # newer by its second number
            f"macosx_10_{draw.integer(9, 15)}_universal2",
            "macosx_11_0_universal2",
            f"macosx_{major + 1}_0_universal2",
            f"macosx_11_0_{other}",
            f"macosx_10_13_x86_64.macosx_11_0_{arch}",
            f"macosx_11_0_{arch}.macosx_{major + 1}_0_{other}",
        ]
    minor, oldest = machine["glibc"][1], OLDEST[arch]
    other = "x86_64" if arch == "aarch64" else "aarch64"
    return [
        f"manylinux_2_{draw.integer(20, 27)}_{arch}",
        f"manylinux_2_{minor}_{arch}",
        f"manylinux_2_{minor + 1}_{arch}",
        f"manylinux_2_{oldest}_{arch}",
        f"manylinux_3_0_{arch}",  # newer, though its second number is less
        f"manylinux_2_17_{arch}.manylinux2014_{arch}",
        f"manylinux_2_{minor + 3}_{arch}.manylinux_2_{oldest}_{arch}",
        f"manylinux_2_{oldest}_{arch}.manylinux_2_{minor + 3}_{arch}",
        f"musllinux_1_1_{arch}.manylinux_2_{minor + 3}_{arch}.manylinux_2_{oldest}_{arch}",
        f"manylinux_2_{minor + 3}_{arch}.musllinux_1_1_{arch}",
        f"manylinux2014_{arch}",
        *(f"{old}_{arch}" for old in ("manylinux1", "manylinux2010") if arch == "x86_64"),
        f"manylinux_2_{OLDEST[other]}_{other}",
        f"manylinux2014_{other}",
        f"musllinux_1_1_{arch}",
        f"linux_{arch}",
        f"linux_{other}",
    ]


def _foreign(draw: Draw, machine: Machine) -> list[str]:
    """Also for the same processor."""
    arch = machine["arch"]
    families = {
        "linux": ("manylinux_2_17_x86_64", f"manylinux_2_5_{arch}", f"linux_{arch}"),
        "macosx": ("macosx_11_0_arm64", f"macosx_11_0_{arch}", "macosx_11_0_universal2"),
        "win": ("win_amd64", f"win_{arch}"),
    }
    others = [tags for system, tags in families.items() if system != machine["system"]]
    return list(dict.fromkeys(tag for tags in others for tag in tags))


def fits(
    name: str,
    machine: Machine,
    *,
    python_fits: Callable[[str, str, Machine], bool] | None = None,
    platform_fits: Callable[[str, Machine], bool] | None = None,
    first_only: bool = False,
    side_by_side: bool = False,
    from_the_front: bool = False,
) -> bool:
    """Whether the wheel of this name installs there, and ways to get it wrong."""
    parts = name.removesuffix(".whl").split("-")
    sets = [part.split(".") for part in (parts[2:5] if from_the_front else parts[-3:])]
    pythons, abis, platforms = [one[:1] for one in sets] if first_only else sets
    python_fits, platform_fits = python_fits or _python_fits, platform_fits or _platform_fits
    if side_by_side and len(sets) == 3:
        each = ("-".join(tags) for tags in zip(*sets, strict=False))
        return any(fits(f"x-1-{tags}.whl", machine) for tags in each)
    taken = {a for p in pythons for a in abis if python_fits(p, a, machine)}
    places = {one for one in platforms if platform_fits(one, machine)}
    return any(a == "none" or one != "any" for a in taken for one in places)


def _python_fits(
    python: str,
    abi: str,
    machine: Machine,
    *,
    old_abi: bool = False,
    exact_abi3: bool = False,
    any_abi3: bool = False,
    abi3_without_gil: bool = False,
    gil_ignored: bool = False,
    exact_py: bool = False,
    any_py: bool = False,
    cp_none_like_py: bool = False,
) -> bool:
    """One Python tag with one ABI tag."""
    have: int = machine["python"][1]
    free: bool = machine["free_threaded"]
    kind, major, digits = python[:2], python[2:3], python[3:] or "0"
    if major != "3" or not digits.isdecimal():  # a build number may stand here, as 3fix
        return False
    minor = int(digits)
    if abi == "none":
        if kind == "cp" and not cp_none_like_py:
            return minor == have
        return any_py or (minor in (0, have) if exact_py else minor <= have)
    if kind != "cp":
        return False
    if abi == "abi3":
        if free and not abi3_without_gil:
            return False
        return any_abi3 or (minor == have if exact_abi3 else minor <= have)
    flags = ("", "t") if gil_ignored else ("t" if free else "",)
    same = any(abi == python + flag for flag in flags)
    return same and (minor <= have if old_abi else minor == have)


def _platform_fits(
    platform: str,
    machine: Machine,
    *,
    system_only: bool = False,
    legacy: bool = True,
    plain_linux: bool = True,
    universal: bool = True,
    old_anywhere: bool = False,
    any_second: bool = False,
    compare: Callable[[Version, Version], bool] = lambda asked, have: asked <= have,
) -> bool:
    """One platform tag."""
    system, arch = machine["system"], machine["arch"]
    if platform == "any":
        return True
    if system == "win":
        return platform.startswith("win") if system_only else platform == f"win_{arch}"
    if system == "linux" and platform.startswith("linux_"):
        return plain_linux and platform == f"linux_{arch}"
    wanted = _system_asked(platform, legacy)
    if wanted is None or wanted[0] != ("macosx" if system == "macosx" else "manylinux"):
        return False
    if not _known(platform) and not (any_second if system == "macosx" else old_anywhere):
        return False
    _, version, of_arch = wanted
    same: bool = of_arch == arch or (universal and of_arch == "universal2") or system_only
    have: Version = machine["macos"] if system == "macosx" else machine["glibc"]
    return same and compare(version, have)


def _system_asked(platform: str, legacy: bool) -> tuple[str, tuple[int, int], str] | None:
    """(manylinux or macosx, version, architecture) of a tag."""
    head, _, rest = platform.partition("_")
    if head in LEGACY:
        return ("manylinux", LEGACY[head], rest) if legacy else None
    if head not in ("manylinux", "macosx"):
        return None
    major, minor, arch = rest.split("_", 2)
    return head, (int(major), int(minor)), arch


def _wrong(name: str, sentence: str, **how: Any) -> None:
    def chosen(names: Sequence[str], machine: Machine) -> list[str]:
        return [one for one in names if fits(one, machine, **how)]

    wheel_fits.wrong(name, sentence, wheel_fits=chosen)


def _wrong_python(name: str, sentence: str, **how: bool) -> None:
    _wrong(name, sentence, python_fits=lambda p, a, m: _python_fits(p, a, m, **how))


def _wrong_platform(name: str, sentence: str, **how: Any) -> None:
    _wrong(name, sentence, platform_fits=lambda p, m: _platform_fits(p, m, **how))


_wrong_python(
    "old_abi_fits",
    OLD_ABI,
    old_abi=True,
)
_wrong_python(
    "abi3_exact",
    "An `abi3` wheel was taken for one version only. Its Python tag names the oldest that it runs "
    "on.",
    exact_abi3=True,
)
_wrong_python(
    "abi3_anywhere",
    ABI3_ANYWHERE,
    any_abi3=True,
)
_wrong_python(
    "abi3_without_the_gil",
    ABI3_NO_GIL,
    abi3_without_gil=True,
)
_wrong_python(
    "gil_ignored",
    GIL,
    gil_ignored=True,
)
_wrong_python(
    "py3x_exact",
    PY3X,
    exact_py=True,
)
_wrong_python(
    "py3x_ignored",
    PY3X_ASKS,
    any_py=True,
)
_wrong_python(
    "cp_none_like_py",
    CP_NONE,
    cp_none_like_py=True,
)
_wrong_platform(
    "architecture_ignored",
    ARCHITECTURE,
    system_only=True,
)
_wrong_platform(
    "legacy_unknown",
    LEGACY_NAMES,
    legacy=False,
)
_wrong_platform(
    "linux_refused",
    PLAIN_LINUX,
    plain_linux=False,
)
_wrong_platform(
    "universal_unknown",
    UNIVERSAL,
    universal=False,
)
_wrong_platform(
    "version_exact",
    OLDER,
    compare=lambda asked, have: asked == have,
)
_wrong_platform(
    "version_turned_round",
    "Wheels for an older glibc or macOS than the machine's were left out, and those for a "
    "newer one taken. The tag names the oldest that will do.",
    compare=lambda asked, have: asked >= have,
)
_wrong_platform(
    "version_as_text",
    AS_TEXT,
    compare=lambda asked, have: [*map(str, asked)] <= [*map(str, have)],
)
_wrong_platform(
    "version_by_parts",
    BY_PARTS,
    compare=lambda asked, have: asked[0] <= have[0] and asked[1] <= have[1],
)
_wrong_platform(
    "old_names_anywhere",
    INTEL,
    old_anywhere=True,
)
_wrong_platform(
    "any_second_number",
    SECOND,
    any_second=True,
)
_wrong(
    "first_of_a_set",
    "Only the first of each set was read. A tag may name several, with dots between: `py2.py3`.",
    first_only=True,
)
_wrong(
    "side_by_side",
    "The sets were read side by side: the first of each, then the second. Any of one set goes with "
    "any of the others.",
    side_by_side=True,
)
_wrong(
    "build_number",
    "Wheels with a build number were left out. It may stand behind the version: count the tags "
    "from the end.",
    from_the_front=True,
)


@wheel_fits.cost
def _(student: Student, draw: Draw) -> str:
    machine = _linux(draw, False)
    names = _names(draw, machine)
    taken = student.call("wheel_fits", names, machine)
    return f"{len(names)} names read, {len(taken)} fit, and no file was opened"
