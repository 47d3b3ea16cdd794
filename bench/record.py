"""Records on a GPU what readers without one are shown: `make record`.

    python -m bench.record [NAME ...] [--device cuda|mocked|cpu] [--into FOLDER]

Each recording is made in a process of its own and put in its place whole. One that fails is
named, and what was there before stays. It needs torch, triton and safetensors, and nothing else.

`--device mocked` (`make record-mocked`) makes those that are true on a mocked device, as an H100,
with torch's CUDA build, in a folder beside the GPU's. With `--device cpu --into
FOLDER` it shows how a recording is made; nothing of that kind is ever shipped.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onelayer.recordings import Content
    from onelayer.recordings.provenance import Provenance

# What is recorded -> the function of a device that records it.
RECORDERS = {
    "head_loss_times": "bench.head_loss:record_head_times",
    "head_loss": "onelayer.recordings.head_code:record_head_code",
    "step_memory": "onelayer.recordings.step_memory:record_step_memory",
    "step_overlap": "onelayer.recordings.step_overlap:record_step_overlap",
}

UNFIT = {
    "cpu": {"step_memory": "no allocator but CUDA's keeps a trace"},
    "mocked": {"head_loss_times": "the times of a mocked device are a model"},
    "cuda": {},
}


def missing(device: str) -> list[str]:
    """What this machine lacks for a recording on `device`, in words. What a mocked one lacks, it
    says itself."""
    needed = ["torch", "safetensors", *(["triton"] if device == "cuda" else [])]
    absent = [f"the Python package {name}" for name in needed if find_spec(name) is None]
    if "the Python package torch" not in absent and device == "cuda":
        absent += [] if import_module("torch").cuda.is_available() else ["a CUDA GPU"]
    return absent


def record(name: str, device: str, folder: Path | None) -> str:
    """Makes one recording, puts it in `folder`, and returns a line about it."""
    from onelayer.recordings import HERE, MOCKED
    from onelayer.recordings.storing import store

    content, made = _on_mocked(name) if device == "mocked" else recorded(name, device)
    file = store(name, content, made, folder or (MOCKED if device == "mocked" else HERE))
    return f"{file.name}: {file.stat().st_size:,} bytes, {made}"


def recorded(name: str, device: str) -> tuple[Content, Provenance]:
    """What this process saw on `device`, and where it comes from."""
    from onelayer.recordings.provenance import provenance_here

    module, _, function = RECORDERS[name].partition(":")
    content = getattr(import_module(module), function)("cpu" if device == "cpu" else "cuda")
    how = " --device mocked" if device == "mocked" else ""
    return content, provenance_here(device, f"python -m bench.record {name}{how}")


def _on_mocked(name: str) -> tuple[Content, Provenance]:
    from onelayer.mock_cuda.run import on_mock_gpu

    run = on_mock_gpu(recorded, name, "mocked", memory=None, trace=False, show=False)
    content, made = run.result
    return content, made


def main(arguments: list[str]) -> int:
    """0 if all that was asked for was recorded; 1 if something is missing or failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.record", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECORDERS))
    parser.add_argument("--device", choices=list(UNFIT), default="cuda")
    parser.add_argument("--into", type=Path, help="a folder (default: onelayer/recordings)")
    asked = parser.parse_args(arguments)
    names = asked.names or [name for name in RECORDERS if name not in UNFIT[asked.device]]
    fault = _fault(names, asked.device, asked.into)
    if fault:
        print(f"Nothing was recorded: {fault}.", file=sys.stderr)
        return 1
    return max([_alone(name, asked.device, asked.into) for name in names])


def _fault(names: list[str], device: str, folder: Path | None) -> str:
    if unknown := [name for name in names if name not in RECORDERS]:
        return f"{', '.join(unknown)} is none of {', '.join(RECORDERS)}"
    if absent := missing(device):
        return f"this machine lacks {' and '.join(absent)}"
    if unfit := [UNFIT[device][name] for name in names if name in UNFIT[device]]:
        return unfit[0]
    if device == "cpu" and folder is None:
        return "what a CPU shows is not shipped; name another folder with --into"
    return ""


def _alone(name: str, device: str, folder: Path | None) -> int:
    """Records in a process of its own, so that no recording meets what another left behind."""
    print(f"{name} ...", flush=True)
    try:
        if device == "mocked":  # it is a process of its own
            print(record(name, device, folder), flush=True)
            return 0
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            print(pool.submit(record, name, device, folder).result(), flush=True)
    except Exception as error:  # whatever it is, the other recordings do not depend on it
        print(f"{name} was not recorded: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
