"""Whether a GPU still works, found by using it: a small kernel and an allocation in a fresh process
of the same jail, the same way as a submission's."""

import time

import torch

from autograder.judge import GraderFault, Malformed, NoAnswer, Raised
from autograder.sandbox import CONTEXT_BYTES, Cell, Jail

N = 2**20
WANTED = float(sum(range(1, 9)) * N // 8)
PATIENCE_S = 60.0  # a new context, on a busy machine
TRIES = 2
RETURN_S, RETURN_TRIES = 1.0, 10  # the memory of a process that was killed comes back by and by
PROBE = """
import torch


def device_health(x):
    filled = torch.ones(len(x) * 16, device=x.device).mul_(2)
    if [filled.min().item(), filled.max().item()] != [2, 2]:
        raise RuntimeError("what it was told to keep is not what it kept")
    return [x.sum().item(), x.device.type]
"""


class DeviceLost(GraderFault):
    """The GPU does not work any more, whoever's fault it was: nothing can be graded on it."""


def expect_healthy(jail: Jail, after: str) -> None:
    """Raises DeviceLost, with what happened before (`after`) and what the GPU says."""
    text = ""
    for _ in range(TRIES):
        text = _asked(jail)
        if not text:
            return
    gpu = jail.gpu
    named = f"{gpu.title} (GPU {gpu.name})" if gpu else "the GPU"
    raise DeviceLost(f"{named} does not work {after}: {text}")


def expect_returned(jail: Jail) -> None:
    """Raises DeviceLost where memory of the GPU is still lent although nobody of ours is left."""
    gpu, left = jail.gpu, 0
    if gpu is None:
        return
    for _ in range(RETURN_TRIES):
        left = gpu.used_bytes(()) or 0
        if left <= CONTEXT_BYTES:
            return
        time.sleep(RETURN_S)
    held = f"{left // 2**20:,} MiB of its memory are not given back"
    raise DeviceLost(f"{gpu.title} (GPU {gpu.name}) is held by a process that is not ours: {held}")


def _asked(jail: Jail) -> str:
    """What is wrong; "" if nothing is."""
    x = torch.arange(1, 9, dtype=torch.float32).repeat(N // 8)
    try:
        with jail.open([Cell("probe", PROBE)]) as student:
            student.begin(may_write=False, budget_s=PATIENCE_S)
            got = student.call("device_health", x)
    except NoAnswer as none:
        return _in_words(none.raised)
    except (GraderFault, Malformed) as fault:
        return str(fault)
    wanted = [WANTED, "cuda" if jail.gpu and jail.gpu.device == "cuda" else "cpu"]
    return "" if got == wanted else f"it answers {got}, not {wanted}"


def _in_words(raised: Raised) -> str:
    return (str(raised).splitlines() or ["it says nothing"])[0]
