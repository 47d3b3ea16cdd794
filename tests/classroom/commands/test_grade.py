"""A whole class through the real jail: what everybody gets, what a kill loses, what remains."""

from __future__ import annotations

import csv
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from autograder.attacks.sample_class import NAME, PUPILS, QUESTIONS, ROOT, filled, right_answers
from autograder.attacks.sample_class import write as write_class
from autograder.checks import lab01_strides
from autograder.judge import State, Verdict
from autograder.sandbox import probe
from autograder.sandbox.engines.cgroups import find

LAB = lab01_strides.lab
GRADED = [name for name, pupil in PUPILS.items() if not pupil.ungradable]
UNGRADABLE = [name for name, pupil in PUPILS.items() if pupil.ungradable]
SEED = bytes(range(32))
LIMIT_S = 420
PR_SET_CHILD_SUBREAPER = 36

pytestmark = [
    pytest.mark.skipif(not probe().safe, reason=f"no jail here: {probe().reason}"),
    pytest.mark.timeout(LIMIT_S + 60),
]


@pytest.fixture(scope="module", autouse=True)
def adopts_orphans():
    """Whatever a grader leaves behind becomes a child of this process, where it can be counted."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0)


def start(hand_in, out, *options, scratch):
    scratch.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "autograder.cli", "grade", hand_in, "--out", out, *options],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), "COLUMNS": "200", "PYTHONWARNINGS": "default"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(hand_in, out, *options, scratch):
    """Grades; exit code and everything said."""
    grader = start(hand_in, out, *options, scratch=scratch)
    said, _ = grader.communicate(timeout=LIMIT_S)
    return grader.returncode, said


def left_over(patience_s=20.0):
    """Processes below this one, those that are on their way out waited for."""
    deadline = time.monotonic() + patience_s
    while children := psutil.Process().children(recursive=True):
        psutil.wait_procs(children, timeout=0.2)
        if time.monotonic() > deadline:
            break
    return [child.cmdline() for child in children if child.is_running()]


def cgroups_left():
    """cgroups that some grader made and whose process is gone."""
    names = [d for h in find() for d in h.parent.glob("onelayer-*")]
    return [d for d in names if not psutil.pid_exists(int(d.name.split("-")[1]))]


def records(out):
    """The journal by student, as plain data."""
    found = [
        json.loads(path.read_text(encoding="utf-8").split("\n")[1])
        for path in sorted((out / "journal" / NAME).glob("*.json"))
    ]
    by_student = {record["student"]: record for record in found}
    assert len(by_student) == len(found)
    return by_student


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The whole sample class, graded once: its grading folder, and what the command said."""
    place = tmp_path_factory.mktemp("class")
    write_class(place / "hand_in")
    (place / "out").mkdir()
    (place / "out" / "seed").write_bytes(SEED)
    before = left_over(0.0)
    code, said = run(place / "hand_in", place / "out", scratch=place / "scratch")
    print(said)
    assert code == 0, said
    assert [process for process in left_over() if process not in before] == []
    return place


@pytest.fixture(scope="module")
def gradebook(graded):
    """What nbgrader's own export says, by student."""
    command = [str(Path(sys.executable).parent / "nbgrader"), "export", "--to", "grades.csv"]
    subprocess.run(command, cwd=graded / "out", check=True, capture_output=True, timeout=120)
    with open(graded / "out" / "grades.csv", encoding="utf-8") as file:
        return {row["student_id"]: row for row in csv.DictReader(file)}


def feedback(graded, name):
    return (graded / "out" / "feedback" / name / NAME / f"{NAME}.html").read_text(encoding="utf-8")


def outcome(verdict):
    """A verdict in the words of the sample class."""
    verdict = Verdict.from_mapping(verdict)
    if verdict.state is State.FAIL:
        return verdict.misconception or "fail" if verdict.is_answered else "blank"
    return verdict.state.value


@pytest.mark.parametrize("name", GRADED)
def test_everybody_gets_what_they_earned(graded, gradebook, name):
    record = records(graded / "out")[name]
    expected = dict(PUPILS[name].expected)
    assert {v["question"]: outcome(v) for v in record["verdicts"]} == expected
    points = sum(LAB.questions[q].points for q in QUESTIONS if expected[q] == "pass")
    assert sum(v["points"] for v in record["verdicts"]) == points
    assert float(gradebook[name]["score"]) == points
    assert float(gradebook[name]["max_score"]) > LAB.max_points
    assert all(v["tier"] == "bubblewrap" for v in record["verdicts"])


@pytest.mark.parametrize("name", [name for name in GRADED if PUPILS[name].says])
def test_feedback_says_why(graded, name):
    assert PUPILS[name].says in feedback(graded, name)


@pytest.mark.parametrize("name", GRADED)
def test_feedback_opens_without_a_network_and_runs_nothing(graded, name):
    page = feedback(graded, name)
    assert page.rstrip().endswith("</html>")
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page
    for harmful in ("<script", 'href="javascript:', "cdnjs", "onerror="):
        assert harmful not in page


def test_no_seed_is_told_to_a_student(graded):
    for name in GRADED:
        page = feedback(graded, name)
        for verdict in records(graded / "out")[name]["verdicts"]:
            assert str(verdict["seed"]) not in page


def test_a_wrong_answer_is_told_its_own_sentence(graded):
    for turn, name in enumerate(n for n in GRADED if n.startswith("gus")):
        for verdict in records(graded / "out")[name]["verdicts"]:
            known = LAB.questions[verdict["question"]].wrong_answers
            if turn < len(known):
                assert verdict["sentence"] == known[turn].sentence


@pytest.mark.parametrize("name", UNGRADABLE)
def test_who_cannot_be_graded_is_named_with_a_reason(graded, gradebook, name):
    with open(graded / "out" / "ungradable.csv", encoding="utf-8") as file:
        reasons = {row["student"]: row["reason"] for row in csv.DictReader(file)}
    assert PUPILS[name].ungradable in reasons[name]
    assert name not in gradebook
    assert name not in records(graded / "out")
    assert set(reasons) == set(UNGRADABLE)


def test_nobodys_feedback_shows_the_inputs_of_another(graded):
    """Two hand-ins meet other inputs, and so does the same student's next one."""
    graded_ones = records(graded / "out").values()
    seeds = {tuple(verdict["seed"] for verdict in one["verdicts"]) for one in graded_ones}
    assert len(seeds) == len({one["sha256"] for one in graded_ones})


def test_a_person_marks_the_free_text_and_nothing_else(graded):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{graded / 'out' / 'gradebook.db'}") as book:
        for name, open_cells in (("ada-all-right", ["why_silent"]), ("ben-half", [])):
            (notebook,) = book.find_submission(NAME, name).notebooks
            assert [g.name for g in notebook.grades if g.needs_manual_grade] == open_cells


def test_nothing_is_left_behind(graded):
    assert cgroups_left() == []
    assert list((graded / "scratch").iterdir()) == []
    assert not list((graded / "out").rglob("*.tmp"))
    assert not list((graded / "out").rglob("*.damaged"))
    assert {path.name for path in (graded / "hand_in").iterdir()} == set(PUPILS)


def test_the_graded_bytes_are_kept(graded):
    import hashlib

    for path in (graded / "out" / "received").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.stem
    for record in records(graded / "out").values():
        assert (graded / "out" / "received" / f"{record['sha256']}.ipynb").is_file()


@pytest.fixture(scope="module")
def again(graded):
    from nbgrader.api import Gradebook

    out = graded / "out"
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        (notebook,) = book.find_submission(NAME, "ada-all-right").notebooks
        (grade,) = [g for g in notebook.grades if g.name == "why_silent"]
        grade.manual_score, grade.needs_manual_grade = 4.0, False
        book.db.commit()
    torn = out / "feedback" / "ben-half" / NAME / f"{NAME}.html"
    torn.write_text(torn.read_text()[:1000])
    (out / "autograded" / "cleo-nothing" / NAME / f"{NAME}.ipynb").unlink()
    was = {path: path.stat() for path in (out / "journal").rglob("*.json")}
    code, said = run(graded / "hand_in", out, scratch=graded / "scratch")
    assert code == 0, said
    return was, said


class TestAgain:
    """A second run: in seconds, with nothing run twice and nothing taken back."""

    def test_runs_nothing(self, again):
        was, said = again
        assert f"{len(GRADED)} already graded, 0 to grade" in said
        for path, status in was.items():
            assert (path.stat().st_ino, path.stat().st_mtime_ns) == (
                status.st_ino,
                status.st_mtime_ns,
            )

    def test_keeps_what_a_person_graded(self, graded, again):
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{graded / 'out' / 'gradebook.db'}") as book:
            assert book.find_submission(NAME, "ada-all-right").score == LAB.max_points + 4

    def test_makes_anew_what_a_kill_had_cut_off(self, graded, again):
        assert feedback(graded, "ben-half").rstrip().endswith("</html>")
        assert feedback(graded, "cleo-nothing")

    def test_nbgraders_own_command_executes_nothing_and_changes_nothing(self, graded, again):
        """Formgrader's button does the same."""
        command = [str(Path(sys.executable).parent / "nbgrader"), "autograde", NAME, "--force"]
        command += ["--student", "lea-exits"]
        done = subprocess.run(
            command, cwd=graded / "out", capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{graded / 'out' / 'gradebook.db'}") as book:
            assert book.find_submission(NAME, "lea-exits").score == LAB.max_points - 2


KILLED = (
    "ada-all-right",
    "ben-half",
    "cleo-nothing",
    "dan-warns",
    "max-loops",
    "sue-patches-torch",
)


def kill_9(grader):
    grader.kill()


def ctrl_c(grader):
    """A terminal sends it to everything in the foreground, not to the grader alone."""
    os.killpg(grader.pid, signal.SIGINT)


@pytest.fixture(scope="module", params=[kill_9, ctrl_c])
def stopped(tmp_path_factory, request):
    """Half a class graded; what was left running, what the grader said, and its journal."""
    place = tmp_path_factory.mktemp("stopped")
    for name in KILLED:
        (place / "hand_in" / name).mkdir(parents=True)
        PUPILS[name].write(place / "hand_in" / name)
    before = left_over(0.0)
    grader = start(place / "hand_in", place / "out", "--workers", "2", scratch=place / "scratch")
    journal = place / "out" / "journal" / NAME
    deadline = time.monotonic() + LIMIT_S
    while len(list(journal.glob("*.json"))) < 2 and time.monotonic() < deadline:
        assert grader.poll() is None, grader.communicate()[0]
        psutil.wait_procs([psutil.Process(grader.pid)], timeout=0.02)
    request.param(grader)
    said, _ = grader.communicate(timeout=LIMIT_S)
    left = [process for process in left_over() if process not in before]
    if request.param is ctrl_c:
        assert grader.returncode == 130
        assert said.rstrip().endswith("Stopped. The same command goes on where it was.")
        assert "Traceback" not in said
    return place, left, {path: path.stat() for path in journal.glob("*.json")}


class TestStopped:
    """`kill -9` or Ctrl-C in the middle, and the same command again."""

    def test_nothing_outlives_it(self, stopped):
        _, left, _ = stopped
        assert left == []

    def test_the_same_command_goes_on(self, stopped):
        place, _, was = stopped
        assert 2 <= len(was) < len(KILLED)
        code, said = run(place / "hand_in", place / "out", scratch=place / "scratch")
        assert code == 0, said
        assert f"{len(was)} already graded, {len(KILLED) - len(was)} to grade" in said
        found = records(place / "out")
        assert set(found) == set(KILLED)
        assert len(list((place / "out" / "journal" / NAME).iterdir())) == len(KILLED)
        for path, status in was.items():
            assert (path.stat().st_ino, path.stat().st_mtime_ns) == (
                status.st_ino,
                status.st_mtime_ns,
            )
        for name in KILLED:
            verdicts = {v["question"]: outcome(v) for v in found[name]["verdicts"]}
            assert verdicts == PUPILS[name].expected
            assert (place / "out" / "feedback" / name / NAME / f"{NAME}.html").is_file()
        assert not list((place / "out").rglob(".*.tmp"))
        assert cgroups_left() == []


SPINS = """
import os
for _ in range(12):
    if os.fork() == 0:
        while True:
            pass
def contiguous_strides(size):
    while True:
        pass
"""


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory):
    """A class in which one submission spins with twelve children, and a worker is killed."""
    place = tmp_path_factory.mktemp("disturbed")
    names = ("ada-all-right", "ben-half", "cleo-nothing", "dan-warns")
    for name in names:
        (place / "hand_in" / name).mkdir(parents=True)
        PUPILS[name].write(place / "hand_in" / name)
    (place / "hand_in" / "aaa-spins").mkdir()
    made = filled({**right_answers(), "contiguous_strides": SPINS})
    (place / "hand_in" / "aaa-spins" / f"{NAME}.ipynb").write_text(json.dumps(made))
    grader = start(place / "hand_in", place / "out", "--workers", "2", scratch=place / "scratch")
    journal, deadline = place / "out" / "journal" / NAME, time.monotonic() + LIMIT_S
    while not list(journal.glob("*.json")) and time.monotonic() < deadline:
        assert grader.poll() is None, grader.communicate()[0]
        psutil.wait_procs([psutil.Process(grader.pid)], timeout=0.02)
    was = {path: path.stat().st_mtime_ns for path in journal.glob("*.json")}
    workers = [p for p in psutil.Process(grader.pid).children() if "spawn_main" in str(p.cmdline())]
    assert workers
    workers[-1].kill()
    said, _ = grader.communicate(timeout=LIMIT_S)
    print(said)
    assert grader.returncode == 0, said
    return place, names, was


class TestDisturbed:
    """`kill -9` of a worker beside a submission that takes every processor it can get."""

    def test_everybody_has_a_grade_and_no_one_pays_for_the_neighbour(self, disturbed):
        place, names, _ = disturbed
        found = records(place / "out")
        assert set(found) == {*names, "aaa-spins"}
        for name in names:
            verdicts = {v["question"]: outcome(v) for v in found[name]["verdicts"]}
            assert verdicts == PUPILS[name].expected
        spun = found["aaa-spins"]["verdicts"][0]
        assert spun["cause"] == "timeout"
        assert spun["remarks"] == [["asked_twice", {}]]

    def test_what_was_graded_before_was_not_graded_again(self, disturbed):
        _, _, was = disturbed
        assert was
        assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in was.items())

    def test_nothing_stays_behind(self, disturbed):
        place, _, _ = disturbed
        assert cgroups_left() == []
        assert not (place / "out" / ".scratch").exists()


ON_A_FULL_DISK = """
import errno, os, sys
from autograder.classroom import durable
from autograder.cli import main
write, room = durable.write, [1]
def until_full(path, data, **options):
    if "journal" in path.parts:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    write(path, data, **options)
durable.write = until_full
main()
"""


def test_a_disk_that_fills_up_loses_nothing_and_is_said_in_one_line(tmp_path):
    for name in ("ada-all-right", "cleo-nothing", "ben-half"):
        (tmp_path / "hand_in" / name).mkdir(parents=True)
        PUPILS[name].write(tmp_path / "hand_in" / name)
    where = [str(tmp_path / "hand_in"), "--out", str(tmp_path / "out"), "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", ON_A_FULL_DISK, "grade", *where],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert "No space left on device. Make room; what is graded so far is kept." in line
    assert len(records(tmp_path / "out")) == 1
    code, said = run(*where[:1], tmp_path / "out", scratch=tmp_path / "scratch")
    assert code == 0, said
    assert "1 already graded, 2 to grade" in said
    assert len(records(tmp_path / "out")) == 3


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own, and how to give it another size."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(*options):
        subprocess.run(["mount", *options, disk], check=True, capture_output=True, text=True)

    try:
        mount("-t", "tmpfs", "-o", "size=100k", "tmpfs")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", "") or error
        pytest.skip(f"a disk that is truly full needs leave to mount one: {reason}")
    yield disk, lambda size: mount("-o", f"remount,size={size}")
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_disk_that_is_truly_full_loses_nothing(tmp_path, small_disk):
    """First there is no room for the journal, then none for the gradebook, then there is."""
    disk, resize = small_disk
    names = ("ada-all-right", "cleo-nothing", "dan-warns")
    for name in names:
        (tmp_path / "hand_in" / name).mkdir(parents=True)
        PUPILS[name].write(tmp_path / "hand_in" / name)
    kept, found = {}, []
    for size in ("100k", "220k", "8m"):
        resize(size)
        code, said = run(tmp_path / "hand_in", disk, scratch=tmp_path / "scratch")
        print(said)
        now = records(disk)
        assert kept.items() <= now.items()
        assert list(disk.rglob("*.damaged")) == []
        kept = now
        found.append((code, len(kept)))
        if code:
            last = " ".join(said.split("Error: ")[-1].split())
            assert "No space left on device. Make room; what is graded so far is kept." in last or (
                "because the disk is full. The verdicts are safe: the same command goes on." in last
            )
            assert "Traceback" not in said
    (first, few), (second, all_of_them), (third, still) = found
    assert (first, second, third) == (1, 1, 0)
    assert few < all_of_them == still == len(names)
    for name in names:
        verdicts = {v["question"]: outcome(v) for v in kept[name]["verdicts"]}
        assert verdicts == PUPILS[name].expected
        assert (disk / "feedback" / name / NAME / f"{NAME}.html").read_text().endswith("</html>\n")


def test_two_graders_on_one_folder_the_second_says_so(tmp_path):
    from filelock import FileLock

    (tmp_path / "hand_in" / "ada").mkdir(parents=True)
    PUPILS["cleo-nothing"].write(tmp_path / "hand_in" / "ada")
    (tmp_path / "out").mkdir()
    with FileLock(tmp_path / "out" / ".lock"):
        code, said = run(tmp_path / "hand_in", tmp_path / "out", scratch=tmp_path / "scratch")
    assert code == 1
    assert "Another `autograder grade` is at work" in said
    assert len(said.strip().splitlines()) == 1


def test_without_bubblewrap_it_refuses_until_students_are_trusted(tmp_path, monkeypatch):
    (tmp_path / "hand_in" / "ada").mkdir(parents=True)
    PUPILS["ada-all-right"].write(tmp_path / "hand_in" / "ada")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    where = (tmp_path / "hand_in", tmp_path / "out")
    code, said = run(*where, scratch=tmp_path / "scratch")
    assert code == 1
    assert "bubblewrap is not installed" in said
    assert len(said.strip().splitlines()) == 1
    code, said = run(*where, "--i-trust-students", scratch=tmp_path / "scratch")
    assert code == 0, said
    (record,) = records(tmp_path / "out").values()
    assert {v["tier"] for v in record["verdicts"]} == {"process"}
    assert {v["cause"] for v in record["verdicts"]} == {"passed"}
