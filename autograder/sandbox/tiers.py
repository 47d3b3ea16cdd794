"""Which walls this machine can build, found by building them once."""

from __future__ import annotations

import functools
import platform
import shutil
import sys
from dataclasses import dataclass

from autograder.judge import GraderFault

from . import seccomp
from .jailed import WardenLost
from .limits import Limits
from .warden import Warden

NAMESPACES_OFF = (
    "unprivileged user namespaces are switched off: try sysctl -w "
    "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or run the container with "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined"
)
REFUSALS = ("namespace", "uid map", "Operation not permitted", "Permission denied")


@dataclass(frozen=True)
class Tier:
    """A way to run submissions. reason: one sentence; safe: whether for other people's code."""

    name: str
    reason: str
    safe: bool


BUBBLEWRAP = Tier("bubblewrap", "Each submission runs in namespaces of its own, in a jail.", True)


def plain(reason: str) -> Tier:
    """The tier without walls, and why."""
    return Tier("process", reason, False)


def obstacle() -> str:
    """Why there can be no jail here, as far as can be seen without trying; "" if nothing is."""
    if sys.platform != "linux":
        return f"the jail needs Linux, and this is {platform.system()}: use a Linux machine."
    if platform.machine() not in seccomp.MACHINES:
        known = ", ".join(seccomp.MACHINES)
        return f"there is no system call filter for {platform.machine()}, only for {known}."
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed: apt-get install bubblewrap"
    return ""


@functools.cache
def probe() -> Tier:
    """The best tier of this machine: a jail is built, once per process.

    Takes as long as importing torch. `Jail()` needs no probe: it builds a jail, or says why not.
    """
    failure = obstacle() or _trial()
    return plain(failure) if failure else BUBBLEWRAP


def _trial() -> str:
    try:
        warden = Warden(Limits())
    except GraderFault as fault:
        return explained(str(fault))
    try:
        warden.fork().kill()
    except (GraderFault, WardenLost) as fault:
        return explained(str(fault))
    finally:
        warden.close()
    return ""


def explained(failure: str) -> str:
    """`failure` in one sentence, with what to type where we know it."""
    line = " ".join(failure.split())
    return f"{line} ({NAMESPACES_OFF})" if any(r in line for r in REFUSALS) else line
