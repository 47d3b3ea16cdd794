"""`autograder gradescope`: the zip of which Gradescope makes the autograder of one lab.

The form: https://gradescope-autograders.readthedocs.io/en/latest/specs/. In it are the course's
two packages, the lab as it was given out and this class's secret of the seeds; no solution. What it
does there: `gradescope_run`.
"""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from autograder import atomic_write

from ..errors import UserError, the_one
from ..intake.release import Release, releases
from ..store import seed_secret
from .grade import our_own
from .grading_run import Order

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("autograder", "onelayer")
PROJECT = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "LICENSE-TEXT")
BEGINNING = (2000, 1, 1, 0, 0, 0)
"""The time of every file in it: the same course makes the same bytes."""
SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this as root, once, when it makes the image.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
chmod -R go-rwx "$here"
export DEBIAN_FRONTEND=noninteractive
# Where a CPU build of torch lies; PyPI's own brings gigabytes of CUDA.
export PIP_EXTRA_INDEX_URL=${PIP_EXTRA_INDEX_URL:-https://download.pytorch.org/whl/cpu}
apt-get update -q
apt-get install -y -q --no-install-recommends bubblewrap g++ ca-certificates
for python in python3.13 python3.12 python3.11 none; do
    apt-get install -y -q --no-install-recommends "$python" "$python-venv" "$python-dev" && break
done
[ "$python" != none ] || { echo "No Python 3.11 to 3.13 here: choose another image." >&2; exit 1; }
"$python" -m venv /opt/onelayer
/opt/onelayer/bin/python -m pip install --quiet --no-cache-dir \\
    -c "$here/course/constraints.txt" "$here/course[grade]"
# What it says of this machine; the walls are tried anew in each run.
/opt/onelayer/bin/autograder doctor || true
"""
RUN = """\
#!/usr/bin/env bash
exec /opt/onelayer/bin/python -m autograder.classroom.commands.gradescope_run /autograder @LAB@
"""


def gradescope(out: Path, course: Path, lab: str, console: Console) -> None:
    """Writes the zip into the grading folder `out`, whose seeds its runs draw, and says where it
    lies. Raises UserError for what the instructor can put right."""
    known = releases(course)
    release = known[the_one(lab, list(known), "lab")]
    with our_own(Order(None, out, course)):
        data = archive(release, seed_secret.secret(out))
        path = out / "gradescope" / f"{release.name}.zip"
        path.parent.mkdir(exist_ok=True)
        atomic_write.write(path, data, mode=0o600)
    for line in (
        f"zip         {path}: on Gradescope, Configure Autograder, Zip file upload",
        "            It holds this class's secret: give it to nobody else.",
    ):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def archive(release: Release, secret: bytes) -> bytes:
    """The zip's bytes. Raises UserError where the course is not here as its repository has it."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data, mode in _files(release, secret):
            entry = zipfile.ZipInfo(name, BEGINNING)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, data)
    return held.getvalue()


def _files(release: Release, secret: bytes) -> Iterator[tuple[str, bytes, int]]:
    yield "setup.sh", SETUP.encode(), 0o755
    yield "run_autograder", RUN.replace("@LAB@", release.name).encode(), 0o755
    yield "seed", secret, 0o600
    yield f"course/labs/{release.name}/{release.name}.ipynb", release.notebook, 0o644
    for code, twin in release.twins.items():
        yield f"course/{code}/labs/{release.name}/{release.name}.ipynb", twin, 0o644
    for path in _of_the_course():
        yield f"course/{path.relative_to(ROOT)}", path.read_bytes(), 0o644


def _of_the_course() -> Iterator[Path]:
    if missing := [name for name in PROJECT if not (ROOT / name).is_file()]:
        raise UserError(
            f"{ROOT} has no {missing[0]}: make the zip in a clone of the course, set up by `make`."
        )
    yield from (ROOT / name for name in PROJECT)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
