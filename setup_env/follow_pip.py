"""Runs pip, shows where it is in one moving line, and says in one clause why it failed."""

import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from typing import TextIO

NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Network is unreachable"
    "|ProxyError|SSLError|Temporary failure in name|Connection (reset|refused)|Could not fetch URL"
)
LARGE = re.compile(r"\((\d{2,}(\.\d+)? M|[\d.]+ G)B\)")


def follow(command: list[str], *, log: TextIO, lock: int) -> tuple[int, bool]:
    """Return pip's exit code and whether it had begun to change the environment.

    All that pip prints goes to `log`. `lock` is a descriptor that pip keeps open while it lives.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=[lock],
    ) as pip:
        progress = Progress(live=sys.stdout.isatty())
        try:
            listen(pip, log, progress)
        finally:
            progress.end()
        return pip.wait(), progress.installing


def listen(pip: "subprocess.Popen[str]", log: TextIO, progress: "Progress") -> None:
    """Copy pip's lines to `log` and keep the progress line moving between them."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert pip.stdout is not None
    reader = threading.Thread(target=pass_on, args=(pip.stdout, lines), daemon=True)
    reader.start()
    while reader.is_alive() or not lines.empty():
        try:
            line = lines.get(timeout=0.2)
        except queue.Empty:
            line = ""
        log.write(line)
        progress.hear(line)
        progress.show()


def pass_on(stream: TextIO, lines: "queue.SimpleQueue[str]") -> None:
    """Move each line of `stream` into `lines`, so that the listener may also look at the clock."""
    for line in stream:
        lines.put(line)


class Progress:
    """One line that moves on a terminal; a line now and then in a file or a CI log."""

    def __init__(self, *, live: bool) -> None:
        self.live = live
        self.began = time.monotonic()
        self.packages = 0
        self.doing = "asking pip"
        self.installing = False

    def hear(self, line: str) -> None:
        """Learn from one line of pip's output where it is."""
        verb, _, rest = line.strip().partition(" ")
        if verb in {"Collecting", "Processing", "Obtaining"}:
            self.packages += 1
            name = re.split(r"[=<>!~;\[( ]|-\d", rest.split("/")[-1])[0]
            self.doing_now(f"collecting {name}", worth_a_line=self.packages % 20 == 0)
        elif verb == "Downloading":
            self.doing_now(f"downloading {rest}", worth_a_line=bool(LARGE.search(rest)))
        elif line.startswith("WARNING: Retrying"):
            again = "the network does not answer, trying again"
            self.doing_now(again, worth_a_line=self.doing != again)
        elif line.startswith("Installing collected packages"):
            self.installing = True
            self.doing_now(f"installing {line.count(',') + 1} packages", worth_a_line=True)

    def doing_now(self, doing: str, *, worth_a_line: bool) -> None:
        """Remember what pip does; where no line can move, print the few that matter."""
        self.doing = doing
        if worth_a_line and not self.live:
            print(self.text(), flush=True)

    def text(self) -> str:
        """Return the line to show: packages so far, seconds since the start, what pip does."""
        return (
            f"  [{self.packages:3d} packages, {time.monotonic() - self.began:3.0f} s]  {self.doing}"
        )

    def show(self) -> None:
        """Redraw the line, on a terminal."""
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{self.text()[:width]}", end="", flush=True)

    def end(self) -> None:
        """Leave the terminal's cursor at the start of a clean line."""
        if self.live:
            print("\r\033[K", end="", flush=True)


def reason(printed: str) -> str:
    """Return one clause that says why pip failed, and what to do, from what it `printed`."""
    if "No space left on device" in printed:
        return "The disk is full: free some space and type make again"
    if NETWORK.search(printed):
        return "pip cannot reach its package index: check the network, then type make again"
    errors = re.findall(r"^ERROR: (.*)", printed, flags=re.MULTILINE)
    return f"pip stopped: {errors[0][:160]}" if errors else "pip stopped without giving a reason"
