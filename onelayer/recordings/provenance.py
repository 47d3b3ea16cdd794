"""Where a recording comes from: the device, its driver, the versions, the day, the command."""

import platform
import re
import subprocess
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill

import torch

from onelayer.drawing.words import say

_KERNEL_SAYS = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True)
class Provenance:
    """device: its name; ran_on: "cuda", "mocked" for torch's CUDA build over a mocked driver, or
    "cpu" for a trial; driver: of the GPU, else "none"; torch and triton: versions; date: ISO, UTC;
    made_by: the command."""

    device: str
    ran_on: str
    driver: str
    torch: str
    triton: str
    date: str
    made_by: str

    def __str__(self) -> str:
        return say(
            "recorded on {where}, driver {driver}, torch {torch}, triton {triton}, {date}, "
            "by `{by}`",
            where=self.device_name + say(_NO_GPU.get(self.ran_on, "")),
            driver=self.driver,
            torch=self.torch,
            triton=self.triton,
            date=self.date,
            by=self.made_by,
        )

    @property
    def device_name(self) -> str:
        """The device for the reader, who learns in any language that it is mocked."""
        mocked, _, name = self.device.partition("mocked ")
        return self.device if mocked or not name else say("mocked {device}", device=name)


def in_text(told: str) -> str:
    """A line about provenance without markup, broken between words: a notebook breaks in them."""
    return fill(told.replace("`", ""), 80, break_on_hyphens=False, break_long_words=False)


def in_html(told: str, page: str = "") -> str:
    """A line about provenance, its command in the letters of code, and under it a page."""
    line = re.sub(r"`(.+?)`", r"<code>\1</code>", escape(told))
    return f'<div class="onelayer-told"><style>{_CSS}</style><p>{line}</p>{page}</div>'


# A caption, smaller than the prose around it.
# In JupyterLab a letter from the left, and what is preformatted in the size, as print's lines are.
_CSS = """
.onelayer-told > p { font-size: .85em; line-height: 1.4; opacity: .85; max-width: 48em }
.jp-RenderedHTMLCommon .onelayer-told > :is(p, pre, details)
{ margin: .4em 0; padding-left: calc(.6 * var(--jp-code-font-size)) }
.jp-RenderedHTMLCommon .onelayer-told > pre
{ font-size: var(--jp-code-font-size); line-height: var(--jp-code-line-height) }
"""


_NO_GPU = {
    "cpu": ", which is no GPU",
    "mocked": ", which is no GPU: launches and memory are torch's own, times are a model",
}
FIELDS = tuple(field.name for field in fields(Provenance))


def provenance_here(device: str, made_by: str) -> Provenance:
    """Of what `made_by` records on this machine's `device`, "cuda", "mocked" or "cpu", today."""
    return Provenance(
        device=_NAMES[device](),
        ran_on=device,
        driver=_driver() if device == "cuda" else "none",
        torch=torch.__version__,
        triton=version("triton") if find_spec("triton") else "none",
        date=datetime.now(UTC).date().isoformat(),
        made_by=made_by,
    )


_NAMES = {
    "cuda": lambda: torch.cuda.get_device_name(),
    "mocked": lambda: f"mocked {torch.cuda.get_device_name()}",
    "cpu": lambda: f"CPU {platform.machine()}",
}


def mocked_provenance(device: str, made_by: str) -> Provenance:
    """Of what `made_by` sees of the mocked device of that name here, today."""
    return replace(provenance_here("cpu", made_by), device=f"mocked {device}", ran_on="mocked")


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
