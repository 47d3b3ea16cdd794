"""What the two texts of a project that are no program promise: `pyproject.toml` and `WHEEL`."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from autograder.judge import Wrong, describe

from .wheel_fits import fits

PYTHONS = ("3.11", "3.12", "3.13")
TORCHES = ("2.11.0", "2.12.1", "2.13.0", "2.14.0", "2.15.0", "3.0.0")
TOO_OLD = "2.10.2"

ANY_PLATFORM = (
    "`any` promises every system and every processor, and inside is machine code for one. Name the "
    "platform that was given."
)
OTHER_PLATFORM = (
    "The library is built on this machine, and the tag names another platform than was given. "
    "Name that one."
)
ONE_PYTHON = (
    "The tags do not fit every Python from 3.11 to 3.13. The library need ask for no name of "
    "Python's, so one wheel can serve 3.11 and all later: which tags say so?"
)
PURE = (
    "`Root-Is-Purelib` is `false` here: `true` says that no file depends on the system, and a "
    "shared library does. An installer may put it where machines of another kind look, too."
)
NO_TORCH = (
    "`dependencies` does not name torch: the wheel may install beside none, and the import "
    "fails there."
)
TORCH_PINNED = (
    "This refuses a torch that is 2.11 or later. The library may ask for what 2.11 has, and "
    "later releases keep that: it is what the stable ABI is for. The lower end is 2.11, "
    "and the upper one open."
)
TORCH_TOO_OLD = (
    "This installs beside a torch that is older than 2.11. The library may ask for names which "
    "that one lacks, and the import fails then. The lower end is 2.11."
)
BUILD_NEEDS_TORCH = (
    "A build from source starts in an empty environment: without torch in `requires` its headers "
    "are not there."
)
NAMED = "The package is installed under the name that the page gives it."
WHEEL_VERSION = (
    "An installer reads in `Wheel-Version` how to unpack the wheel: 1.0, as the page says."
)
PYTHON_REFUSED = "`requires-python` refuses a Python on which the wheel runs."
NOT_TOML = "pip reads this file before anything else, and cannot."


def expect_project(text: str) -> None:
    """Raises Wrong for a pyproject.toml that promises too much or too little."""
    told = _read(text)
    project = told.get("project")
    if not isinstance(project, dict):
        raise Wrong(expected="a table [project]", got=describe(told), where=_PLACE)
    name, version = project.get("name"), project.get("version")
    if not isinstance(name, str) or name != "headloss" or canonicalize_name(name) != name:
        raise Wrong(expected="name = 'headloss'", got=describe(name), where=_PLACE, why=NAMED)
    _expect_version(version)
    _expect_pythons(project.get("requires-python"))
    _expect_dependencies(project.get("dependencies"))
    build = told.get("build-system")
    needed = build.get("requires") if isinstance(build, dict) else None
    if _torch_in(needed, "requires") is None:
        raise _wrong("torch in requires", needed, BUILD_NEEDS_TORCH)
    _expect_patterns(told)


_PLACE = "pyproject.toml"


def _wrong(expected: str, got: Any, why: str) -> Wrong:
    return Wrong(expected=expected, got=describe(got), where=_PLACE, why=why)


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _wrong("TOML", str(error)[:160], NOT_TOML) from None


def _expect_version(version: Any) -> None:
    try:
        Version(version)
    except (InvalidVersion, TypeError):
        raise Wrong(expected="a version", got=describe(version), where=_PLACE) from None


def _expect_pythons(said: Any) -> None:
    accepted = _specifiers(said, "requires-python")
    for python in (f"{minor}.{patch}" for minor in PYTHONS for patch in (0, 9)):
        if not accepted.contains(python):
            raise _wrong(f"Python {python} is taken", said, PYTHON_REFUSED)


def _expect_dependencies(said: Any) -> None:
    accepted = _torch_in(said, "dependencies")
    if accepted is None:
        raise _wrong("torch in dependencies", said, NO_TORCH)
    for torch in TORCHES:
        if not accepted.contains(torch):
            raise _wrong(f"torch {torch} is taken", said, TORCH_PINNED)
    if accepted.contains(TOO_OLD):
        raise _wrong(f"torch {TOO_OLD} is refused", said, TORCH_TOO_OLD)


def _torch_in(said: Any, where: str) -> SpecifierSet | None:
    """The versions of torch that a list of requirements takes; None without a word of it."""
    if not isinstance(said, list):
        raise Wrong(expected=f"{where}, a list", got=describe(said), where=_PLACE)
    for one in said:
        try:
            requirement = Requirement(one)
        except (InvalidRequirement, TypeError):
            raise Wrong(expected="a requirement", got=describe(one), where=_PLACE) from None
        if canonicalize_name(requirement.name) == "torch":
            return requirement.specifier
    return None


def _specifiers(said: Any, where: str) -> SpecifierSet:
    try:
        return SpecifierSet(said)
    except (InvalidSpecifier, TypeError, AttributeError):
        raise Wrong(expected=f"{where}, as '>=3.11'", got=describe(said), where=_PLACE) from None


def _expect_patterns(told: dict[str, Any]) -> None:
    """What the room reads further has the form that it reads."""
    try:
        data = told.get("tool", {}).get("setuptools", {}).get("package-data", {})
        lists = [data.get(key, []) for key in ("headloss", "*")]
    except AttributeError:
        raise Wrong(expected="tables in [tool.setuptools]", got="none", where=_PLACE) from None
    if not all(isinstance(one, list) and all(isinstance(p, str) for p in one) for one in lists):
        raise Wrong(expected="lists of patterns", got=describe(lists), where=_PLACE)


def expect_wheel_text(text: str, platform: str) -> None:
    """Raises Wrong for a WHEEL whose tags the library inside cannot keep."""
    fields = re.findall(r"(?m)^([\w-]+): *(\S.*?)[ \t]*$", text)
    told = dict(fields)
    if told.get("Wheel-Version") != "1.0":
        got = describe(told.get("Wheel-Version"))
        raise Wrong(expected="Wheel-Version: 1.0", got=got, where="WHEEL", why=WHEEL_VERSION)
    if told.get("Root-Is-Purelib") != "false":
        got = describe(told.get("Root-Is-Purelib"))
        raise Wrong(expected="Root-Is-Purelib: false", got=got, where="WHEEL", why=PURE)
    tags = [value for field, value in fields if field == "Tag"]
    if not tags or any(tag.count("-") != 2 for tag in tags):
        raise Wrong(expected="Tag: python-abi-platform", got=describe(tags), where="WHEEL")
    for tag in tags:
        _expect_platform(tag, platform)
    for python in PYTHONS:
        if not any(_runs_on(tag, python) for tag in tags):
            expected = f"a tag that Python {python} takes"
            raise Wrong(expected=expected, got=describe(tags), where="WHEEL", why=ONE_PYTHON)


def _expect_platform(tag: str, platform: str) -> None:
    promised = tag.split("-")[2]
    if promised != platform:
        why = ANY_PLATFORM if promised == "any" else OTHER_PLATFORM
        raise Wrong(expected=platform, got=describe(promised), where="WHEEL", why=why)


def _runs_on(tag: str, python: str) -> bool:
    interpreter, abi, _ = tag.split("-")
    if not re.fullmatch(r"(?:cp|py)[23]\d{0,2}", interpreter):
        return False
    machine = {
        "system": "linux",
        "arch": "x86_64",
        "python": (3, int(python[2:])),
        "free_threaded": False,
    }
    return fits(f"headloss-0-{interpreter}-{abi}-linux_x86_64.whl", machine)
