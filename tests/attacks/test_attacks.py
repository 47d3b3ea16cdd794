"""The corpus against the grader as it is, and planted faults against the command that runs it."""

import json
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from autograder import cli
from autograder.attacks import attack_command as command
from autograder.attacks import collected, trying
from autograder.attacks.attack import LAYERS, Attack, Outcome
from autograder.attacks.collected import Named, chosen, corpus
from autograder.attacks.ground import Ground, Walls, missing
from autograder.attacks.trying import HONEST, Tried, try_attack
from autograder.sandbox import BUBBLEWRAP, Tier

CORPUS = corpus()


@pytest.fixture(scope="module")
def ground():
    with Ground() as ground:
        yield ground


@pytest.mark.jail
@pytest.mark.parametrize("named", CORPUS, ids=[named.name for named in CORPUS])
def test_an_attack_fails_its_twin_passes_and_without_the_defence_it_works(named, ground):
    tried = try_attack(named, ground)
    if tried.not_run:
        pytest.skip(f"{named.name} cannot be run on this machine: {tried.not_run}")
    assert tried.faults == ()


@pytest.mark.jail
@pytest.mark.parametrize("program", HONEST, ids=[program.name for program in HONEST])
def test_an_honest_program_passes(program, ground):
    outcome = program.asked(ground)
    assert outcome.verdict == "pass", outcome.detail


def test_the_corpus_is_as_large_and_as_wide_as_promised():
    families = Counter(named.attack.family for named in CORPUS)
    assert len(CORPUS) >= 60
    assert set(families) == set("ABCDEFGH")
    assert {named.attack.layer for named in CORPUS} == set(LAYERS)
    assert len({str(named.attack.hostile) for named in CORPUS}) == len(CORPUS)
    assert len(HONEST) >= 20


def test_every_attack_has_a_twin_of_its_own():
    for named in CORPUS:
        assert named.attack.hostile != named.attack.twin, named.name
        assert len(named.strategy) > 10, named.name


# Planted faults


class Staged:
    """An arena whose outcomes are written down beforehand."""

    def __init__(self, *, hostile="fail", got_it=False, twin="pass", off=True):
        self.outcomes = {"hostile": Outcome(hostile, got_it), "twin": Outcome(twin, twin == "pass")}
        self.off = Outcome("reached" if off else "refused", off)

    def defended(self, submission, ground):
        return self.outcomes[submission]

    def undefended(self, submission, ground):
        return self.off


def staged(needs="", **outcomes):
    arena = Staged(**outcomes)
    attack = Attack("A01", "D1", ("fail",), arena, "hostile", "twin", lambda: needs)
    return Named("a01_staged", "Staged.", attack)


@pytest.fixture
def attack_command(monkeypatch, tmp_path):
    """`autograder attack` over staged attacks, in a terminal of 80 columns."""

    def call(*named, tier=BUBBLEWRAP, arguments=("a01",)):
        monkeypatch.setattr(command, "chosen", lambda family, names: named)
        monkeypatch.setattr(command, "probe", lambda: tier)
        result = tmp_path / "result.json"
        words = ["attack", *arguments, "--json", str(result)]
        done = CliRunner().invoke(cli.main, words, env={"COLUMNS": "80"})
        read = json.loads(result.read_text()) if result.exists() else {}
        return SimpleNamespace(code=done.exit_code, said=done.output, result=read)

    return call


def test_all_that_holds_ends_with_0(attack_command):
    done = attack_command(staged())
    assert done.code == 0, done.said
    assert "1 attacks: 0 succeeded, 0 honest twins punished, 1 live" in done.said
    assert done.result["attacks"][0]["faults"] == []
    assert done.result["attacks"][0]["defended"]["verdict"] == "fail"
    assert done.result["machine"]["torch"]


@pytest.mark.parametrize(
    ("outcomes", "sentence"),
    [
        ({"hostile": "pass", "got_it": True}, "a01_staged: succeeded"),
        ({"got_it": True}, "a01_staged: succeeded"),
        ({"hostile": "ungradable"}, "a01_staged: ungradable, not fail"),
        ({"twin": "fail"}, "a01_staged: its honest twin: fail"),
        ({"off": False}, "a01_staged: not live with its defence off"),
    ],
)
def test_a_fault_turns_the_exit_status_and_is_named(attack_command, outcomes, sentence):
    done = attack_command(staged(), staged(**outcomes))
    assert done.code == 1
    assert sentence in done.said
    assert len(done.result["faults"]) == 1


def test_an_honest_program_that_is_punished_is_a_fault(attack_command, monkeypatch):
    program = SimpleNamespace(name="prints", asked=lambda ground: Outcome("fail", False, "why"))
    monkeypatch.setattr(trying, "HONEST", (program,))
    done = attack_command(staged(), arguments=())
    assert done.code == 1
    assert "prints: punished: fail: why" in done.said
    assert "1 honest programs: 1 punished" in done.said


def test_what_is_not_run_is_said(attack_command):
    done = attack_command(staged(), staged(needs="this kernel has no Landlock"))
    assert done.code == 0
    assert "not run here: a01_staged: this kernel has no Landlock" in done.said
    assert "1 not run here" in done.said
    assert done.result["attacks"][1]["not_run"] == "this kernel has no Landlock"


def test_without_a_jail_nothing_is_run_and_nothing_has_held(attack_command):
    done = attack_command(staged(), tier=Tier("process", "bubblewrap is not installed", False))
    assert done.code == 1
    assert "bubblewrap is not installed" in done.said
    assert done.result["attacks"][0]["not_run"] == "no jail"


def test_a_result_that_cannot_be_written_is_told_before_any_attack(attack_command, tmp_path):
    words = ["attack", "a01", "--json", str(tmp_path / "nowhere" / "result.json")]
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 1
    assert done.output.count("\n") == 1
    assert "No such file or directory" in done.output


def test_an_unknown_name_is_one_line():
    for words, sentence in (
        (["attack", "zz"], "Error: There is no attack 'zz'."),
        (["attack", "--family", "Q"], "Error: There is no such attack. Families: A, B"),
        (["attack", "--family", "B", "a01"], "Error: There is no such attack."),
    ):
        done = CliRunner().invoke(cli.main, words)
        assert done.exit_code == 1
        assert done.output.startswith(sentence)
        assert done.output.count("\n") == 1


def test_names_and_families_choose():
    assert {named.attack.family for named in chosen("b")} == {"B"}
    assert [named.name for named in chosen("", ["A01_hidden"])] == ["a01_hidden_traceback"]
    assert len(chosen()) == len(CORPUS)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("attack = None", "needs a docstring"),
        ('"""Does."""\nattack = 1', "needs a docstring"),
        ('"""Does."""\nfrom autograder.attacks.corpus.a01_hidden_traceback import attack', "named"),
    ],
)
def test_a_file_that_is_no_attack_is_an_error_not_one_less(monkeypatch, tmp_path, source, why):
    (tmp_path / "b99_planted.py").write_text(source)
    monkeypatch.setattr(collected.files, "__path__", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, f"{collected.files.__name__}.b99_planted", raising=False)
    with pytest.raises(TypeError, match=why):
        corpus()
    sys.modules.pop(f"{collected.files.__name__}.b99_planted", None)


@pytest.mark.parametrize(("layer", "expected"), [("D99", ("fail",)), ("D1", ()), ("D1", ("pass",))])
def test_an_attack_that_says_nonsense_cannot_be_written(layer, expected):
    with pytest.raises(ValueError, match=r"no such layer|another verdict"):
        Attack("A01", layer, expected, Staged(), "hostile", "twin")


def test_an_attack_that_was_not_run_has_no_faults_and_no_outcome():
    tried = Tried(staged(), not_run="no jail")
    assert tried.faults == ()
    assert tried.defended is None


@pytest.mark.jail
def test_jails_with_holes_share_the_zygote_of_the_one_without(ground):
    whole, hole = ground.jail(), ground.jail(missing("seccomp"))
    assert whole.pid == hole.pid
    assert whole.without == frozenset()
    with ground.open([""], missing("seccomp")) as student:
        assert student.where == "bubblewrap without seccomp"
    assert ground.jail(Walls(exposed=True)).pid != whole.pid


def test_nothing_of_a_run_is_left_behind():
    with Ground() as ground:
        folder = ground.folder
        assert ground.desk.gradebook != ground.desk.solution
        assert (folder / "1" / "gradebook.db").exists()
    assert not folder.exists()
