"""`play_wheel`: on which Pythons and which torches a wheel with an operator runs.

Whether an installer takes it is asked of `packaging`, which pip asks too. Whether torch promises
that it then loads stands in the note on its stable ABI:
https://docs.pytorch.org/docs/stable/notes/libtorch_stable_abi.html
"""

from itertools import chain
from typing import NamedTuple

from onelayer.drawing.explorable import Explorable, Line, Part, Scene, explorable
from onelayer.drawing.words import say

PYTHONS = ((3, 10), (3, 11), (3, 12), (3, 13), (3, 14))
TORCHES = ((2, 10), (2, 11), (2, 12), (2, 13), (2, 14), (2, 15))
BUILT_WITH = (2, 13)  # the torch, and below the Python, on the machine that builds the wheel
_PLATFORM = "linux_x86_64"
_MEANS = {
    "green": "runs",
    "grey": "the installer refuses it",
    "red": "is installed, and nobody promises that it loads",
}


class _Releases(NamedTuple):
    """The releases of torch that have the names which a library asks for."""

    oldest: tuple[int, int]
    newest: tuple[int, int] | None  # None: and all after it


_TORCH = {
    "stable ABI, target 2.11": _Releases((2, 11), None),
    "stable ABI, no target": _Releases(BUILT_WITH, None),
    "C++ classes": _Releases(BUILT_WITH, BUILT_WITH),
}
_PYTHON = {
    "none": "py3-none",
    "its stable ABI": "cp311-abi3",
    "all of it": "cp311-cp311",
}
_SAYS = {
    "torch>=2.11": ">=2.11",
    "torch==2.13.*": "==2.13.*",
}


def installs(name: str, needs_torch: str, python: tuple[int, int], torch: tuple[int, int]) -> bool:
    """Whether an installer takes the wheel called `name` for this Python, beside this torch."""
    from packaging.specifiers import SpecifierSet
    from packaging.tags import compatible_tags, cpython_tags
    from packaging.utils import parse_wheel_filename

    where = [_PLATFORM]
    accepted = chain(
        cpython_tags(python, platforms=where), compatible_tags(python, platforms=where)
    )
    fits = not parse_wheel_filename(name)[3].isdisjoint(accepted)
    return fits and _dotted(torch) in SpecifierSet(needs_torch)


def promised(interface: str, torch: tuple[int, int]) -> bool:
    """Whether this torch promises every name that a library with this interface asks for."""
    oldest, newest = _TORCH[interface]
    return oldest <= torch and (newest is None or torch <= newest)


def play_wheel() -> Explorable:
    """A wheel whose author chooses what its library asks of torch and of Python, and what its
    METADATA says: on a table of Pythons and torches, where it runs.

        play_wheel()

    The wheel is built with torch 2.13 and Python 3.11, for Linux on an x86-64, and says nothing
    else of the Python that it needs.
    """
    choices = {
        say("asks of torch"): tuple(map(say, _TORCH)),
        say("asks of Python"): tuple(map(say, _PYTHON)),
        say("METADATA says"): tuple(_SAYS),
    }
    means = {look: say(words) for look, words in _MEANS.items()}
    return explorable(say("where a wheel runs"), choices, _scene, means=means)


def _scene(interface: str, python_interface: str, says: str) -> Scene:
    interface = next(one for one in _TORCH if say(one) == interface)
    python_interface = next(one for one in _PYTHON if say(one) == python_interface)
    name = f"headloss-0.1.0-{_PYTHON[python_interface]}-{_PLATFORM}.whl"
    lines = [_line(torch, interface, name, _SAYS[says]) for torch in TORCHES]
    looks = [part.look for line in lines for part in line.parts]
    runs = looks.count("green")
    told = say("{name}: runs on {runs} of {all}.", name=name, runs=runs, all=len(looks))
    if alone := looks.count("red"):
        told += say(" On {n} it is installed, and may meet an undefined symbol.", n=alone)
    return Scene(lines, told)


def _line(torch: tuple[int, int], interface: str, name: str, needs: str) -> Line:
    parts = []
    for python in PYTHONS:
        taken = installs(name, needs, python, torch)
        look = "grey" if not taken else "green" if promised(interface, torch) else "red"
        parts.append(Part(1, look, f"py {_dotted(python)}"))
    runs = sum(part.look == "green" for part in parts)
    return Line(f"torch {_dotted(torch)}", parts, say("{n} of {all}", n=runs, all=len(parts)))


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
