"""A JupyterLab for tests, with rooms of its own, and a page in it that waits for what happened.

Cells are reached through JupyterLab's own model of the notebook, which
`--LabApp.expose_app_in_browser` gives: a click into a menu races the kernel on a busy machine. What
a person does with keyboard and mouse (type an answer, Shift+Enter, a link, a widget) goes through
the page itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "screenshots"
ROOMS = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "IPYTHONDIR",
    "ONELAYER_HOME",
    "HOME",
)
COURSE = (str(Path(sys.executable).with_name("onelayer")), "lab")  # as `make lab` types it
PLAIN = (sys.executable, "-m", "jupyterlab")
OPTIONS = (
    "--no-browser",
    "--allow-root",
    "--ServerApp.ip=127.0.0.1",
    "--ServerApp.port=0",
    "--LabApp.expose_app_in_browser=True",
)
START_S = 180
LOOKS, LOOK_MS = 12, 10_000


@dataclass(frozen=True)
class Server:
    """A running JupyterLab: its address and its token."""

    url: str
    token: str
    rooms: Path

    def address(self, path: str = "") -> str:
        """The link that JupyterLab prints, or that of another page of the server."""
        return f"{self.url}{path}?token={self.token}"


@contextmanager
def jupyter_lab(
    folder: Path, rooms: Path, command: Sequence[str] = COURSE, **variables: str
) -> Iterator[Server]:
    """A JupyterLab started in `folder`, whose settings, progress and logs stay in `rooms`."""
    rooms.mkdir(parents=True)
    environment = os.environ | {name: str(rooms / name.lower()) for name in ROOMS}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | variables
    with open(rooms / "log", "w") as log:
        process = subprocess.Popen(
            [*command, *OPTIONS],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            made = _answering(process, rooms)
            yield Server(made["url"], made["token"], rooms)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)  # its own session: it and its kernels
            process.wait(timeout=60)


def _answering(process: subprocess.Popen[bytes], rooms: Path) -> dict[str, Any]:
    """What the server wrote about itself once it listens."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        for file in (rooms / "jupyter_runtime_dir").glob("jpserver-*.json"):
            try:
                found: dict[str, Any] = json.loads(file.read_text("utf-8"))
                return found
            except ValueError:
                pass  # half written
        time.sleep(0.05)
    raise AssertionError(f"no JupyterLab:\n{(rooms / 'log').read_text('utf-8')[-4000:]}")


READY = """async (path) => {
  const app = window.jupyterapp;
  const panel = () => [...app.shell.widgets("main")].find((w) => w.context?.path === path);
  const here = (ready) => new Promise((resolve) => {
    const look = () => (ready() ? resolve(ready()) : setTimeout(look, 50));
    look();
  });
  await app.restored;
  const widget = await here(panel);
  app.shell.activateById(widget.id);
  await widget.revealed;
  await widget.context.ready;
  await widget.sessionContext.ready;
  await (await here(() => widget.sessionContext.session?.kernel)).info;
  window.panel = widget;
  return widget.id;
}"""
# Of this notebook, whichever one has come to the front meanwhile.
RUN_ALL = """async () => {
  const of = { semanticWidget: window.panel.id };
  const done = await window.jupyterapp.commands.execute("notebook:run-all-cells", of);
  await window.panel.context.save();
  return done;
}"""
RUN_ABOVE = """() => window.jupyterapp.commands.execute(
  "notebook:run-all-above", { semanticWidget: window.panel.id })"""
AT = """(id) => window.panel.content.widgets.findIndex((cell) => cell.model.id === id)"""
GO = """async (id) => {
  const notebook = window.panel.content;
  const place = notebook.widgets.findIndex((cell) => cell.model.id === id);
  window.jupyterapp.shell.activateById(window.panel.id);
  await notebook.scrollToItem(place, "smart");
  notebook.activeCellIndex = place;
}"""
GO_BACK = """async () => {
  const notebook = window.panel.content;
  const far = notebook.activeCellIndex ? 0 : notebook.widgets.length - 1;
  await notebook.scrollToItem(far, "smart");
}"""
SET = """([id, source]) => window.panel.content.widgets
  .find((cell) => cell.model.id === id).model.sharedModel.setSource(source)"""
COUNT = """(id) => window.panel.content.widgets
  .find((cell) => cell.model.id === id).model.executionCount ?? 0"""
ASK = """async (code) => {
  let printed = "";
  const running = window.panel.sessionContext.session.kernel.requestExecute({ code });
  running.onIOPub = (message) => { printed += message.content.text ?? ""; };
  await running.done;
  return printed;
}"""
NEW = """async ([path, content]) => {
  const app = window.jupyterapp;
  await app.serviceManager.contents.save(path, { type: "notebook", format: "json", content });
  await app.commands.execute("docmanager:open", { path });
}"""
CODE = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


class Notebook:
    """The notebook `path` (from the server's folder) as it stands open on `page`."""

    def __init__(self, page: Any, path: str) -> None:
        self.page = page
        page.wait_for_function("window.jupyterapp")
        self.panel = page.locator(f"#{page.evaluate(READY, path)}")

    def run_all(self) -> None:
        """Runs every cell and saves; fails where a cell raised. As Run All Cells does."""
        assert self.page.evaluate(RUN_ALL)

    def run_above(self, cell: str) -> None:
        """Runs every cell above `cell`; fails where one raised."""
        self.cell(cell)
        assert self.page.evaluate(RUN_ABOVE)

    def write(self, cell: str, source: str) -> None:
        """Replaces what stands in a cell."""
        self.page.evaluate(SET, [cell, source])

    def cell(self, cell: str) -> Any:
        """The cell of this id, scrolled to until the page has it: JupyterLab takes cells out of the
        page that are out of sight, and a late output elsewhere moves what is in sight. Its notebook
        is brought to the front: the one that the page's address names may open late, over it."""
        place = self.page.evaluate(AT, cell)
        assert place >= 0, cell
        found = self.panel.locator(f'.jp-Cell[data-windowed-list-index="{place}"]')
        for _ in range(LOOKS):
            self.page.evaluate(GO, cell)
            with suppress(PlaywrightTimeoutError):
                found.wait_for(state="attached", timeout=LOOK_MS)
                return found
            self.page.evaluate(GO_BACK)
        raise AssertionError(f"{cell} is not on the page")

    def shown(self, cell: str, selector: str) -> Any:
        """What a cell shows of `selector`, scrolled to until it is seen."""
        for _ in range(LOOKS):
            found = self.cell(cell).locator(selector).filter(visible=True).first
            with suppress(PlaywrightTimeoutError):
                found.wait_for(timeout=LOOK_MS)
                return found
            self.page.evaluate(GO_BACK)
        raise AssertionError(f"{selector} is not seen in {cell}: {self.cell(cell).inner_html()}")

    @classmethod
    def new(cls, page: Any, path: str, cells: Sequence[tuple[str, str]]) -> Notebook:
        """A new notebook of these code cells (id, source) beside the course's, opened."""
        made = [{**CODE, "id": name, "source": source} for name, source in cells]
        content = {"nbformat": 4, "nbformat_minor": 5, "metadata": KERNEL, "cells": made}
        page.evaluate(NEW, [path, content])
        return cls(page, path)

    def active(self) -> str:
        """The id of the cell that would run next."""
        found: str = self.page.evaluate("window.panel.content.activeCell.model.id")
        return found

    def wait_while_active(self, cell: str) -> None:
        self.page.wait_for_function(
            "(id) => window.panel.content.activeCell.model.id !== id", arg=cell
        )

    def run_count(self, cell: str) -> int:
        """How many cells the kernel had run when it ran this one; 0 for a cell that never ran."""
        count: int = self.page.evaluate(COUNT, cell)
        return count

    def wait_for_run(self, cell: str, before: int) -> None:
        """Until `cell` has run again since its count was `before`."""
        self.page.wait_for_function(f"([id, before]) => ({COUNT})(id) > before", arg=[cell, before])

    def ask(self, code: str) -> str:
        """What the notebook's kernel prints for `code`."""
        printed: str = self.page.evaluate(ASK, code)
        return printed
