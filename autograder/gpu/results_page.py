"""The results as they are kept: one JSON object, and the same as a short page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import provenance

Results = dict[str, Any]


def write(results: Results, folder: Path) -> list[Path]:
    """The JSON file and the page, in `folder`, named after the device and torch."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / provenance.file_name(results["machine"])
    paths = [Path(f"{stem}.json"), Path(f"{stem}.md")]
    paths[0].write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
    paths[1].write_text("\n".join(page(results)) + "\n", "utf-8")
    return paths


def page(results: Results) -> Iterator[str]:
    machine, sandbox = results["machine"], results["sandbox"]
    yield f"# {machine['device']}, torch {machine['torch']}"
    yield ""
    yield f"Found by `{machine['command']}` on {machine['date']}, commit {machine['commit']}:"
    yield f"driver {machine['driver'] or 'unknown'}, CUDA {machine['cuda'] or 'none'}, Triton"
    yield f"{machine['triton'] or 'none'}, Python {machine['python']}, {machine['system']}."
    yield ""
    yield f"Sandbox: `{sandbox['name']}`, in which a kernel was launched first."
    yield from (f"Not used: {reason}." for reason in sandbox["refused"])
    yield ""
    yield from _labs(results["labs"], alone=machine["command"] == provenance.RIGHT_ALONE)
    yield ""
    yield from _kernels(results["kernels"])
    if results["not_yet"]:
        yield from _names("Labs not asked yet", results["not_yet"])
    yield from _names("Other verdicts than on the CPU", _differing(results))
    stays = [f"`{name}`: {why}" for name, why in results["on_the_cpu"].items()]
    yield from _names("Questions that stay on the CPU", stays)
    left = [f"`{name}`: {why}" for name, why in results["not_asked"].items()]
    yield from _names("Wrong answers that only `make selftest` asks", left)
    yield from _names("What is wrong", results["faults"])


def _labs(labs: dict[str, Any], *, alone: bool) -> Iterator[str]:
    yield "| lab | right pass | wrong rejected | faults | seconds | peak memory |"
    yield "|---|---|---|---|---|---|"
    for name, lab in labs.items():
        peak = "unknown" if lab["peak_bytes"] is None else f"{lab['peak_bytes'] / 2**20:,.0f} MiB"
        wrong = "not asked" if alone else lab["wrong"]
        numbers = [lab["right"], wrong, len(lab["faults"]), lab["seconds"]]
        cells = [name, *map(str, numbers), peak]
        yield f"| {' | '.join(cells)} |"


def _kernels(kernels: dict[str, Any]) -> Iterator[str]:
    yield "| kernels by | result | seconds |"
    yield "|---|---|---|"
    for name, tried in kernels.items():
        yield f"| {name} | {tried['text']} | {tried['seconds']} |"


def _differing(results: Results) -> list[str]:
    labs = results["labs"]
    return [f"`{question}` of {name}" for name in labs for question in labs[name]["differs"]]


def _names(title: str, names: list[str]) -> Iterator[str]:
    """A list under its title, in any case: none is a result, too."""
    yield ""
    yield f"**{title}:** {'none.' if not names else ''}".rstrip()
    yield from (f"- {' '.join(name.split())}" for name in names)
