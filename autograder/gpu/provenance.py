"""What the results were found with: versions, the driver, the commit, the date."""

import importlib.metadata
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from autograder.classroom.run import nvidia_smi
from autograder.sandbox import CUDA, Gpu

RIGHT_ALONE = "make gpu RIGHT=1"


def described(gpu: Gpu, course: Path, *, wrong_ones: bool = True) -> dict[str, Any]:
    facts = nvidia_smi.facts(gpu.name) if gpu.kind == CUDA else None
    return {
        "device": gpu.title,
        "memory_bytes": gpu.memory_bytes,
        "driver": facts.driver if facts else "",
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "triton": _version("triton"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "commit": commit(course),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": "make gpu" if wrong_ones else RIGHT_ALONE,
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def commit(course: Path) -> str:
    """Of the course's folder, with a + where its files are not those of the commit; "unknown" for
    a copy without its history."""
    head = _git(course, "rev-parse", "--short=12", "HEAD")
    return head + ("+" if head and _git(course, "status", "--porcelain") else "") or "unknown"


def _git(course: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=course, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def file_name(described: dict[str, Any]) -> str:
    """As in nvidia-h200-torch2.11.0; -right behind it where only right answers were asked."""
    device = re.sub(r"[^a-z0-9]+", "-", described["device"].lower()).strip("-")
    right = "-right" if described["command"] == RIGHT_ALONE else ""
    return f"{device}-torch{described['torch'].partition('+')[0]}{right}"
