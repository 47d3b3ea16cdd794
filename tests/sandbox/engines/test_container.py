"""The jail in a container of podman's, where bubblewrap is missing: the same walls, or a reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from autograder.judge import GraderFault, NoAnswer
from autograder.sandbox import Cell, Jail, Limits, Tier, probe
from autograder.sandbox.engines import bubblewrap, container, privileges
from autograder.sandbox.engines.isolation import JailSpec
from autograder.sandbox.host import tiers

ROOT = Path(__file__).resolve().parents[3]
TIER = tiers.container("bubblewrap is not installed")

LOOKS = """
import os, socket
def seen(paths): return [path for path in paths if os.path.exists(path)]
def who(): return [os.getpid(), os.getuid(), len([p for p in os.listdir("/proc") if p.isdigit()])]
def writes(path):
    with open(path, "w") as file:
        return file.write("x")
def reaches(port): return socket.create_connection(("127.0.0.1", port), timeout=2) and 1
def dies(): os._exit(3)
def twice(x): return 2 * x
"""


@pytest.fixture(scope="module")
def student():
    with Jail(Limits(wall_s=20.0), TIER) as jail, jail.open([Cell("looks", LOOKS)]) as opened:
        yield opened


def told(student, function, *args):
    student.begin(may_write=False)
    try:
        return student.call(function, *args)
    except NoAnswer as none:
        return none.raised.error


@pytest.mark.container
class TestInside:
    def test_it_computes_and_says_where(self, student):
        assert told(student, "twice", 21) == 42
        assert student.where == "podman"

    def test_it_sees_itself_alone(self, student):
        assert told(student, "who") == [1, 1000, 1]

    def test_no_solution_no_test_no_home_of_ours(self, student):
        secret = ["solutions", "tests", "autograder/checks", "autograder/classroom", ".git"]
        hidden = [str(ROOT / name) for name in secret]
        hidden += [str(Path.home() / ".ssh"), "/home", "/var/lib", "/etc/shadow"]
        assert told(student, "seen", hidden) == []
        assert told(student, "seen", [str(ROOT / "autograder" / "judge")]) != []

    def test_it_writes_into_its_own_tmp_only(self, student):
        assert told(student, "writes", "/tmp/mine") == 1
        for path in ("/mine", "/usr/mine", "/etc/mine", str(ROOT / "autograder/judge/mine")):
            assert told(student, "writes", path) in ("OSError", "PermissionError")

    def test_there_is_no_network(self, student):
        assert told(student, "reaches", 22) in ("OSError", "PermissionError")

    def test_a_death_costs_one_call(self, student):
        assert told(student, "dies") == "ProcessEnded"
        assert told(student, "twice", 4) == 8


def containers():
    """Those of this process, running or not."""
    listed = ["podman", "ps", "--all", "--format={{.Names}}"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    return {name for name in names.split() if name.startswith(f"onelayer-{os.getpid()}-")}


@pytest.mark.container
def test_it_ends_with_everything_in_it():
    before = containers()
    with Jail(Limits(), TIER) as jail, jail.open([Cell("a", "")]) as opened:
        inside = psutil.Process(opened.pid)
        assert len(containers() - before) == 1
    assert not inside.is_running()
    assert containers() == before


@pytest.mark.container
def test_kill_9_of_the_grader_leaves_no_container():
    code = (
        "import os, signal; from autograder.sandbox import Jail, Limits\n"
        "from autograder.sandbox.host import tiers\n"
        "with Jail(Limits(), tiers.container('x')): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    done.wait()
    waited = ["podman", "wait", f"onelayer-{done.pid}-0"]
    subprocess.run(waited, check=False, capture_output=True, timeout=60)
    listed = ["podman", "ps", "--format={{.Names}}"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    assert f"onelayer-{done.pid}-" not in names


@pytest.fixture
def nobodys():
    """What runs a program as a user without any right, who has a home and reaches this Python."""
    home = tempfile.mkdtemp()  # pytest's own folders are closed to others
    os.chown(home, privileges.NOBODY, privileges.NOBODY)
    place = {"PATH": os.environ["PATH"], "HOME": home, "XDG_RUNTIME_DIR": home}

    def run(program):
        spec = {"uid": privileges.NOBODY, "readable": bubblewrap.visible(), "command": program}
        words = [sys.executable, "-I", "-S", privileges.__file__, json.dumps(spec)]
        return subprocess.run(words, env=place, capture_output=True, text=True, check=False)

    yield run
    shutil.rmtree(home)


@pytest.mark.container
@pytest.mark.skipif(os.geteuid() != 0, reason="this is an unprivileged user already")
def test_an_unprivileged_user_gets_the_same_walls(nobodys):
    code = (
        "from autograder.sandbox.engines import choice, limits\n"
        "from autograder.sandbox.host import trial\n"
        "print(repr(trial.failure(limits.Limits(), start=choice.by_container)))"
    )
    done = nobodys(bubblewrap.bare_python(code))
    assert done.stdout == "''\n", done.stdout + done.stderr


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A podman that writes down its arguments and ends as the test says; no bubblewrap."""

    def made(ends="exit 0"):
        podman = tmp_path / "podman"
        podman.write_text(
            f'#!/bin/sh\nfor a in "$@"; do echo "$a"; done >> {tmp_path}/said\n{ends}\n'
        )
        podman.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}")
        return tmp_path / "said"

    container.runtime.cache_clear()
    probe.cache_clear()
    yield made
    container.runtime.cache_clear()
    probe.cache_clear()


def test_where_bubblewrap_is_missing_a_container_takes_its_place(fake):
    said = fake()
    tier = probe()
    assert (tier.name, tier.safe) == ("podman", True)
    assert "bubblewrap is not installed" in tier.reason
    words = said.read_text().splitlines()
    assert {"--network=none", "--read-only", "--cap-drop=all", "--rootfs"} <= set(words)
    assert not any(str(ROOT / "solutions") in word for word in words)


def test_where_neither_runs_both_are_named(fake):
    fake("echo 'cgroups in hybrid mode not supported' >&2; exit 125")
    tier = probe()
    assert tier == Tier("process", tier.reason, False)
    assert "bubblewrap is not installed" in tier.reason
    assert "nor does podman" in tier.reason
    assert "hybrid mode not supported" in tier.reason


def test_a_container_that_does_not_come_up_says_why(fake):
    fake("echo 'no space left' >&2; exit 125")
    with pytest.raises(GraderFault, match="no space left"), Jail(Limits(), TIER):
        pass


def test_only_the_network_can_be_left_out_around_the_zygote(fake, tmp_path):
    fake()
    spec = JailSpec(["true"], paths=[], tmp_bytes=4096)
    given = {"root": tmp_path, "name": "n"}
    whole = container.command(spec, **given)
    fewer = replace(spec, without=frozenset({"network", "seccomp"}))
    without = container.command(fewer, **given)
    assert set(whole) ^ set(without) == {"--network=none", "--network=host"}
    handed = container.command(replace(spec, handed=77), **given)
    assert handed[:2] == [sys.executable, "-I"]
    assert "77" in handed
    assert "--preserve-fds=1" in handed


@pytest.mark.container
def test_a_class_is_graded_in_a_container_where_bubblewrap_is_missing(tmp_path):
    """Planted: a PATH on which there is everything but bubblewrap."""
    from autograder.attacks.sample_class import PUPILS

    for name in ("ada-all-right", "lea-exits"):
        (tmp_path / "in" / name).mkdir(parents=True)
        PUPILS[name].write(tmp_path / "in" / name)
    (tmp_path / "bin").mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "bwrap":
            (tmp_path / "bin" / program.name).symlink_to(program)
    path = f"{Path(sys.executable).parent}:{tmp_path / 'bin'}:/usr/sbin"
    command = [sys.executable, "-m", "autograder.cli", "grade", "in", "--out", "out"]
    done = subprocess.run(
        [*command, "--course", ROOT, "--workers", "1"],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = [path.read_text().split("\n")[1] for path in tmp_path.glob("out/journal/*/*.json")]
    verdicts = [verdict for text in found for verdict in json.loads(text)["verdicts"]]
    assert {verdict["tier"] for verdict in verdicts} == {"podman"}
    assert sum(verdict["points"] for verdict in verdicts) == 58
