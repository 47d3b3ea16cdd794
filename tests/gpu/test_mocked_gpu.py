"""Grading on a mocked GPU: torch's CUDA build in the jail, its memory, its faults. `make mock`."""

from __future__ import annotations

import os

import pytest

from autograder.attacks.sample_class import ROOT
from autograder.classroom.commands.grading_run import GradingRun, Order
from autograder.classroom.intake.release import releases
from autograder.classroom.run import work
from autograder.classroom.run.health import expect_healthy
from autograder.classroom.run.job import Job
from autograder.gpu.answers import CHECKS, known_answers
from autograder.judge import Cause, Lab, State, expect_close, expect_equal
from autograder.sandbox import MOCKED, Cell, Jail, mocked_gpu
from onelayer.mock_cuda.builds import NoMock, library

CELL = Cell(
    "answers",
    """
import torch

def double(x):
    return 2 * x

def where():
    return torch.ones(1).device.type

def beyond_its_share():
    return [torch.empty(2**30) for _ in range(4)][0].shape

def out_of_range(x):
    return x[torch.tensor([len(x)])]

def ends(x):
    import os
    os._exit(3)
""",
)


pytestmark = [pytest.mark.mock, pytest.mark.jail]


@pytest.fixture(scope="module", autouse=True)
def build():
    """A CUDA build of torch, or one clear sentence why there is none."""
    try:
        library()
    except NoMock as why:
        pytest.fail(str(why)) if os.environ.get("ONELAYER_MOCK_REQUIRED") else pytest.skip(str(why))


@pytest.fixture(scope="module")
def jail(build):
    with Jail(gpu=mocked_gpu()) as jail:
        yield jail


def questions(**asked):
    """A lab that asks these functions, each for what it returns to x."""
    lab = Lab("09_devices", "Devices")
    for name, want in asked.items():

        @lab.question(name, points=1, minutes=1, difficulty=1, hints=("a", "b", "c"))
        def check(student, draw, name=name, want=want):
            """What it returns."""
            if want is None:
                expect_equal(student.call(name), "cuda")
            else:
                x = draw.tensor(3)
                expect_close(student.call(name, x), want * x)

    return lab


def graded(jail, lab):
    seeds = dict.fromkeys(lab.questions, 1)
    cells = (("answers", CELL.source),)
    job = Job("ada", lab.name, "key", "sha", cells, 0, seeds, frozenset())
    return {v.question: v for v in work.grade(job, lab, jail).verdicts}


def test_the_probe_runs_on_it(jail):
    expect_healthy(jail, "now")


def test_an_answer_computes_there_and_its_verdict_says_mocked_and_never_cuda(jail):
    verdicts = graded(jail, questions(where=None, double=2))
    assert {v.state for v in verdicts.values()} == {State.PASS}
    assert {v.device for v in verdicts.values()} == {"mocked NVIDIA L4"}


def test_an_answer_gets_its_share_of_the_memory_and_no_more(jail):
    found = graded(jail, questions(beyond_its_share=None, double=2))
    assert found["beyond_its_share"].cause is Cause.RAISED
    assert "OutOfMemoryError" in str(found["beyond_its_share"].got)
    assert found["double"].state is State.PASS


def test_a_fault_ends_one_process_and_a_probe_follows(jail, monkeypatch):
    probed = []

    def probe(jail, after):
        probed.append(after)
        expect_healthy(jail, after)

    monkeypatch.setattr(work, "expect_healthy", probe)
    found = graded(jail, questions(out_of_range=2, double=2))
    assert found["out_of_range"].cause is Cause.DEVICE
    assert "device-side assert" in str(found["out_of_range"].got)
    assert found["double"].state is State.PASS
    assert probed == ["after the submission of ada"]


def test_a_target_that_is_no_column_is_told_by_name():
    """The GPU says that an index was out of range, and not which."""
    known = {one.name: one for one in known_answers(releases(ROOT)["03_autograd"])}
    names = ["ignored_rows_indexed", "ignored_rows_encoded"]
    with Jail(gpu=mocked_gpu(), readable=(CHECKS,)) as jail:
        for name in names:
            one = known[f"wrong cross_entropy_backward {name}"]
            (verdict,) = work.grade(one.job, releases(ROOT)["03_autograd"].lab, jail).verdicts
            assert (verdict.cause, str(verdict.sentence)) == (Cause.DEVICE, one.sentence)


def test_a_process_that_ends_costs_its_question(jail):
    found = graded(jail, questions(ends=2, double=2))
    assert [v.state for v in found.values()] == [State.FAIL, State.PASS]


def test_a_class_is_graded_on_it_from_the_folder_to_the_journal(tmp_path):
    release = releases(ROOT)["01_strides"]
    hand_in = tmp_path / "in" / "ada" / "01_strides"
    hand_in.mkdir(parents=True)
    (hand_in / "01_strides.ipynb").write_bytes(release.instructor)
    run = GradingRun(Order(tmp_path / "in", tmp_path / "out", ROOT, device=MOCKED))
    jobs = run.look_up()
    run.grade(jobs, done=lambda *_: None)
    verdicts = run.rows["ada"].record.verdicts
    assert all(v.state is State.PASS for v in verdicts)
    devices = {v.device for v in verdicts}
    assert "mocked NVIDIA L4" in devices
    assert devices <= {"mocked NVIDIA L4", "cpu", "simulated"}
