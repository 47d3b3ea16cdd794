"""Which walls this machine can build, found by building them once."""

import functools
import platform
import shutil
import sys
from dataclasses import dataclass

from ..engines.choice import by_bubblewrap, by_container
from ..engines.limits import Limits
from ..inside import seccomp
from . import trial

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


def container(reason: str) -> Tier:
    """The tier that takes the place of bubblewrap, and why it does."""
    told = "Each submission runs in namespaces of its own, in a container"
    return Tier("podman", f"{told}; bubblewrap does not run: {reason.rstrip('.')}.", True)


def obstacle(tier: Tier = BUBBLEWRAP) -> str:
    """Why there can be no jail here, as far as can be seen without trying; "" if nothing is."""
    if sys.platform != "linux":
        return f"the jail needs Linux, and this is {platform.system()}: use a Linux machine."
    if platform.machine() not in seccomp.MACHINES:
        known = ", ".join(seccomp.MACHINES)
        return f"there is no system call filter for {platform.machine()}, only for {known}."
    if tier == BUBBLEWRAP and shutil.which("bwrap") is None:
        return "bubblewrap is not installed: apt-get install bubblewrap"
    return ""


@functools.cache
def probe() -> Tier:
    """The best tier of this machine: every wall is built, once per process."""
    failure = obstacle() or explained(trial.failure(Limits(), start=by_bubblewrap))
    if not failure:
        return BUBBLEWRAP
    instead = container(failure)
    if shutil.which("podman") is None or obstacle(instead):
        return plain(failure)
    also = trial.failure(Limits(), start=by_container)
    return plain(f"{failure.rstrip('.')}; nor does podman: {also}") if also else instead


def explained(failure: str) -> str:
    """`failure` in one sentence, with what to type where we know it."""
    line = " ".join(failure.split())
    return f"{line} ({NAMESPACES_OFF})" if any(r in line for r in REFUSALS) else line
