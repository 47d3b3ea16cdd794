"""The command `python -m book`: stage the pages, run Sphinx over them, say where the site is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from autograder.authoring.language import ENGLISH, others
from autograder.authoring.plan import plan
from book import edition, excerpts, living, map_of_units, pages
from book.lighten import lighten
from book.pages import Audience
from book.unit import ROOT

# A kernel warns of its own loopback sockets. And it sends what a cell prints in pieces, five a
# second, of which MyST-NB makes lines: two prints with `end=""` would be torn apart.
KERNEL = {
    "log_level": 40,
    "exec_lines": ["__import__('sys').stdout.flush_interval = 3600"],
}
SPHINX = ["-b", "html", "-W", "--keep-going", "-q", "-j", "1"]


@click.command()
@click.option(
    "--audience",
    type=click.Choice([one.value for one in Audience]),
    default=Audience.PUBLIC.value,
    show_default=True,
    help="Whether solutions are on the pages, behind a fold, or not at all.",
)
@click.option(
    "--language",
    "codes",
    multiple=True,
    type=click.Choice([one.code for one in others(ROOT)]),
    help="Build the site in this language too, below the English one.",
)
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "build" / "book")
def main(audience: str, codes: tuple[str, ...], out: Path) -> None:
    """Build the site into OUT/html."""
    whom, made = Audience(audience), plan(ROOT)
    languages = [edition.named(code) for code in codes]
    site = out / ("html" if whom is Audience.PUBLIC else f"html-{whom.value}")
    for language in (ENGLISH, *languages):
        name = f"{whom.value}{language.prefix and '-'}{language.prefix.rstrip('/')}"
        staged, place = out / f"pages-{name}", site / language.prefix
        if language == ENGLISH:
            pages.stage(made, whom, staged, languages)
            map_of_units.write(made, staged)
        else:
            pages.stage_in(language, made, whom, staged)
        # Cells that are the same in two languages show other words.
        trees, cache = out / f"trees-{name}", out / f"cache-{code_hash()}" / language.prefix
        if build(staged, place, trees=trees, cache=cache, language=language.code):
            raise click.ClickException("The site was not built: Sphinx says above what is wrong.")
        (place / "_static" / "words.js").write_text(edition.script(language), "utf-8")
        living.write(place)
        lighten(place)
        excerpts.write(place, besides=[one.code for one in languages])
    click.echo(f"The site is in {site}. Open {site / 'index.html'}")


def build(staged: Path, site: Path, *, trees: Path, cache: Path, language: str = "en") -> int:
    """Sphinx's exit code. Notebooks run in a place of their own, with nobody's progress."""
    with tempfile.TemporaryDirectory() as home:
        profile = Path(home, "profile_default")
        profile.mkdir()
        (profile / "ipython_kernel_config.json").write_text(json.dumps({"IPKernelApp": KERNEL}))
        environment = os.environ | {
            "ONELAYER_HOME": home,
            "IPYTHONDIR": home,
            "BOOK_CACHE": str(cache),
            "BOOK_LANGUAGE": language,
            "ONELAYER_LANGUAGE": language,  # the page lacks the cell that says it in a notebook
            "OMP_NUM_THREADS": "2",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }
        where = ["-c", str(ROOT / "book"), "-d", str(trees), str(staged), str(site)]
        code = subprocess.call([sys.executable, "-m", "sphinx", *SPHINX, *where], env=environment)
    if code:  # a page that was read with a fault would count as read
        shutil.rmtree(trees, ignore_errors=True)
    return code


def code_hash() -> str:
    """A name for everything that a notebook runs and that is not its own cells."""
    digest = hashlib.sha256(version("torch").encode())
    for path in sorted(_code_files()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _code_files() -> Iterator[Path]:
    for package in ("onelayer", "autograder"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


if __name__ == "__main__":
    main()
