"""How many submissions may share the machine's GPUs, and which of them uses which.

A question says what it needs: `device_share=0.25`, a quarter of one device. All submissions of a
class are of one lab, so nothing is scheduled: so many workers are started that the devices hold
them, and each keeps the device it was given. Where there is no GPU, nothing of this applies.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
RESOURCE = "device"
"""What a Dask worker with a GPU declares: `dask worker --resources device=1`."""


def lent(environ: Mapping[str, str] = os.environ, dev: Path = Path("/dev")) -> tuple[str, ...]:
    """The GPUs that we may use, by the names that CUDA knows them by, without asking CUDA: a
    process that did could not be forked any more."""
    if VISIBLE in environ:
        named = [name.strip() for name in environ[VISIBLE].split(",")]
        return tuple(name for name in named if name and name != "-1")
    numbers = sorted(int(node.name[6:]) for node in dev.glob("nvidia[0-9]*"))
    return tuple(map(str, numbers))


def slots(devices: Sequence[str], share: float) -> int:
    """How many submissions the devices hold that take `share` (0 < share <= 1) of one each."""
    return len(devices) * int(1 / share + 1e-9)


def emptiest(devices: Sequence[str], taken: Iterable[str]) -> str:
    """The device that the fewest use; "" where there is none."""
    used = Counter(taken)
    return min(devices, key=lambda device: used[device], default="")
