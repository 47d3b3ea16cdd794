"""Where a stranger's code runs, and how the grader talks to it.

What lives here: the jail (bubblewrap around a zygote, a fork in namespaces of its own for each
submission), its limits, the wire, and `JailedStudent`, the handle that a check holds. What may not:
labs, checks, verdicts, notebooks, grades. Everything that comes out of a jail is a claim, and is
read as one.

    host       the grader's side: starts jails, speaks to them, survives whatever they do
    inside     beside the student's code: the zygote, its forks, their walls from within
    engines    what a jail is built of, and which of it this machine has
    wire       frames and messages, as both sides know them

host knows the other three, inside knows engines and wire, and no arrow runs back.

Not promised: that the kernel itself has no hole, or, where a GPU is lent, its driver, which every
submission talks to then; that such a submission uses the GPU that it was named and no other; or,
where the machine lends no cgroups, that a busy submission leaves the processors to others until its
time is up.

What stands here is imported when it is first used: a jail can begin before its owner has imported
torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engines.cgroups import sweep
    from .engines.gpu import CONTEXT_BYTES, CUDA, DEFAULT_SHARE, SIMULATED, Gpu
    from .engines.limits import Limits
    from .engines.mocked_gpu import MOCKED, mocked_gpu
    from .host.jail import Jail
    from .host.jailed_student import JailedStudent
    from .host.loading import Cell, CellResult
    from .host.tiers import BUBBLEWRAP, Tier, probe
    from .host.zygote_startup import BegunZygote, begin_usual

__all__ = [
    "BUBBLEWRAP",
    "CONTEXT_BYTES",
    "CUDA",
    "DEFAULT_SHARE",
    "MOCKED",
    "SIMULATED",
    "BegunZygote",
    "Cell",
    "CellResult",
    "Gpu",
    "Jail",
    "JailedStudent",
    "Limits",
    "Tier",
    "begin_usual",
    "mocked_gpu",
    "probe",
    "sweep",
]

_ROOMS = {
    "engines.cgroups": ("sweep",),
    "engines.gpu": ("CONTEXT_BYTES", "CUDA", "DEFAULT_SHARE", "SIMULATED", "Gpu"),
    "engines.limits": ("Limits",),
    "engines.mocked_gpu": ("MOCKED", "mocked_gpu"),
    "host.zygote_startup": ("BegunZygote", "begin_usual"),
    "host.jail": ("Jail",),
    "host.jailed_student": ("JailedStudent",),
    "host.loading": ("Cell", "CellResult"),
    "host.tiers": ("BUBBLEWRAP", "Tier", "probe"),
}


def __getattr__(name: str) -> object:
    for room, names in _ROOMS.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{room}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
