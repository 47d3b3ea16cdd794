"""What the three conda files ask for, read so that it can be held against pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

REPO = Path(__file__).resolve().parents[2]
BINDER = "binder/environment.yml"
FILES = ("environment.yml", "environment-gpu.yml", BINDER)
CHANNELS = ["conda-forge", "nodefaults"]
BUILD_OF_TORCH = {"pytorch-cpu", "pytorch-gpu"}
CALLED_HERE = {"pytorch-cpu": "torch", "pytorch-gpu": "torch", "matplotlib-base": "matplotlib"}
"""conda-forge's name: PyPI's name."""
POST_BUILD = "python -m pip install --quiet --no-deps --no-build-isolation --editable ."


@dataclass(frozen=True)
class Environment:
    """A conda file. packages: PyPI's name to what is asked of it. pip: lines for pip, in order."""

    name: str
    channels: list[str]
    packages: dict[str, str]
    pip: list[str]

    @property
    def brings_torch(self) -> bool:
        return "torch" in self.packages


def read(repo: Path, file: str) -> Environment:
    asked: dict[str, Any] = yaml.safe_load((repo / file).read_text("utf-8"))
    packages, pip = {}, []
    for line in asked["dependencies"]:
        if isinstance(line, dict):
            pip = line["pip"]
        else:
            name, _, wanted = line.partition(" ")
            packages[CALLED_HERE.get(name, name)] = wanted.strip()
    return Environment(asked["name"], asked["channels"], packages, pip)


def disagreements(repo: Path) -> Iterator[str]:
    """Where a conda file of `repo` says something else than its pyproject.toml, a line for each."""
    project = tomllib.loads((repo / "pyproject.toml").read_text("utf-8"))
    for file in FILES:
        found = read(repo, file)
        if found.channels != CHANNELS:
            yield f"{file}: channels {found.channels}"
        yield from (f"{file}: {fault}" for fault in _python(found, file, project["project"]))
        yield from (f"{file}: {fault}" for fault in _packages(found, project["project"]))
        if file == BINDER:
            yield from (f"{file}: {fault}" for fault in _binder(found, repo, project))
        else:
            yield from (f"{file}: {fault}" for fault in _pip(found, repo, project["project"]))


def _python(found: Environment, file: str, project: dict[str, Any]) -> Iterator[str]:
    """The range of pyproject.toml; for repo2docker one version in it."""
    promised, wanted = project["requires-python"], found.packages["python"]
    one = re.fullmatch(r"=(\d+\.\d+)", wanted)
    if file != BINDER and wanted != promised:
        yield f"python {wanted}, not {promised}"
    if file == BINDER and not (one and one[1] in SpecifierSet(promised)):
        yield f"python {wanted}, not one version of {promised}"


def _packages(found: Environment, project: dict[str, Any]) -> Iterator[str]:
    """What conda brings of our own requirements, it brings as they are."""
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *extras["lab"]]:
        needed = Requirement(line)
        wanted = found.packages.get(needed.name)
        if wanted is not None and SpecifierSet(wanted) != needed.specifier:
            yield f"{needed.name} {wanted}, not {needed.specifier}"


def _pip(found: Environment, repo: Path, project: dict[str, Any]) -> Iterator[str]:
    """Our package, editable, with an extra that exists; where pip brings torch, by our pins."""
    editable = re.fullmatch(r"--editable \.\[(\w+)\]", found.pip[-1])
    if not editable or editable[1] not in project["optional-dependencies"]:
        yield f"{found.pip[-1]} is not our package with an extra of ours"
    if not found.brings_torch and "--constraint constraints.txt" not in found.pip:
        yield "nothing says which torch"
    pins = re.findall(r"^torch==(\S+)$", (repo / "constraints.txt").read_text("utf-8"), re.M)
    (promised,) = (r for r in map(Requirement, project["dependencies"]) if r.name == "torch")
    if len(pins) != 1 or pins[0] not in promised.specifier:
        yield f"constraints.txt pins torch to {pins}, and {promised} is promised"


def _binder(found: Environment, repo: Path, project: dict[str, Any]) -> Iterator[str]:
    """postBuild installs our package alone, so conda must bring everything else that it needs."""
    if POST_BUILD not in (repo / "binder" / "postBuild").read_text("utf-8").splitlines():
        yield "postBuild does not install our package, and it alone"
    ours = project["project"]
    needed = [*ours["dependencies"], *ours["optional-dependencies"]["lab"]]
    needed += project["build-system"]["requires"]
    for name in (Requirement(line).name for line in needed):
        if name not in found.packages:
            yield f"{name} is missing"
