"""The fused loss of the head against its peers: eager, torch.compile, torch's own, Liger, CCE.

    python -m bench.head_loss [--device cpu|cuda] [--tokens 16384,131072,1048576] [--out FILE]

Forward and backward, all peers in turns within one run, inputs changed each time, on a GPU with its
second cache flushed before each step. Prints a table and writes FILE, one JSON object. On a CPU one
thread is used and only ratios mean something.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from bench.loss_devices import Cpu, Device, Gpu, inputs, step
from bench.loss_floor import floor
from bench.loss_peers import NAMES, OURS, Absent, HeadLoss, peer, versions
from onelayer.kernels.eager import eager_head_loss
from onelayer.recordings.head_times import HeadTimes

TURNS = 15
RESULTS = Path("bench/results/head_loss.json")
INPUTS = 3
TOLERANCE = 0.03  # relative 2-norm against eager in the same dtype: bfloat16's own is near 0.002
Measured = dict[str, Any]


def measured(
    device: Device,
    sizes: Sequence[int],
    names: Sequence[str],
    turns: int,
    say: Callable[[str], Any],
) -> Measured:
    """Everything that a table or a page needs, in JSON's types."""
    result: Measured = {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "device": device.name,
        "load": os.getloadavg()[0],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "versions": versions(),
        "dtype": str(device.dtype),
        "turns": turns,
        "absent": {},
        "tokens": {},
    }
    found: dict[str, HeadLoss] = {}
    for name in names:
        try:
            found[name] = peer(name, device.place)
        except Absent as why:
            result["absent"][name] = str(why)
    for n in sizes:
        say(f"{n:,} tokens: time")
        row = in_turns(found, n, device, turns)
        say(f"{n:,} tokens: memory")
        row["bytes"] = {name: device.peak_bytes(name, n) for name in row["ms"]}
        row["floor"] = floor(n, device)
        result["tokens"][n] = row
    return result


def in_turns(found: dict[str, HeadLoss], n: int, device: Device, turns: int) -> Measured:
    """ms: name -> median milliseconds. failed: name -> why it is not among them."""
    rotated = [inputs(n, device) for _ in range(INPUTS)]
    failed = {name: why for name in found if (why := objection(found[name], rotated[0]))}
    admitted = [name for name in found if name not in failed]
    taken = {name: list[float]() for name in admitted}
    for turn in range(turns):
        given = rotated[turn % INPUTS]
        first = turn % max(1, len(admitted))  # nobody always follows the same neighbour
        for name in admitted[first:] + admitted[:first]:
            loss_of = found[name]
            taken[name].append(device.ms(lambda loss_of=loss_of, given=given: step(loss_of, given)))
    return {"ms": {name: median(times) for name, times in taken.items()}, "failed": failed}


def objection(loss_of: HeadLoss, given: Sequence[Tensor]) -> str:
    """Why this peer is not timed: nobody wins by computing something else. Its warm-up, too."""
    try:
        got = step(loss_of, given)
        off = max(map(_difference, step(eager_head_loss, given), got))
    except Exception as error:  # a compiler, a kernel, memory: one peer less, and the run goes on
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return "" if off <= TOLERANCE else f"differs from eager by {off:.2g}: nothing to time"


def _difference(want: Tensor, got: Tensor) -> float:
    """Infinite where it is not a number."""
    off = float((want.double() - got.double()).norm() / want.double().norm())
    return off if off == off else float("inf")


def record_head_times(device: str) -> HeadTimes:
    """The same as a recording: at the sizes of the device."""
    on = _device(device)
    return HeadTimes.from_plain(measured(on, on.sizes, NAMES, TURNS, print))


def table(result: Measured) -> str:
    lines = [
        _COLUMNS.format("tokens", "peer", "ms", "eager/it", "compiled/it", "peak MiB", "floor")
    ]
    for n, row in result["tokens"].items():
        for name, ms in row["ms"].items():
            ratios = (row["ms"][base] / ms if base in row["ms"] else None for base in NAMES[:2])
            shown = (f"{ratio:.2f} x" if ratio else "" for ratio in ratios)
            mib, part = row["bytes"][name] / 2**20, row["floor"]["floor_ms"] / ms
            line = _COLUMNS.format(f"{n:,}", name, f"{ms:.2f}", *shown, f"{mib:.1f}", f"{part:.0%}")
            lines.append(line)
        lines += [
            f"{n:>10,}  {name}: {why}" for name, why in (row["failed"] | result["absent"]).items()
        ]
    return "\n".join(lines)


_COLUMNS = "{:>10}  {:<18}{:>10}{:>10}{:>13}{:>11}{:>8}"


def _device(name: str) -> Device:
    if name == "cpu":
        return Cpu()
    if not torch.cuda.is_available():
        sys.exit("No CUDA GPU is to be had here: --device cpu measures ratios.")
    return Gpu()


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Plain words and no library for them: a GPU node has few."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.head_loss", description="Measure the fused losses of the head."
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--tokens", help="batch sizes (default: 2^10 to 2^17, GPU: 2^14 to 2^20)")
    parser.add_argument("--peers", help=f"who takes part (default: {','.join(NAMES)})")
    parser.add_argument("--turns", type=int, default=TURNS, help="steps of each")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the file. Exits with 1 where one of ours was not timed."""
    asked = _asked(arguments)
    names = asked.peers.split(",") if asked.peers else NAMES
    if unknown := set(names) - set(NAMES):
        sys.exit(f"No such peer: {', '.join(sorted(unknown))}.")
    on = _device(asked.device)
    sizes = [int(n) for n in asked.tokens.split(",")] if asked.tokens else on.sizes
    result = measured(on, sizes, names, asked.turns, print)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(f"{result['device']}, torch {result['torch']}, load {result['load']}; {asked.out}")
    rows = result["tokens"].values()
    if broken := {name for row in rows for name in row["failed"] if name in OURS}:
        sys.exit(f"Ours, and not timed: {', '.join(sorted(broken))}.")


if __name__ == "__main__":
    main()
