"""`doctor()`: what this machine has for the course, and what to do about what it lacks."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version

from autograder.judge import content, say

from .card import Shown, calmly, card, prose, told

PYTHONS = ((3, 11), (3, 13))
TORCHES = ((2, 11), (2, 15))


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `word` is ok, missing (something to do) or none (nothing is wrong)."""

    what: str
    word: str
    found: str
    to_do: str = ""


def doctor() -> Shown:
    """Shows what of the course runs on this machine."""
    return calmly(lambda: _shown(examine()), "doctor()")


def examine() -> tuple[Finding, ...]:
    """Every finding, in the order in which they matter. Never raises."""
    looks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("python", _python),
        ("torch", _torch),
        ("threads", _threads),
        ("GPU", _gpu),
        ("weights", _weights),
        ("jupyter", _jupyter),
        ("anywidget", _anywidget),
        ("compiler", _compiler),
    )
    return tuple(_look(what, look) for what, look in looks)


def _look(what: str, look: Callable[[], Finding]) -> Finding:
    """A broken installation fails in any way it likes; the other findings still help."""
    try:
        return look()
    except Exception as error:
        return Finding(what, "missing", told(error), "Reinstall it, then look again.")


def _python() -> Finding:
    ok = PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]
    to_do = "" if ok else f"The course supports Python {_span(PYTHONS)}."
    return Finding("python", "ok" if ok else "missing", platform.python_version(), to_do)


def _torch() -> Finding:
    import torch

    major, minor, *_ = torch.__version__.split(".")
    ok = TORCHES[0] <= (int(major), int(minor)) <= TORCHES[1]
    to_do = "" if ok else f"The course supports torch {_span(TORCHES)}."
    return Finding("torch", "ok" if ok else "missing", torch.__version__, to_do)


def _threads() -> Finding:
    import torch

    cores = os.cpu_count() or 1
    return Finding("threads", "ok", f"torch uses {torch.get_num_threads()}; {cores} cores")


def _gpu() -> Finding:
    import torch

    if torch.cuda.is_available():
        return Finding("GPU", "ok", torch.cuda.get_device_name())
    return Finding(
        "GPU", "none", "no CUDA device", "Not needed: every point can be earned on this CPU."
    )


def _weights() -> Finding:
    import onelayer

    try:
        head = onelayer.head()
    except RuntimeError as error:
        return Finding("weights", "missing", "missing or damaged", str(error))
    return Finding("weights", "ok", f"the trained head, {tuple(head.weight.shape)}")


def _jupyter() -> Finding:
    return _package("jupyter", "jupyterlab", 'pip install "jupyterlab>=4.4", or open it in Colab.')


def _anywidget() -> Finding:
    to_do = 'Predictions become plain lists; pip install "anywidget>=0.9.18" makes them clickable.'
    return _package("anywidget", "anywidget", to_do)


def _package(what: str, name: str, to_do: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(what, "missing", "not installed", to_do)
    try:
        return Finding(what, "ok", version(name))
    except PackageNotFoundError:
        return Finding(what, "ok", "installed")


def _compiler() -> Finding:
    named = os.environ.get("CXX", "").split()[:1]
    names = [*named, "c++", "g++", "clang++", "cl"]
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path:
        return Finding("compiler", "ok", path)
    to_do = "Units 06 and 08 compile C++: `apt install g++`, or `xcode-select --install` on a Mac."
    return Finding("compiler", "missing", "no C++ compiler", to_do)


def _span(versions: tuple[tuple[int, int], tuple[int, int]]) -> str:
    low, high = (".".join(map(str, v)) for v in versions)
    return f"{low} to {high}"


def in_words(finding: Finding) -> tuple[str, str, str, str]:
    """What was looked at, how it is, what was found, and what to do about it."""
    word = say(f"doctor.{finding.word}")
    return content(finding.what), word, content(finding.found), content(finding.to_do)


def _shown(findings: tuple[Finding, ...]) -> Shown:
    missing = [finding.what for finding in findings if finding.word == "missing"]
    things = ", ".join(map(content, missing))
    summary = say("to_do", things=things) if missing else say("machine_ready")
    said = [in_words(finding) for finding in findings]
    lines = [f"  {what:<10} {word:<8} {found}{'. ' * bool(to_do)}{to_do}"
             for what, word, found, to_do in said]  # fmt: skip
    body = "".join(
        f'<tr><th scope="row">{escape(what)}</th><td>{escape(word)}</td>'
        f"<td>{escape(found)}{'. ' * bool(to_do)}{prose(to_do)}</td></tr>"
        for what, word, found, to_do in said
    )
    table = f"<table><caption>{escape(summary)}</caption><tbody>{body}</tbody></table>"
    html = card(f'<div class="ol-scroll">{table}</div>', label=say("label.machine"), role="group")
    return Shown("\n".join([summary, *lines]), html)
