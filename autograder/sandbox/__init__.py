"""Where a stranger's code runs, and how the grader talks to it.

What lives here: the jail (bubblewrap around a zygote, a fork in namespaces of its own for each
submission), its limits, the wire, and `JailedStudent`, the handle that a check holds. What may not:
labs, checks, verdicts, notebooks, grades. Everything that comes out of a jail is a claim, and is
read as one.

    inside the jail:        zygote, namespaces, landlock, seccomp, face, shell, serve
    on the grader's side:   jail, warden, jailed, bubblewrap, privileges, cgroups, memory, running,
                            asking, loading, student, tiers, process, spawn
    both:                   wire, messages, limits, walls

Not promised: that the kernel itself has no hole, or, where the machine lends no cgroups, that a
busy submission leaves the processors to others until its time is up.
"""

from .cgroups import sweep
from .jail import Jail
from .limits import Limits
from .loading import Cell, CellResult
from .student import JailedStudent
from .tiers import BUBBLEWRAP, Tier, probe

__all__ = [
    "BUBBLEWRAP",
    "Cell",
    "CellResult",
    "Jail",
    "JailedStudent",
    "Limits",
    "Tier",
    "probe",
    "sweep",
]
