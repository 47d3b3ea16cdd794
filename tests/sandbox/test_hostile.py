"""What the jail must survive besides the corpus of `autograder attack`: each attack costs its own
question at most, and after each an honest question still gets its answer."""

import os
import select
import socket
import time
from pathlib import Path

import pytest
import torch

import autograder
from autograder.judge import Cause, NoAnswer, Raised, text
from autograder.sandbox import Cell, Jail, Limits
from autograder.sandbox.engines import bubblewrap, left_running
from autograder.sandbox.engines.memory import tree
from autograder.sandbox.host.request import LEFT_RUNNING
from autograder.sandbox.inside.seccomp import DENIED

pytestmark = pytest.mark.jail
LIMITS = Limits(
    wall_s=3.0,
    load_s=8.0,
    memory_bytes=384 * 2**20,
    processes=24,
    file_bytes=4 * 2**20,
    tmp_bytes=16 * 2**20,
    output_bytes=10_000,
)
HONEST = Cell(
    "honest",
    """
import ctypes, os, select, signal, sys, time
import torch
def honest(x): return x + 1
def alive():
    states = [open(f"/proc/{p}/stat").read() for p in os.listdir("/proc") if p.isdigit()]
    return sum(") Z" not in state for state in states)
""",
)
UNSEEN = ("attacks", "authoring", "checks", "classroom", "notebook")
REPOSITORY = Path(autograder.__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def jail():
    with Jail(LIMITS) as jail:
        yield jail


@pytest.fixture
def attack(jail):
    """Opens a submission with an honest function and the given source; at the end, whatever the
    source did, the honest function answers and the jail takes a next submission."""
    opened = []

    def open_with(*sources):
        cells = [HONEST, *(Cell(f"attack-{k}", source) for k, source in enumerate(sources))]
        opened.append(jail.open(cells))
        return opened[-1]

    yield open_with
    assert opened
    for student in opened:
        assert told(student, "honest", 1) == 2
        student.close()
    with jail.open([HONEST]) as bystander:
        assert told(bystander, "honest", 41) == 42


def told(student, function, *args, budget_s=None):
    """What the student's function returned, or the Raised."""
    student.begin(may_write=False, budget_s=budget_s)
    try:
        return student.call(function, *args)
    except NoAnswer as none:
        return none.raised


def kind(answer):
    assert isinstance(answer, Raised), answer
    return answer.kind


# Ending, hanging, bursting


@pytest.mark.parametrize(
    "body",
    [
        "os._exit(0)",
        "os.kill(os.getpid(), 9)\n    os._exit(0)  # process 1 of a namespace cannot kill itself",
        "ctypes.string_at(0)",
        "os.abort()",
        "os.closerange(0, 1000)\n    return x",
        "os.close(3)\n    time.sleep(100)",
        "os.execv('/bin/true', ['true'])",
    ],
)
def test_a_function_that_ends_its_process(attack, body):
    student = attack(f"def f(x):\n    {body}")
    assert kind(told(student, "f", 1)) == "died"


@pytest.mark.parametrize("body", ["sys.exit(0)", "raise KeyboardInterrupt", "raise SystemExit(5)"])
def test_leaving_politely_is_an_error_like_any_other(attack, body):
    student = attack(f"def f(x):\n    {body}")
    before = student.pid
    assert kind(told(student, "f", 1)) == "raised"
    assert student.pid == before


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "while True:\n        try:\n            while True: time.sleep(1)\n"
        "        except BaseException: pass",
        "[signal.signal(s, signal.SIG_IGN) for s in (2, 15)]\n    while True: pass",
        "os.kill(os.getpid(), signal.SIGSTOP)\n    while True: pass",
        "x ** (10 ** 9) ** 9",
    ],
)
def test_a_function_that_never_ends(attack, body):
    student = attack(f"def f(x):\n    {body}")
    assert kind(told(student, "f", 7)) == "timeout"


def test_a_question_has_one_budget_for_all_its_calls(attack):
    student = attack("def f(x):\n    time.sleep(1.5)\n    return x")
    student.begin(may_write=False)
    outcomes = []
    for _ in range(5):
        try:
            outcomes.append(student.call("f", 1))
        except NoAnswer as none:
            outcomes.append(none.raised.kind)
    assert outcomes[0] == 1
    assert outcomes[2:] == ["timeout"] * 3


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("os._exit(0)", "died"),
        ("while True:\n    try:\n        time.sleep(1)\n    except BaseException: pass", "timeout"),
        ("os.write(3, b'garbage' * 1000)", "unsendable"),
        ("os.close(3)", "died"),
    ],
)
def test_a_cell_that_ends_the_process_is_skipped_from_then_on(attack, source, why):
    student = attack("before = 1", source, "def f(): return before")
    assert [c.error and c.error.kind for c in student.cells] == [None, None, why, None]
    assert told(student, "f") == 1


def test_many_cells_that_end_the_process_stop_the_loading(attack):
    student = attack(*["os._exit(1)"] * 30, "late = 1")
    assert all(c.error is not None for c in student.cells[1:])
    assert sum(c.error is not None and c.error.kind == "died" for c in student.cells) < 30
    assert student.cells[-1].error.error == "NotRun"


def test_a_process_that_dies_between_two_questions_costs_neither(attack):
    student = attack("import threading\nthreading.Timer(0.2, os._exit, (0,)).start()")
    assert student.pid is not None
    for _ in range(2):
        handle = os.pidfd_open(student.pid)
        select.select([handle], [], [], 10)
        os.close(handle)
        assert told(student, "honest", 3) == 4


# Machine resources


def test_a_fork_bomb_is_bounded(attack):
    student = attack("def f():\n    while True:\n        os.fork()")
    assert kind(told(student, "f")) in ("raised", "timeout", "died", "unsendable")


def test_a_child_that_answers_too_is_not_heard(attack):
    """Forked by accident (DataLoader workers, subprocesses) or on purpose."""
    student = attack(
        "def f(x):\n    os.fork()\n    return x",
        "def g(x):\n    os.write(3, b'more than was asked')\n    return x",
    )
    assert told(student, "f", 5) == 5
    assert told(student, "honest", 5) == 6
    assert kind(told(student, "g", 5)) == "unsendable"
    assert told(student, "honest", 5) == 6


def test_bytes_that_nobody_asked_for_cost_no_later_question(attack):
    source = """
import threading
def f(x):
    reading, writing = os.pipe()
    threading.Thread(target=lambda: (os.read(reading, 1), os.write(3, b"unasked"))).start()
    threading.Timer(0.3, os.write, (writing, b"x")).start()
    return x
"""
    student = attack(source)
    assert told(student, "f", 5) == 5
    before = student.pid
    assert select.select([student._running.channel], [], [], 10)[0]  # it has come
    assert told(student, "honest", 5) == 6
    assert student.pid != before


@pytest.mark.parametrize(
    "body",
    [
        "return torch.empty(2**36, dtype=torch.uint8)",
        "return bytes(2**34)",
        "hoard = []\n    while True: hoard.append(bytearray(b'x') * 2**22)",
        "hoard = []\n    while True: hoard.append(torch.ones(2**20))",
    ],
)
def test_a_memory_bomb_costs_its_question(attack, body):
    student = attack(f"def f():\n    {body}")
    assert kind(told(student, "f")) in ("raised", "died")


def test_memory_of_all_processes_together_is_bounded(attack):
    """Eight processes want 200 MiB each; together they may have 384."""
    source = """
def hoard():
    reading, writing = os.pipe()
    if os.fork() == 0:
        kept = bytearray(os.urandom(2**20)) * 200
        os.write(writing, b"x")
        time.sleep(1000)
    os.close(writing)
    return reading
def f():
    pipes = [hoard() for _ in range(8)]
    for pipe in pipes:
        os.read(pipe, 1)  # it has its 200 MiB, or it is gone
    return alive() - 1
"""
    answer = told(attack(source), "f", budget_s=30.0)  # eight processes share one processor
    # One fits; a second may be on its way out.
    assert kind(answer) == "died" if isinstance(answer, Raised) else answer <= 2


def test_200_mb_of_output_are_read_and_thrown_away(attack):
    source = "line = 'x' * 999_999 + '\\n'\nfor _ in range(200): sys.stdout.write(line)"
    student = attack(
        source, f"def f():\n    {source.splitlines()[0]}\n    print(line * 100)\n    return 1"
    )
    assert student.cells[1].error is None
    assert LIMITS.output_bytes <= len(student.cells[1].output) < 2 * LIMITS.output_bytes
    assert told(student, "f") == 1


def test_output_that_never_ends_ends(attack):
    student = attack("def f():\n    while True: os.write(1, b'y' * 65536)")
    assert kind(told(student, "f")) == "timeout"


def test_an_endless_answer_is_refused(attack):
    student = attack(
        "def f(): return torch.zeros(1).expand(2**40)",
        "def g(): return torch.zeros(300 * 2**18)",
        "def h():\n    a = []\n    a.append(a)\n    return a",
        "def i(): return ['x' * 90_000] * 100",
    )
    assert {kind(told(student, name)) for name in "fghi"} <= {"unsendable", "raised"}


# The wire


@pytest.mark.parametrize(
    "body",
    [
        "os.write(3, b'\\xff\\xff\\xff\\xff')",
        "os.write(3, b'\\x00\\x00\\x00\\x02{}')",
        "os.write(3, b'\\x00\\x00\\x00\\x02[]')",
        "os.write(3, (13).to_bytes(4, 'big') + b'{\"sizes\": []}')",
        'os.write(3, (30).to_bytes(4, \'big\') + b\'{"nonce": "0", "sizes": [1, 2]}\'[:30])',
        "os.write(3, b'\\x00\\x20\\x00\\x00' + b'[' * 2**21)",
    ],
)
def test_garbage_on_the_wire_is_no_answer(attack, body):
    student = attack(f"def f(x):\n    {body}\n    return x")
    assert kind(told(student, "f", 1)) in ("unsendable", "timeout")


def test_a_large_question_is_not_waited_for_either(attack):
    """A process that does not read its requests blocks nobody."""
    source = """
import threading
def f():
    def stop(): os.dup2(os.open("/dev/zero", os.O_RDONLY), 3)
    threading.Timer(0.1, stop).start()
    return 1
"""
    student = attack(source)
    assert told(student, "f") == 1
    running = student._running
    answer = told(student, "honest", torch.ones(2**22))
    assert isinstance(answer, torch.Tensor) or answer.kind in ("timeout", "died", "unsendable")
    until = time.monotonic() + 20  # the timer may run out only now; then a call dies of it
    while student._running is running and not isinstance(told(student, "honest", 1), Raised):
        assert time.monotonic() < until


# Sight and reach


def test_nothing_of_ours_can_be_read(attack, monkeypatch, tmp_path):
    secret = tmp_path / "gradebook.db"
    secret.write_text("secret")
    places = ["/etc/shadow", "/root", "/home", str(secret), "/proc/1/root" + str(secret)]
    places += [str(REPOSITORY / n) for n in ("solutions", "tests", "notebooks", "labs", ".git")]
    places += [str(REPOSITORY / "autograder" / n) for n in UNSEEN]
    places += ["/var/run/docker.sock", "/sys/fs/cgroup", "/proc/1/cwd/../../etc/shadow"]
    source = """
def f(places):
    found = []
    for place in places:
        try:
            found.append([place, os.listdir(place) if os.path.isdir(place) else open(place).read()])
        except OSError:
            pass
    return found
"""
    found = dict(told(attack(source), "f", places))
    # The way to the interpreter may lead through a home directory; then only the way is there.
    for home in ("/root", "/home"):
        assert all(name.startswith(".") or name for name in found.pop(home, []))
    assert found == {}


def test_the_environment_is_not_ours_and_tells_nothing(monkeypatch):
    monkeypatch.setenv("ONELAYER_SECRET", "s3cret")
    source = """
def f():
    texts = [str(sorted(os.environ))]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            texts.append(open(f"/proc/{pid}/{name}", errors="replace").read().replace("\\0", " "))
    return texts
"""
    with Jail(LIMITS) as jail, jail.open([HONEST, Cell("look", source)]) as student:
        texts = " ".join(told(student, "f"))
    assert "HOME" in texts
    for tell_tale in ("ONELAYER_SECRET", "s3cret", "NBGRADER", "GRADING", "CI="):
        assert tell_tale not in texts


def test_a_submission_sees_and_reaches_only_itself(attack, jail):
    source = """
def f():
    libc = ctypes.CDLL(None, use_errno=True)
    seen = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
    reached = []
    for pid in range(2, 3000):
        try:
            os.kill(pid, 9)
            reached.append(pid)
        except OSError:
            pass
    try:
        os.kill(-1, 9)
    except OSError:
        pass
    traced = [libc.ptrace(16, pid, 0, 0) for pid in (1, 2, 3)] + [libc.ptrace(0, 0, 0, 0)]
    return [os.getpid(), seen, reached, traced, ctypes.get_errno()]
"""
    student = attack(source)
    with jail.open([HONEST]) as sibling:
        before = sibling.pid
        pid, seen, reached, traced, error = told(student, "f")
        assert (pid, seen, reached) == (1, [1], [])
        assert (traced, error) == ([-1] * 4, 1)
        assert told(sibling, "honest", 1) == 2
        assert sibling.pid == before


def test_no_memory_and_no_file_is_shared_with_the_zygote(attack):
    source = """
def f():
    shared = [line for line in open("/proc/self/maps") if " rw-s " in line]
    return [shared, os.listdir("/tmp"), os.listdir("/dev/shm")]
"""
    # A course that itself lies below /tmp is seen there, read-only; nothing else is.
    ours = {Path(path).parts[2] for path in bubblewrap.visible() if path.startswith("/tmp/")}
    shared, tmp, shm = told(attack(source), "f")
    assert (shared, set(tmp), shm) == ([], ours, [])


def test_files_do_not_survive_their_submission(attack, jail):
    source = """
def f():
    written = []
    for folder in ("/tmp", "/dev/shm", "/dev", "/", "/var/tmp", "/usr", "/proc", os.getcwd()):
        try:
            with open(os.path.join(folder, "note"), "w") as file:
                written.append(file.name)
        except OSError:
            pass
    return written
"""
    assert set(told(attack(source), "f")) == {"/tmp/note", "/dev/shm/note"}
    look = "def f(): return [p for p in ('/tmp/note', '/dev/shm/note') if os.path.exists(p)]"
    with jail.open([HONEST, Cell("look", look)]) as other:
        assert told(other, "f") == []
    assert not Path("/dev/shm/note").exists()


def test_the_network_is_not_there(attack):
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = """
import socket
def f(port):
    answers = []
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 38, 40):
        try:
            socket.socket(family, socket.SOCK_STREAM).connect(("127.0.0.1", port))
            answers.append("connected")
        except OSError as error:
            answers.append(error.errno)
    return answers
"""
        student = attack(source)
        assert told(student, "f", server.getsockname()[1]) == [1] * 5
        with (
            Jail(Limits(loopback=True)) as jail,
            jail.open([HONEST, Cell("own-loopback", source)]) as student,
        ):
            inner = told(student, "f", server.getsockname()[1])
            assert inner[0] == 111  # refused: that loopback is the submission's own
            assert inner[2:] == [1, 1, 1]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
def test_the_filter_refuses_and_kills(attack):
    source = """
libc = ctypes.CDLL(None, use_errno=True)
def f(numbers):
    answers = []
    for number in numbers:
        ctypes.set_errno(0)
        answers.append([libc.syscall(number, 0x10000011, 0, 0, 0, 0), ctypes.get_errno()])
    return answers
def x32(): return libc.syscall(0x40000000 + 39)
"""
    student = attack(source)
    numbers = [pair[0] for pair in DENIED.values()]
    assert told(student, "f", numbers) == [[-1, 1]] * len(numbers)
    assert told(student, "f", [56, 435]) == [[-1, 1], [-1, 38]]  # clone(NEWUSER), clone3
    raised = told(student, "x32")
    assert (raised.kind, raised.why) == ("died", text("ended_by_signal", signal=31))


def test_no_privilege_is_left_and_none_can_be_gained(attack):
    source = """
import subprocess
def f():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    keys = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    return [[k, int(status[k].strip(), 16)] for k in keys]
def g():
    words = ["su", "-c", "id -u", "root"]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout
"""
    student = attack(source)
    values = dict(told(student, "f"))
    assert values.pop("NoNewPrivs") == 1
    assert values.pop("Seccomp") == 2
    assert set(values.values()) == {0}
    answer = told(student, "g")
    assert isinstance(answer, Raised) or answer.strip() != "0"


def test_seen_from_outside_the_submission_is_not_root(attack):
    student = attack("")
    status = Path(f"/proc/{student.pid}/status").read_text()
    uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    assert set(uids) == {str(os.geteuid() or 65534)}


def test_a_daemon_is_gone_when_its_submission_is(jail):
    source = """
def f():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(15, signal.SIG_IGN)
            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
            while True: time.sleep(100)
        os._exit(0)
    os.wait()
    return alive()
"""
    with jail.open([HONEST, Cell("daemon", source)]) as student:
        assert told(student, "f") == 2
        handles = [os.pidfd_open(pid) for pid in tree(student.pid)]
        assert len(handles) == 2
    for handle in handles:
        assert select.select([handle], [], [], 0)[0], "a process outlived its submission"
        os.close(handle)


def test_a_submission_has_no_descriptor_but_its_own(attack):
    student = attack("def f(): return sorted(int(n) for n in os.listdir('/proc/self/fd'))")
    assert told(student, "f") == [0, 1, 2, 3, 4, 5]  # 5 is the listing itself


FORKS = """
def fork(n):
    for _ in range(n):
        if os.fork() == 0:
            while True: pass
"""


def test_what_a_cell_leaves_running_is_ended_and_its_definitions_stay(jail):
    cells = [HONEST, Cell("spins", FORKS + "fork(5)\ndef one(): return 1\n"), Cell("two", "x = 2")]
    with jail.open(cells) as student:
        assert student.call("one") == 1
        assert student.call("alive") == 1
        honest, spins, two = student.cells
        assert spins.error.why == text("left_running", n=5)
        assert honest.error is two.error is None


def test_an_orphan_is_left_running_too(jail):
    orphan = "if os.fork() == 0:\n    if os.fork() == 0:\n        while True: pass\n"
    with jail.open([HONEST, Cell("orphan", orphan + "    os._exit(0)\nos.wait()\n")]) as student:
        assert student.cells[1].error.why == text("left_running", n=1)


def test_who_leaves_processes_running_after_answers_is_asked_no_more_the_second_time(jail):
    body = "def spin():\n    fork(2)\n    return 7\n"
    with jail.open([HONEST, Cell("spins", FORKS + body)]) as student:
        student.begin(may_write=False, budget_s=60.0)
        assert student.call("spin") == 7  # and the answer counts
        assert student.call("alive") == 1
        assert student.call("spin") == 7
        with pytest.raises(NoAnswer, match="nothing more is asked") as none:
            student.call("alive")
        assert none.value.raised.kind is Cause.DIED  # so nobody asks it once more, alone


@pytest.mark.parametrize(("times", "seconds"), [(0, 3.0), (1, 0.6), (2, 0.12)])
def test_who_left_processes_running_has_less_time_for_each_question(jail, times, seconds):
    endless = Cell("endless", FORKS + "def f():\n    while True: pass\n")
    with jail.open([HONEST, endless, *[Cell("spins", "fork(5)")] * times]) as student:
        student.begin(may_write=False)
        with pytest.raises(NoAnswer) as none:
            student.call("f")
        assert none.value.raised.why == text("no_answer_in_time", seconds=seconds)


def test_a_row_of_answers_that_start_processes_is_not_waited_for(jail, monkeypatch):
    monkeypatch.setattr(left_running, "MOST_BESIDE_S", 0.05)
    body = "def spin(n):\n    fork(3)\n    return sum(range(10**7))\n"
    with jail.open([HONEST, Cell("spins", FORKS + body)]) as student:
        student.begin(may_write=False, budget_s=60.0)
        with pytest.raises(NoAnswer) as none:
            list(student.each("spin", [(n,) for n in range(100)]))
        assert none.value.raised.error == LEFT_RUNNING
        assert student.call("honest", torch.ones(2)).tolist() == [2, 2]
