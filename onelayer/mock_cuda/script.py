"""Any torch script on the mocked device: run, watched, and told about in a page."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onelayer.drawing.words import say
from onelayer.mock_cuda.calls import read_calls
from onelayer.mock_cuda.devices import DeviceModel
from onelayer.mock_cuda.environment import OUT_OF_MEMORY, mocked_environment
from onelayer.mock_cuda.summary import Seen, summary


@dataclass(frozen=True)
class ScriptRun:
    """A script that was run: its exit code, the page about it, and the files for Perfetto
    (https://ui.perfetto.dev) and for torch's memory viewer (https://pytorch.org/memory_viz)."""

    exit_code: int
    page: str
    files: tuple[Path, ...]


def run_script(
    script: Path,
    arguments: Sequence[str],
    *,
    model: DeviceModel,
    devices: int = 1,
    values: bool = False,
    out: Path,
) -> ScriptRun:
    """Runs `script arguments...` with this Python on mocked devices, and leaves trace.json and
    memory.pickle in `out`. What it prints goes where this process's output goes.

    Raises NoMock where this torch or this machine can have no mocked device.
    """
    with tempfile.TemporaryDirectory(prefix="mock-") as name:
        folder = Path(name)
        environment = mocked_environment(
            model, devices=devices, values=values, trace=True, folder=folder
        )
        command = [sys.executable, str(script), *arguments]
        code = subprocess.call(command, env=environment)
        page = summary(_seen(folder, model, code, values))
        return ScriptRun(code, page, tuple(_kept(folder, out)))


def _seen(folder: Path, model: DeviceModel, code: int, values: bool) -> Seen:
    counters: list[dict[str, Any]] = []
    for file in sorted(folder.glob("memory*.json")):
        counters += json.loads(file.read_text()).values()
    ran_out = folder / OUT_OF_MEMORY
    return Seen(
        model=model,
        values=values,
        calls=read_calls(folder),
        stats=counters,
        out_of_memory=ran_out.read_text().strip() if ran_out.exists() else "",
        ended=say("with exit code {code}", code=code) if code else say("well"),
    )


def _kept(folder: Path, out: Path) -> list[Path]:
    """The files that are worth keeping, moved to where the reader finds them."""
    out.mkdir(parents=True, exist_ok=True)
    kept = []
    for file in sorted([*folder.glob("trace*.json"), *folder.glob("memory*.pickle")]):
        place = out / file.name
        place.write_bytes(file.read_bytes())
        kept.append(place)
    return kept
