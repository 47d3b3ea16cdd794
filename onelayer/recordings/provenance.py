"""Where a recording comes from: the device, its driver, the versions, the day, the command."""

import platform
import re
import subprocess
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch

_KERNEL_SAYS = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Provenance:
    """device: its name; ran_on: "cuda", "mocked" for a mocked device, or "cpu" for a trial; driver:
    of the GPU, else "none"; torch and triton: versions; date: ISO, UTC; made_by: the command."""

    device: str
    ran_on: str
    driver: str
    torch: str
    triton: str
    date: str
    made_by: str

    def __str__(self) -> str:
        if self.ran_on == "mocked":
            return (
                f"mocked {self.device}, modelled time, torch {self.torch}, {self.date}, "
                f"by `{self.made_by}`"
            )
        where = self.device if self.ran_on == "cuda" else f"{self.device}, which is no GPU"
        with_what = f"driver {self.driver}, torch {self.torch}, triton {self.triton}"
        return f"recorded on {where}, {with_what}, {self.date}, by `{self.made_by}`"


FIELDS = tuple(field.name for field in fields(Provenance))


def provenance_here(device: str, made_by: str) -> Provenance:
    """Of what `made_by` records on this machine's `device`, "cuda" or "cpu", today."""
    on_gpu = device == "cuda"
    return Provenance(
        device=torch.cuda.get_device_name() if on_gpu else f"CPU {platform.machine()}",
        ran_on=device,
        driver=_driver() if on_gpu else "none",
        torch=torch.__version__,
        triton=version("triton") if find_spec("triton") else "none",
        date=datetime.now(UTC).date().isoformat(),
        made_by=made_by,
    )


def mocked_provenance(device: str, made_by: str) -> Provenance:
    """Of what `made_by` sees of the mocked device of that name here, today."""
    return replace(provenance_here("cpu", made_by), device=device, ran_on="mocked")


def _driver() -> str:
    """Of nvidia-smi; where there is none of the kernel's module; else what CUDA it can speak."""
    try:
        ask = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        told = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True).stdout
        return told.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        pass
    said = _KERNEL_SAYS.read_text() if _KERNEL_SAYS.exists() else ""
    if found := re.search(r"\b\d+\.\d+(\.\d+)?\b", said):
        return found[0]
    return f"for CUDA {torch.version.cuda}"
