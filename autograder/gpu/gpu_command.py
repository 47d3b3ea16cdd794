"""`make gpu`: what a person types, and the one line where it cannot be done."""

import sys
from pathlib import Path

import click
import torch
from rich.console import Console

from autograder.classroom.commands.doctor import doctor
from autograder.classroom.errors import UserError
from autograder.classroom.intake.release import course_folder
from autograder.classroom.run import devices, nvidia_smi
from autograder.sandbox import MOCKED, SIMULATED

from . import results_page
from .place import NoLaunch
from .whole_run import Run

RESULTS = Path("docs/gpu")


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS, show_default=True)
@click.option("--lab", "labs", multiple=True, help="Only this lab, as in 01_strides.")
@click.option("--right", is_flag=True, help="Only the right answers, of all labs in minutes.")
@click.option("--simulated", "played", flag_value=SIMULATED, help="Let the CPU play the GPU.")
@click.option("--mocked", "played", flag_value=MOCKED, help="torch's CUDA build, a mocked driver.")
def main(out: Path, labs: tuple[str, ...], right: bool, played: str) -> None:
    """Grade every answer that the course knows on this machine's GPU, and write a page about it."""
    console = Console(emoji=False)
    if why := "" if played else missing():
        sys.exit(f"make gpu needs an NVIDIA GPU: {why}")
    doctor(console)
    try:
        made = Run(course_folder(Path()), played or devices.lent()[0], console)
        for results in made.results(labs, wrong_ones=not right):
            written = results_page.write(results, out)
    except (NoLaunch, UserError) as reason:
        sys.exit(f"Cannot go on: {reason}")
    for line in [*map(str, written), *results["faults"]]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    sys.exit(1 if results["faults"] else 0)


def missing() -> str:
    """What a GPU run lacks here, in one sentence; "" if nothing."""
    lent = devices.lent()
    if not lent:
        return "this machine has none (no /dev/nvidia0), or CUDA_VISIBLE_DEVICES hides it."
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA. GPU_PYTHON=... names another one."
    if nvidia_smi.facts(lent[0]) is None:
        return "nvidia-smi does not answer, so the driver is missing or does not work."
    return ""
