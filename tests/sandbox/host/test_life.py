"""Jails and zygotes that die, are killed, are started twice, or cannot be started at all."""

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from autograder.judge import GraderFault, Lab, NoAnswer, Raised, State, ask, text
from autograder.sandbox import Cell, Jail, Limits, Tier, probe
from autograder.sandbox.engines import bubblewrap, cgroups, choice, privileges
from autograder.sandbox.engines.memory import tree
from autograder.sandbox.host import tiers, trial, zygote_client

pytestmark = pytest.mark.jail
LIMITS = Limits(wall_s=4.0, load_s=8.0)
HONEST = Cell("honest", "import os, time\ndef f(x): return x + 1\ndef endless(): time.sleep(1000)")
PATIENCE_S = 20.0


def told(student, function, *args):
    student.begin(may_write=False)
    try:
        return student.call(function, *args)
    except NoAnswer as none:
        return none.raised


def expect_gone(handles):
    """Every process behind these pidfds has ended, or does within PATIENCE_S."""
    for handle in handles:
        assert select.select([handle], [], [], PATIENCE_S)[0], "a process is still there"
        os.close(handle)


def own_cgroups():
    """Of this process: somebody else may be grading on this machine."""
    mine = f"{cgroups.PREFIX}-{os.getpid()}-*"
    return {d for h in cgroups.find() for d in h.parent.glob(mine)}


def test_what_is_preloaded_is_there_before_a_cell_also_after_the_zygote_died():
    look = "import sys\ndef f(): return 'torch._dynamo' in sys.modules"
    with Jail(LIMITS) as jail:
        found = []

        def look_again():
            with jail.open([Cell("look", look)]) as student:
                found.append(told(student, "f"))

        look_again()
        jail.preload(["torch._dynamo", "there_is_none"])
        look_again()
        os.kill(jail.pid, signal.SIGKILL)
        look_again()
        assert found == [False, True, True]


def test_a_zygote_of_many_forks_gathers_itself_once(monkeypatch):
    """What is gathered is no longer looked for, and lies in one page of 2 MiB where 512 lay."""
    monkeypatch.setattr(zygote_client, "MANY", 2)
    look = "import sys\ndef f(): return 'matplotlib.pyplot' in sys.modules"
    with Jail(LIMITS) as jail:
        found = []
        for _ in range(3):
            with jail.open([Cell("look", look)]) as student:
                found.append(told(student, "f"))
        assert found == [False, True, True]
        with pytest.raises(GraderFault, match="more than one thread"):
            jail._zygote._expect_one_thread({"ready": True, "threads": 2})


def test_two_jails_and_two_submissions_at_once():
    outcomes = []

    def run(jail, k):
        with jail.open([HONEST, Cell("mine", f"mine = {k}\ndef g(): return mine")]) as student:
            outcomes.append((told(student, "g"), told(student, "f", k)))

    with Jail(LIMITS) as one, Jail(LIMITS) as other:
        threads = [
            threading.Thread(target=run, args=(j, k)) for k, j in enumerate((one, other) * 4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == [(k, k + 1) for k in range(8)]


def test_nothing_is_left_when_a_jail_is_closed():
    before = own_cgroups()
    with Jail(LIMITS) as jail:
        student = jail.open([HONEST])
        handles = [os.pidfd_open(pid) for pid in (jail.pid, *tree(student.pid))]
        student.close()
        student.close()
    jail.close()
    expect_gone(handles)
    assert own_cgroups() == before
    assert not [child for child in tree(os.getpid()) if "bwrap" in _command(child)]
    with pytest.raises(GraderFault, match="closed"):
        jail.open([HONEST])


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_zygote_that_died_is_replaced_and_blames_nobody():
    lab = Lab("01_trial", "Trial")

    @lab.question("f", points=1, minutes=1, difficulty=1, hints=("a", "b", "c"))
    def question(student, draw):
        """One more."""
        if jail_dies:
            dying.append(os.pidfd_open(jail.pid))
            os.kill(tree(jail.pid)[1], signal.SIGKILL)  # the zygote
        student.call("f", 1)

    dying = []
    with Jail(LIMITS) as jail, jail.open([HONEST]) as student:
        jail_dies = True
        verdict = ask(question, student, seed=1)
        assert verdict.state in (State.UNGRADABLE, State.PASS)
        expect_gone(dying)  # the kernel takes its time to end a whole namespace
        jail_dies = False
        assert ask(question, student, seed=1).state is State.PASS
        with jail.open([HONEST]) as another:
            assert told(another, "f", 1) == 2


def test_a_jail_that_dies_during_a_call_is_our_fault():
    with Jail(LIMITS) as jail, jail.open([HONEST]) as student:
        handle = os.pidfd_open(jail.pid)
        timer = threading.Timer(0.3, signal.pidfd_send_signal, (handle, signal.SIGKILL))
        timer.start()
        with pytest.raises(GraderFault, match="jail"):
            told(student, "endless")
        timer.join()
        os.close(handle)
        assert told(student, "f", 1) == 2


def test_a_jail_that_cannot_come_back_is_our_fault(monkeypatch):
    with Jail(LIMITS) as jail:
        os.kill(jail.pid, signal.SIGKILL)
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(GraderFault, match="bubblewrap is not installed"):
            jail.open([HONEST])


def test_a_jail_outlives_the_thread_that_opened_it():
    """The kernel ties "die with your parent" to the thread, and worker threads come and go."""
    jails = []
    opener = threading.Thread(target=lambda: jails.append(Jail(LIMITS).__enter__()))
    opener.start()
    opener.join()
    with jails[0] as jail, jail.open([HONEST]) as student:
        assert told(student, "f", 1) == 2
        with jail.open([HONEST]) as another:
            assert told(another, "f", 1) == 2


def test_nothing_is_left_when_the_grader_is_killed():
    grader = textwrap.dedent(
        f"""
        import sys
        from autograder.sandbox import Cell, Jail
        from autograder.sandbox.engines.memory import tree
        with Jail() as jail, jail.open([Cell("c", {HONEST.source!r})]) as student:
            print(*tree(jail.pid), flush=True)
            student.call("endless")
        """
    )
    process = subprocess.Popen([sys.executable, "-c", grader], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in process.stdout.readline().split()]
    handles = [os.pidfd_open(pid) for pid in pids]
    assert len(handles) == 3  # bubblewrap, the zygote, the fork
    process.kill()
    process.wait()
    process.stdout.close()
    expect_gone(handles)
    of_it = f"{cgroups.PREFIX}-{process.pid}-*"
    assert any(True for h in cgroups.find() for _ in h.parent.glob(of_it)) or not cgroups.find()
    cgroups.sweep(patience_s=PATIENCE_S)
    assert not [d for h in cgroups.find() for d in h.parent.glob(of_it)]


@pytest.mark.skipif(os.geteuid() != 0, reason="everything here runs without root already")
def test_without_root_and_without_cgroups_it_holds_as_well():
    """Run by nobody: no cgroups, so our own watch counts the memory of the tree."""
    root = bubblewrap.package_root()
    code = textwrap.dedent(
        f"""
        import os, sys
        sys.path.append({str(root)!r})
        from autograder.judge import NoAnswer
        from autograder.sandbox import Cell, Jail, Limits
        from autograder.sandbox.engines import cgroups
        source = '''
        import os, time
        def f(x): return x + 1
        def hoard():
            for _ in range(8):
                if os.fork() == 0:
                    kept = bytearray(os.urandom(2**20)) * 100
                    time.sleep(100)
            time.sleep(100)
        '''
        cells = [Cell("c", source)]
        limits = Limits(memory_bytes=400 * 2**20, wall_s=20)
        with Jail(limits) as jail, jail.open(cells) as student:
            print(os.getuid(), cgroups.find(), student.call("f", 1))
            try:
                student.call("hoard")
            except NoAnswer as none:
                print(none.raised.kind, none.raised.why)
            print(student.call("f", 2))
        """
    )
    command = [sys.executable, "-I", "-B", "-c", code]
    spec = {"uid": 65534, "readable": bubblewrap.visible(), "command": command}
    done = subprocess.run(
        [sys.executable, "-I", "-S", privileges.__file__, json.dumps(spec)],
        capture_output=True,
        text=True,
        timeout=120,
        env={"HOME": "/tmp", "PATH": os.environ["PATH"]},
    )
    assert done.stdout.splitlines() == [
        "65534 () 2",
        "died it needed more than 400 MiB of memory",
        "3",
    ], done.stderr


# The tier without walls, and why it was chosen


def test_a_plain_process_is_taken_only_when_named():
    tier = tiers.plain("bubblewrap is not installed: apt-get install bubblewrap")
    cells = [HONEST, Cell("dies", "os._exit(3)"), Cell("late", "def g(): return os.getcwd()")]
    with Jail(Limits(wall_s=2.0, load_s=8.0), tier) as jail, jail.open(cells) as student:
        assert (student.where, tier.safe) == ("process", False)
        assert [c.error and c.error.kind for c in student.cells] == [None, "died", None]
        assert told(student, "f", 1) == 2
        home = Path(told(student, "g"))
        assert home != Path.cwd()
        handles = [os.pidfd_open(student.pid)]
        assert told(student, "endless").kind == "timeout"
        assert told(student, "f", 2) == 3
    expect_gone(handles)
    assert not home.exists()


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        ("sys.platform", "darwin", "needs Linux"),
        ("platform.machine", lambda: "riscv64", "no system call filter for riscv64"),
        ("shutil.which", lambda name: None, "apt-get install bubblewrap"),
    ],
)
def test_the_probe_says_what_is_missing(monkeypatch, place, value, reason):
    monkeypatch.setattr(f"{tiers.__name__}.{place}", value)
    probe.cache_clear()
    try:
        tier = probe()
        assert tier == Tier("process", tier.reason, False)
        assert reason in tier.reason
        with pytest.raises(GraderFault, match=reason), Jail():
            pass
    finally:
        probe.cache_clear()


def test_a_bubblewrap_that_may_not_work_is_explained(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(GraderFault, match=r"uid map: Permission denied.*apparmor_restrict"), Jail():
        pass
    assert tiers.explained("torch is missing") == "torch is missing"


# cgroups


def fake_tree(root: Path, version: int) -> tuple[Path, Path]:
    """A look-alike of /sys/fs/cgroup and /proc: it shows what we write, not what a kernel does."""
    proc, groups = root / "proc", root / "cgroup"
    (proc / "self").mkdir(parents=True)
    if version == 1:
        (proc / "self/cgroup").write_text("4:memory:/a\n8:pids:/\n3:cpu,cpuacct:/\n0::/\n")
        (groups / "memory/a").mkdir(parents=True)
        (groups / "pids").mkdir()
        (groups / "cpu").mkdir()
    else:
        (proc / "self/cgroup").write_text("0::/user.slice/session\n")
        (groups / "user.slice/session").mkdir(parents=True)
        (groups / "cgroup.subtree_control").write_text("cpu memory pids\n")
        (groups / "user.slice/cgroup.subtree_control").write_text("memory pids\n")
        (groups / "user.slice/session/cgroup.subtree_control").write_text("\n")
    return groups, proc


def test_version_1_is_found_by_controller(tmp_path):
    groups, proc = fake_tree(tmp_path, 1)
    found = cgroups.find(groups, proc)
    assert [(h.version, h.controller, h.parent) for h in found] == [
        (1, "memory", groups / "memory/a"),
        (1, "pids", groups / "pids"),
        (1, "cpu", groups / "cpu"),
    ]
    cgroup = cgroups.Cgroup(found, Limits(memory_bytes=1000, processes=5, cores=0.5))
    written = {f.name: f.read_text() for _, place in cgroup.places for f in place.iterdir()}
    assert written == {
        "memory.limit_in_bytes": "1000",
        "pids.max": "5",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "50000",
    }
    assert cgroups.hold_memory(found)
    assert not cgroups.hold_memory(found[2:])
    cgroup.let_end()
    now = {f.name: f.read_text() for _, place in cgroup.places for f in place.iterdir()}
    assert now == written | {"cpu.cfs_quota_us": "-1"}


def test_version_2_is_found_where_the_controllers_are_handed_down(tmp_path):
    groups, proc = fake_tree(tmp_path, 2)
    (found,) = cgroups.find(groups, proc)
    assert (found.version, found.parent) == (2, groups / "user.slice")
    cgroup = cgroups.Cgroup((found,), Limits(memory_bytes=1000, processes=5))
    ((_, place),) = cgroup.places
    (place / "cgroup.procs").touch()  # the kernel's own is there from the start
    with cgroup.joined_by() as (procs_file,):
        os.write(procs_file, b"0")
    written = {f.name: f.read_text() for f in place.iterdir()}
    assert written == {
        "memory.max": "1000",
        "memory.swap.max": "0",
        "pids.max": "5",
        "cpu.max": "100000 100000",
        "cgroup.procs": "0",
    }
    (place / "memory.events").write_text("oom 2\noom_kill 1\n")
    assert cgroup.ran_out_of_memory
    cgroup.let_end()
    assert (place / "cpu.max").read_text() == "max"


def test_no_cgroups_no_layer(tmp_path):
    assert cgroups.find(tmp_path / "none", tmp_path / "none") == ()


def test_only_the_leftovers_of_dead_runs_are_swept(tmp_path):
    here = cgroups.Hierarchy(2, "", tmp_path)
    cgroup = cgroups.Cgroup((here,), Limits(memory_bytes=1, processes=1))
    ((_, alive),) = cgroup.places
    recycled = tmp_path / f"{cgroups.PREFIX}-{os.getpid()}-1-0"  # our id, another start
    dead = tmp_path / f"{cgroups.PREFIX}-99999999-5-0"
    foreign = tmp_path / "system.slice"
    for directory in (recycled, dead, foreign):
        directory.mkdir()
    assert cgroups.sweep((here,)) == 2
    assert alive.exists()
    assert foreign.exists()
    assert not dead.exists()
    assert not recycled.exists()


def test_what_is_still_busy_is_waited_for_and_then_left(tmp_path):
    here = cgroups.Hierarchy(2, "", tmp_path)
    busy = tmp_path / f"{cgroups.PREFIX}-99999999-5-0" / "cgroup.procs"
    busy.parent.mkdir()
    busy.touch()  # as full as a directory can be without a kernel behind it
    assert cgroups.sweep((here,)) == 0
    leaving = threading.Timer(0.2, busy.unlink)
    leaving.start()
    assert cgroups.sweep((here,), patience_s=PATIENCE_S) == 1
    leaving.join()


SPINNERS = Cell(
    "spins",
    """
import os, time

def spin():
    for _ in range(12):
        if os.fork() == 0:
            time.sleep(3)  # the answer comes first: they would take its share of the quota too
            while True:
                pass
    return 12
""",
)


def processor_group(pid):
    """The cgroup of ours that shares out the processors to process `pid`."""
    (parent,) = [h.parent for h in cgroups.find() if h.controller in ("", "cpu")]
    ours = parent.glob(f"{cgroups.PREFIX}-{os.getpid()}-*")
    (found,) = [d for d in ours if str(pid) in (d / "cgroup.procs").read_text().split()]
    return found


def counted(group, what):
    """A count of the kernel's: nr_periods in which it ran, nr_throttled in which it was stopped."""
    lines = (group / "cpu.stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


def spin(student, what, count):
    """Twelve spinning children, until the kernel has counted so many; their cgroup."""
    assert told(student, "spin") == 12
    group = processor_group(student.pid)
    spinning = [psutil.Process(pid) for pid in tree(student.pid)]
    assert len(spinning) == 13
    assert {processor_group(process.pid) for process in spinning} == {group}
    deadline = time.monotonic() + 120  # a busy machine lends them little
    while counted(group, what) < count and time.monotonic() < deadline:
        psutil.wait_procs(spinning, timeout=0.1)
    return group


@pytest.mark.skipif(
    not {"", "cpu"} & {h.controller for h in cgroups.find()},
    reason="this machine lends no cgroups, so nothing holds the processors",
)
def test_the_kernel_stops_spinning_children_at_their_submissions_quota():
    with Jail(replace(LIMITS, cores=0.25)) as jail, jail.open([SPINNERS]) as student:
        assert counted(spin(student, "nr_throttled", 2), "nr_throttled") >= 2
    with Jail(replace(LIMITS, cores=64)) as jail, jail.open([SPINNERS]) as student:
        assert counted(spin(student, "nr_periods", 20), "nr_throttled") == 0  # the same children


def test_a_submission_that_loses_its_process_at_each_call_ends_within_its_limit():
    """Each reload takes half a second, and the question looks at its budget between calls only."""
    cells = [
        Cell("slow", "import os, time\ntime.sleep(0.5)"),
        Cell("dies", "def f(): os._exit(1)"),
    ]
    with Jail(LIMITS) as jail, jail.open(cells, total_s=3.0) as student:
        raised = [told(student, "f") for _ in range(40)]
        reloads = [one.kind for one in raised].index("timeout")
        assert 0 < reloads <= 6
        assert raised[0].kind == "died"
        assert raised[-1].why == text("notebooks_time", seconds=3.0)
        assert student.cells[0].error is None
    with Jail(LIMITS) as jail, jail.open(cells) as student:  # without the limit it goes on
        assert [told(student, "f").kind for _ in range(8)] == ["died"] * 8


def test_an_endless_call_ends_with_its_submission():
    with Jail(LIMITS) as jail, jail.open([HONEST], total_s=1.0) as student:
        assert told(student, "endless").why == text("notebooks_time", seconds=1.0)


def test_a_raised_is_what_a_lost_process_becomes():
    with Jail(LIMITS) as jail, jail.open([Cell("c", "import os\ndef f(): os._exit(7)")]) as student:
        why = text("ended_with_status", status=7)
        assert told(student, "f") == Raised("died", "ProcessEnded", why=why)


# the probe


def test_the_probe_builds_every_wall_and_imports_no_torch():
    """Planted: a jail in which one of the walls cannot be built."""
    walls = ("namespaces.furnish", "namespaces.give_up_capabilities", "landlock.install")
    for wall in (*walls, "seccomp.install", "namespaces.leave"):
        broken = f"""
            from autograder.sandbox.inside import forking
            assert "torch" not in sys.modules
            def refuse(*args, **kwargs): raise OSError(1, "{wall} is refused")
            forking.{wall} = refuse
        """
        program = textwrap.dedent(broken) + trial.PROGRAM
        failure = trial.failure(Limits(), start=choice.by_bubblewrap, program=program)
        assert f"{wall} is refused" in failure
    assert trial.failure(Limits(), start=choice.by_bubblewrap) == ""


def test_an_interpreter_that_the_jails_user_cannot_read_is_one_sentence(tmp_path, monkeypatch):
    """Its link leads through a folder that the jail has not: bubblewrap says "No such file"."""
    hidden, bin_ = tmp_path / "hidden", tmp_path / "bin"
    for folder in (hidden, bin_):
        folder.mkdir()
    (hidden / "python").symlink_to(sys.executable)
    (bin_ / "python").symlink_to(hidden / "python")
    monkeypatch.setattr(sys, "executable", str(bin_ / "python"))
    failure = trial.failure(Limits(), start=choice.by_bubblewrap)
    assert failure == f"the jail did not start: {choice.CLOSED.format(bin_ / 'python')}"


def test_a_jail_that_says_nothing_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr(trial, "PATIENCE_S", 0.1)
    program = "import time; time.sleep(600)"
    failure = trial.failure(Limits(), start=choice.by_bubblewrap, program=program)
    assert failure == "the jail did not start within 0.1 seconds"
