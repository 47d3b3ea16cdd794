"""`make gpu`, with the CPU as the GPU: what is asked, what is written down, what is missing."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner
from rich.console import Console

from autograder.attacks.sample_class import ROOT
from autograder.classroom.intake.release import releases
from autograder.classroom.run import devices, nvidia_smi, work, worker
from autograder.classroom.run.health import DeviceLost
from autograder.gpu import gpu_command, place, provenance, results_page, whole_run
from autograder.gpu.answers import known_answers, left_to_selftest
from autograder.gpu.lab_run import outcome
from autograder.gpu.place import Place
from autograder.judge import Cause, Verdict
from autograder.sandbox import BUBBLEWRAP, Gpu, Jail
from tests import samples

MIB = 2**20
SIMULATED = Gpu("simulated", "simulated", 1024 * MIB, kind="simulated")


def smi(**told):
    """An nvidia-smi that says what it is told to."""

    def query(*words):
        key = next(name for name in ("compute", "used", "driver") if name in words[-1])
        return told.get(key, [])

    return query


@pytest.mark.parametrize(
    ("lent", "cuda", "rows", "line"),
    [
        ((), "13.0", [["GPU", "1", "2"]], "this machine has none (no /dev/nvidia0)"),
        (("0",), None, [["GPU", "1", "2"]], "is built without CUDA. GPU_PYTHON="),
        (("0",), "13.0", [], "nvidia-smi does not answer"),
    ],
)
def test_make_gpu_says_in_one_line_what_is_missing(monkeypatch, tmp_path, lent, cuda, rows, line):
    monkeypatch.setattr(devices, "lent", lambda: lent)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(nvidia_smi, "query", smi(driver=rows))
    done = CliRunner().invoke(gpu_command.main, ["--out", str(tmp_path)])
    assert done.exit_code == 1
    assert line in done.output
    assert done.output.count("\n") == 1
    assert not list(tmp_path.iterdir())


def verdict(question, cause, misconception="", sentence="", device="NVIDIA H200"):
    return Verdict(
        question, cause, 0.0, 1.0, 1, misconception=misconception, sentence=sentence, device=device
    )


class OneKnown:
    def __init__(self, name, sentence=""):
        self.name, self.sentence = name, sentence


def test_verdicts_are_held_against_what_must_be_and_doubts_against_the_cpu():
    known = [OneKnown("solution"), OneKnown("wrong a x", "Not x."), OneKnown("wrong a y", "Not y.")]
    right = {("solution", "a"): verdict("a", Cause.PASSED)}
    right["wrong a x", "a"] = verdict("a", Cause.WRONG, "x", "Not x.")
    right["wrong a y", "a"] = verdict("a", Cause.WRONG, "y", "Not y.")
    again = []

    def ask_cpu(doubted):
        again.append([one.name for one in doubted])
        return {key: right[key] for key in right if key[0] in again[-1]}

    told = outcome(known, right, ask_cpu)
    assert (told.right, told.wrong, told.faults, told.differs, again) == (1, 2, [], [], [])
    assert told.devices == {"NVIDIA H200": 3}
    found = dict(right)
    found["solution", "a"] = verdict("a", Cause.WRONG, sentence="Off.")
    found["wrong a x", "a"] = verdict("a", Cause.PASSED)
    told = outcome(known, found, ask_cpu)
    assert told.faults == ["a, solution: fail: Off.", "a, wrong a x: not rejected (pass:)"]
    assert (told.differs, again) == (["a"], [["solution", "wrong a x"]])
    found["wrong a y", "a"] = verdict("a", Cause.WRONG, "x", "Not x.")
    told = outcome(known, found, lambda doubted: found)  # the CPU says the same
    assert told.faults[2] == "a, wrong a y: rejected with another sentence (fail: Not x.)"
    assert told.differs == []
    lost = outcome(known, {("wrong a x", "a"): "the grader failed: x"}, ask_cpu)
    assert lost.faults == ["a, wrong a x: the grader failed: x"]


class HerePool:
    """Grades in this process, in one jail: on the GPU that the CPU plays, or on the CPU."""

    def __init__(self, setting, serve, *, size, devices):
        self.jail = Jail(gpu=SIMULATED if devices else None, readable=setting.readable)
        self.jail.__enter__()

    def run(self, jobs):
        labs = {name: release.lab for name, release in releases(ROOT).items()}
        for given in jobs:
            yield given, work.grade(given, labs[given.lab], self.jail)

    def close(self):
        self.jail.close()


@pytest.mark.slow
def test_the_whole_run_with_the_cpu_as_the_gpu(tmp_path, monkeypatch):
    """One lab's solution and a wrong answer; and that one passed off as right."""

    def few(release, wrong_ones):
        everything = {known.name: known for known in known_answers(release)}
        wrong = everything["wrong address offset_forgotten"]
        passed_off = replace(wrong, name="passed off", job=replace(wrong.job, student="passed off"))
        return [everything["solution"], wrong, replace(passed_off, sentence="")]

    monkeypatch.setattr(whole_run, "known_answers", few)
    monkeypatch.setattr(whole_run, "Pool", HerePool)
    monkeypatch.setattr(
        whole_run, "place_with", lambda gpu: Place(BUBBLEWRAP, ("x: no kernel runs",))
    )
    made = whole_run.Run(ROOT, "simulated", Console(quiet=True))
    first, results = made.results(["01_strides"])
    assert (first["labs"], first["not_yet"]) == ({}, ["01_strides"])  # what a cut off run leaves
    assert "- 01_strides" in results_page.page(first)
    assert results["not_yet"] == []
    lab = results["labs"]["01_strides"]
    (fault,) = results["faults"]
    assert fault.startswith("01_strides, address, passed off: fail: ")
    assert (lab["right"], lab["wrong"], lab["differs"]) == (lab["questions"], 1, [])
    assert lab["devices"] == {"simulated": lab["questions"] + 2}
    written, page = results_page.write(results, tmp_path)
    assert written.name == f"simulated-torch{torch.__version__.partition('+')[0]}.json"
    assert json.loads(written.read_text()) == results
    text = page.read_text()
    assert f"| 01_strides | {lab['questions']} | 1 | 1 |" in text
    assert "Not used: x: no kernel runs." in text


GPU_LABS = [("08_compile", "one_graph"), *((name, "") for name in releases(ROOT))]
"""Each whole lab, and one question of the lab whose answers Dynamo reads."""


@pytest.mark.slow
@pytest.mark.parametrize(("lab", "only"), samples.sample(GPU_LABS, GPU_LABS[:1]))
def test_the_right_answers_pass_where_the_cpu_plays_the_gpu(monkeypatch, lab, only):
    """A default device is set around each call, as on a GPU: Dynamo traced it, and refused."""
    monkeypatch.setattr(whole_run, "Pool", HerePool)
    monkeypatch.setattr(whole_run, "place_with", lambda gpu: Place(BUBBLEWRAP))
    asked = releases(ROOT)[lab].lab
    questions = {name: asked.questions[name] for name in asked.questions if only in ("", name)}
    monkeypatch.setattr(asked, "questions", questions)
    made = whole_run.Run(ROOT, "simulated", Console(quiet=True))
    _, results = made.results([lab], wrong_ones=False)
    assert results["faults"] == []
    assert results["labs"][lab]["right"] >= 2 * results["labs"][lab]["questions"]
    assert results["machine"]["command"] == provenance.RIGHT_ALONE
    assert "| not asked |" in "\n".join(results_page.page(results))


def test_without_a_kernel_in_one_tier_the_next_is_taken_and_named(monkeypatch):
    tried = []

    def expect(jail, what):
        tried.append(jail.name)
        if jail.name in sick:
            raise DeviceLost(f"no kernel runs {what}")

    def opened(tier, gpu):
        return nullcontext(tier)

    monkeypatch.setattr(place, "Jail", opened)
    monkeypatch.setattr(place, "expect_healthy", expect)
    monkeypatch.setattr(place, "probe", lambda: BUBBLEWRAP)
    monkeypatch.setattr(place.shutil, "which", lambda name: None)
    sick = {"bubblewrap"}
    taken = place.place_with(SIMULATED)
    assert (taken.tier.name, taken.tier.safe) == ("process", False)
    assert taken.refused == ("no kernel runs in the tier 'bubblewrap'",)
    sick.add("process")
    with pytest.raises(place.NoLaunch, match=r"'bubblewrap'.*'process'"):
        place.place_with(SIMULATED)


def test_every_known_answer_is_asked():
    """Solution, alternatives, wrong answers of a lab; each wrong one of its own question."""
    release = releases(ROOT)["01_strides"]
    known = list(known_answers(release))
    wrong = [one for one in known if one.sentence]
    assert [one.name for one in known[:2]] == ["solution", "alternative 1"]
    assert len(wrong) == sum(len(question.wrong_answers) for question in release.lab)
    assert {name for one in wrong for name in one.job.only} == set(release.lab.questions)
    assert known[1].job.cells != known[0].job.cells


def test_a_file_is_named_after_device_and_torch():
    told = {"device": "NVIDIA H200 (MIG 1g.18gb)", "torch": "2.11.0+cu130", "command": "make gpu"}
    assert provenance.file_name(told) == "nvidia-h200-mig-1g-18gb-torch2.11.0"
    told["command"] = provenance.RIGHT_ALONE
    assert provenance.file_name(told) == "nvidia-h200-mig-1g-18gb-torch2.11.0-right"
    assert provenance.commit(ROOT) != ""


def test_a_worker_is_lent_what_the_driver_knows(monkeypatch):
    monkeypatch.setattr(nvidia_smi, "facts", lambda name: None)
    with pytest.raises(DeviceLost, match="nvidia-smi does not know GPU 3"):
        worker.lent_gpu("3", alone=True)
    assert worker.lent_gpu("simulated", alone=True).kind == "simulated"


def test_models_of_a_text_are_left_to_the_selftest_and_counted():
    """Lab 06 takes texts alone: its own right answers are asked in the jail."""
    release = releases(ROOT)["06_custom_op"]
    assert not [one.name for one in known_answers(release) if one.sentence]
    left, questions = left_to_selftest(release), release.lab.questions
    assert left.keys() == questions.keys()
    assert left["cpu_head"].startswith(f"{len(questions['cpu_head'].wrong_answers)} of them")
    assert not left_to_selftest(releases(ROOT)["01_strides"])
