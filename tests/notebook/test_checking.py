"""The student's face: what `check`, `hint`, `predict` and `reveal` show, whoever asks."""

from __future__ import annotations

import builtins
import dataclasses
import re
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import autograder
import autograder.checks
from autograder.checks.lab11_distributed.step_bytes import sent_bytes
from autograder.judge import Cause, Draw, Lab, State, Student, Verdict, expect_close, text
from autograder.notebook import guess_widget, kernel, predicting
from autograder.notebook.card import Shown, prose
from autograder.notebook.checking import Checked, checked
from autograder.notebook.guess_lines import lines_for
from autograder.notebook.hinting import hinted
from autograder.notebook.progress_store import progress_store
from autograder.notebook.scored import NotPassed, scored

NUDGE = "dW[o, i] = sum over n of dy[n, o] * x[n, i]: which index comes first?"
LAB = Lab("03_autograd", "Autograd")


@LAB.question(
    "weight_gradient",
    points=3,
    minutes=10,
    difficulty=2,
    hints=(NUDGE, "The sum over `n` is a product of matrices.", "return dy.mT @ x"),
)
def weight_gradient(student: Student, draw: Draw) -> None:
    """dL/dW of y = x W^T, given dL/dy."""
    for n in draw.sizes(7):
        x, dy = draw.tensor(n, 64), draw.tensor(n, 600)
        expect_close(student.call("weight_gradient", x, dy), dy.mT @ x)


@weight_gradient.wrong("transposed", "This is dW transposed: nn.Linear keeps it as (out, in).")
def _(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return x.mT @ dy


@weight_gradient.cost
def _(student: Student, draw: Draw) -> str:
    return "153,600 bytes written"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONELAYER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.setattr(predicting, "_revealed", {})
    return tmp_path / "home"


def right(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    return dy.mT @ x


def stub(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("Lab 3.1: write it")


def checked_function(function: Any, *, seed: int | None = None) -> Checked:
    shown = checked("weight_gradient", {"weight_gradient": function}, seed=seed, labs=[LAB])
    assert isinstance(shown, Checked), shown
    assert_calm(shown)
    return shown


class Tags(HTMLParser):
    """Every tag of a card, and whatever could run or load."""

    KNOWN = re.compile(
        "style|div|span|p|em|code|pre|dl|dt|dd|details|summary|strong|table|caption|thead|tbody|tr|"
        "th|td|ul|li|a"
    )

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.bad: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        names = {"class", "role", "aria-label", "style", "open", "scope", "href"}
        self.bad += [name for name, _ in attrs if name not in names]
        self.bad += [tag] if not self.KNOWN.fullmatch(tag) else []

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"/{tag}")


def assert_calm(shown: Shown) -> None:
    """No traceback, no page wider than its column, no HTML but ours, nothing loaded from afar."""
    html = shown._repr_html_()
    (shown.text + html).encode()
    tags = Tags(html)
    assert not tags.bad
    assert not tags.open
    assert "Traceback" not in shown.text + html
    assert "url(" not in html
    assert "://" not in html
    assert 'role="' in html
    assert repr(shown) == str(shown) == shown.text


def stored(name: str = "weight_gradient") -> Any:
    return progress_store().read().progress.questions.get(name)


def test_a_known_mistake_is_shown_as_the_style_guide_draws_it() -> None:
    shown = checked_function(lambda x, dy: x.mT @ dy, seed=8841)
    version = torch.__version__.partition("+")[0]
    place = f"on cpu, torch {version}, seed 8841"
    head = "weight_gradient   fail   0 of 3 points"
    assert shown.text == "\n".join(
        [
            head + place.rjust(100 - len(head)),
            "  asked     x (7, 64), dy (7, 600)",
            "  expected  (600, 64) float32        got  (64, 600) float32",
            "  why?      This is dW transposed: nn.Linear keeps it as (out, in).",
            f"  next      {NUDGE}",
            '            hint("weight_gradient")',
        ]
    )
    assert str(shown.verdict) == shown.text
    for part in ("fail", "0 of 3 points", "(600, 64) float32", "This is dW transposed", place):
        assert part in shown.html


def test_a_right_answer_shows_its_cost_and_its_points() -> None:
    shown = checked_function(right)
    assert shown.verdict.state is State.PASS
    assert shown.text.splitlines()[1] == "  cost      153,600 bytes written"
    assert "153,600 bytes written" in shown.html
    assert (stored().state, stored().points, stored().checks) == ("pass", 3.0, 1)


def test_each_check_asks_with_fresh_inputs_and_a_seed_asks_again() -> None:
    seeds = {checked_function(right).verdict.seed for _ in range(4)}
    assert len(seeds) > 1
    texts = {checked_function(lambda x, dy: dy.mT @ x + 1, seed=5).text for _ in range(2)}
    assert len(texts) == 1


def test_a_notebook_with_numbers_of_its_own_is_asked_for_those() -> None:
    names = {"step_bytes": lambda *sizes: sent_bytes(*sizes) / 2}
    own = checked("step_bytes", names, numbers={"itemsize": 2})
    assert isinstance(own, Checked)
    assert own.verdict.cause is Cause.PASSED
    public = checked("step_bytes", names)
    assert "right for itemsize = 2" in public.text
    for numbers in ({"itemsize": 3}, {"items": 2}, {"itemsize": "2"}, {"itemsize": [2]}):
        said = checked("step_bytes", names, numbers=numbers)
        assert not isinstance(said, Checked)
        assert "no such numbers" in said.text
    assert "no such numbers" in checked("head_flops", names, numbers={"n": 2}).text


def test_a_stub_is_not_answered_yet_and_says_how_long_it_takes() -> None:
    shown = checked_function(stub)
    assert "not yet" in shown.text
    assert "fail" not in shown.text
    assert "About 10 minutes, difficulty 2 of 5" in shown.text
    assert 'hint("weight_gradient")' in shown.text
    assert NUDGE not in shown.text
    assert (stored().state, stored().checks) == ("not yet", 0)


@pytest.mark.parametrize("names", [{}, {"weight_gradient": 3}, {"weight_gradient": None}])
def test_a_missing_function_is_one_sentence_and_is_not_stored(names: Mapping[str, Any]) -> None:
    checked_function(right)
    shown = checked("weight_gradient", names, labs=[LAB])
    assert_calm(shown)
    assert "There is no function 'weight_gradient' yet." in shown.text
    assert stored().state == "pass"


@pytest.mark.parametrize("name", ["weight_gradeint", "", "<b>", "x" * 10_000, "\x1b[2J"])
def test_an_unknown_question_is_one_sentence(name: str) -> None:
    for shown in (checked(name, {}, labs=[LAB]), hinted(name, [LAB])):
        assert_calm(shown)
        assert len(shown.text) < 200
        assert "There is no question" in shown.text
    assert not progress_store().read().progress.questions


def test_the_nearest_name_is_offered() -> None:
    assert 'Did you mean "weight_gradient"?' in checked("weight_gradeint", {}, labs=[LAB]).text


def test_a_function_may_be_passed_instead_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autograder.checks, "_imported", lambda name: LAB)
    names = {"check": autograder.check}
    exec("def weight_gradient(x, dy): return dy.mT @ x\nshown = check(weight_gradient)", names)
    assert names["shown"].verdict.state is State.PASS  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [None, 3, [], {}, object(), weight_gradient])
def test_whatever_is_passed_for_a_name_is_one_sentence(name: Any) -> None:
    for shown in (autograder.check(name), autograder.hint(name), autograder.reveal(name, 3)):
        assert_calm(shown)


def test_our_own_fault_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Lab:
        raise ImportError("no module named <gone>")

    monkeypatch.setattr(autograder.checks, "_imported", broken)
    for shown in (autograder.check("x"), autograder.hint("x")):
        assert_calm(shown)
        assert "failed on our side, not yours (ImportError" in shown.text
        assert len(shown.text.splitlines()) == 1


def test_stopping_a_check_ends_it_with_one_line() -> None:
    def endless(x: Any, dy: Any) -> None:
        raise KeyboardInterrupt

    def ask() -> Shown:
        return checked("weight_gradient", {"weight_gradient": endless}, labs=[LAB])

    shown = predicting.calmly(ask, 'check("weight_gradient")')
    assert shown.text == 'check("weight_gradient") was stopped. Nothing was stored.'
    assert stored() is None


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&`</div></dl>\x1b[2J\ud800"


class EvilName(Exception):
    pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


class Sly(int):
    def __abs__(self) -> Any:
        raise SystemExit


def recursion(x: Any, dy: Any) -> Any:
    return recursion(x, dy)


def raising(error: BaseException) -> Any:
    def function(x: Any, dy: Any) -> Any:
        raise error

    return function


def returning(value: Any) -> Any:
    return lambda x, dy: value


STRANGE = [
    (n for n in range(3)),
    object(),
    int,
    sys,
    lambda: 0,
    {1, 2},
    10**30,
    float("nan"),
    Sly(3),
    [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]],
    torch.eye(2).to_sparse(),
    torch.empty(2, device="meta"),
    torch.full((600, 64), float("nan")),
    torch.nn.Linear(2, 2),
    EVIL,
    EVIL * 10_000,
    {EVIL: EVIL},
    "a\nweight_gradient   pass   3 of 3 points",
]


@pytest.mark.parametrize("value", STRANGE, ids=lambda value: type(value).__name__)
def test_no_strange_value_passes_or_escapes(value: Any) -> None:
    shown = checked_function(returning(value))
    assert shown.verdict.state is not State.PASS
    assert "\x1b" not in shown.text
    assert max(map(len, shown.text.splitlines())) <= 100
    assert not any(line.startswith("weight_gradient   pass") for line in shown.text.splitlines())


@pytest.mark.parametrize(
    "error",
    [ValueError(EVIL), EvilName(EVIL), Speechless(), SystemExit(3), GeneratorExit(), MemoryError()],
    ids=lambda error: type(error).__name__,
)
def test_no_exception_passes_or_escapes(error: BaseException) -> None:
    shown = checked_function(raising(error))
    assert shown.verdict.state is not State.PASS
    assert "\x1b" not in shown.text


def test_endless_recursion_is_a_failure() -> None:
    shown = checked_function(recursion)
    assert shown.verdict.state is State.FAIL
    assert "RecursionError" in shown.text


def test_what_a_function_prints_is_shown_behind_a_fold_and_bounded() -> None:
    def noisy(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        for _ in range(1_000):
            print(EVIL * 100)
        print("the last line")
        return dy.mT @ x + 1

    shown = checked_function(noisy)
    assert "Your function printed" in shown.text
    assert "the last line" in shown.text
    assert "the last line" in shown.html
    assert len(shown.text) < 6_000
    assert "\x1b" not in shown.text


def test_a_function_that_closes_stdout_only_closes_ours(capsys: pytest.CaptureFixture[str]) -> None:
    def closing(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        sys.stdout.close()
        print("still here")
        return dy.mT @ x

    assert checked_function(closing).verdict.state is State.PASS
    print("and here")
    assert capsys.readouterr().out == "and here\n"


@pytest.mark.parametrize("name", ["len", "isinstance", "print", "str", "type", "all", "vars"])
def test_a_replaced_builtin_is_put_back_and_wins_nothing(name: str) -> None:
    original = getattr(builtins, name)

    def vandal(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        setattr(builtins, name, lambda *_: True)
        return dy.mT @ x

    try:
        shown = checked_function(vandal)
        put_back = getattr(builtins, name) is original
    finally:
        setattr(builtins, name, original)
    assert put_back
    assert (shown.verdict.cause, shown.verdict.mark) == (Cause.REPLACED, "fail")
    assert shown.verdict.sentence == text("replaced", name=name)
    assert (stored().state, stored().checks, stored().points) == ("fail", 1, 0.0)


def test_a_kernel_that_is_missing_without_a_word_is_an_answer_and_is_counted() -> None:
    def silent(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    shown = checked_function(silent)
    assert (shown.verdict.cause, shown.verdict.mark) == (Cause.RAISED, "fail")
    assert (stored().state, stored().checks) == ("fail", 1)


def test_a_replaced_allclose_wins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "allclose", torch.allclose)  # put back afterwards

    def cheat(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        torch.allclose = lambda *_, **__: True  # type: ignore[assignment]
        return torch.zeros(600, 64)

    assert checked_function(cheat).verdict.state is State.FAIL


def test_every_text_of_a_verdict_is_wrapped() -> None:
    long = "a word and another, " * 40
    verdict = Verdict("q" * 90, Cause.WRONG, 0, 1, 1, "", long, long, long, long, "", long, long)
    text = str(verdict)
    assert max(map(len, text.splitlines())) <= 100
    assert "0 of 1 point\n" in text
    asked = [line for line in text.splitlines() if line.startswith("  asked")]
    assert len(asked) == 1


def test_hints_come_one_by_one_and_the_last_one_stays() -> None:
    texts = [hinted("weight_gradient", [LAB]) for _ in range(4)]
    for shown in texts:
        assert_calm(shown)
    assert [t.html.count("<details") for t in texts] == [1, 2, 3, 3]
    assert [t.html.count("<details open") for t in texts] == [1, 1, 1, 1]
    assert "dy.mT @ x" not in texts[1].text + texts[1].html
    assert "return dy.mT @ x" in texts[2].text
    assert texts[2].text == texts[3].text
    assert stored().hints == 3


def test_hints_survive_a_check_and_a_check_survives_hints() -> None:
    checked_function(right)
    hinted("weight_gradient", [LAB])
    checked_function(right)
    assert (stored().hints, stored().state, stored().checks) == (1, "pass", 2)


def test_a_prediction_waits_for_nobody() -> None:
    shown = autograder.predict("bytes", choices=[0, 76_800, (64, 1)])
    assert_calm(shown)
    assert "76,800" in shown.text
    assert "(64, 1)" in shown.html
    assert "guess=" in shown.text
    assert autograder.reveal("bytes", 0).text == "It is 0. No guess yet: scroll up and try."
    assert not progress_store().read().progress.predictions


def test_the_first_guess_counts_and_a_later_one_is_shown_as_such() -> None:
    choices = [0, 153_600]
    autograder.predict("bytes", choices=choices, guess=153_600)
    shown = autograder.predict("bytes", choices=choices, guess=0)
    assert "You said 153,600 first, then 0. The first guess counts." in shown.text
    revealed = autograder.reveal("bytes", torch.tensor(0))
    assert_calm(revealed)
    assert revealed.text.startswith("surprise   You said 153,600; it is 0.")
    assert "the first guess counts" in revealed.text
    assert progress_store().read().progress.predictions["bytes"].right is False


@pytest.mark.parametrize(
    ("guess", "actual", "within", "is_right"),
    [
        (153_600, torch.tensor(153_600), 0.0, True),
        ("153,600", 153_600, 0.0, True),
        ("0.5", 0.52, 0.1, True),
        ("0.5", 0.52, 0.0, False),
        ((1, 64), torch.empty(600, 64).T.stride(), 0.0, True),
        ("(1, 64)", (1, 64), 0.0, True),
        ("A Copy", "a copy", 0.0, True),
        (True, 1, 0.0, False),
        ("true", True, 0.0, True),
        (False, True, 0.0, False),
        (float("inf"), float("inf"), 0.0, True),
        (EVIL, 3, 0.0, False),
        (None, None, 0.0, True),
        (torch.float32, "torch.float32", 0.0, True),
        ([[1]] * 200, 1, 0.0, False),
    ],
)
def test_a_guess_is_right_when_it_says_the_same(
    guess: Any, actual: Any, within: float, is_right: bool
) -> None:
    assert_calm(autograder.predict("key", guess=guess))
    revealed = autograder.reveal("key", actual, within=within)
    assert_calm(revealed)
    assert revealed.text.startswith("right" if is_right else "surprise")
    assert progress_store().read().progress.predictions["key"].right is is_right


def test_a_guess_that_is_no_choice_is_not_kept() -> None:
    shown = autograder.predict("key", choices=[1, 2], guess=EVIL)
    assert_calm(shown)
    assert "is none of the choices: 1, 2." in shown.text
    assert not progress_store().read().progress.predictions


def test_a_click_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.setattr(kernel, "listens", lambda: True)
    shown = autograder.predict("bytes", choices=[0, 8])
    assert isinstance(shown, predicting.Prompt)
    data, _ = shown._repr_mimebundle_()
    assert set(data) >= {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    shown.widget.heard = {"number": 1, "text": ""}
    assert shown.widget.said == "You said 8."
    for nonsense in ({"number": 7, "text": ""}, {"number": "1"}, {}, {"number": True, "text": ""}):
        shown.widget.heard = nonsense
    assert progress_store().read().progress.predictions["bytes"].last == 8


def test_a_click_below_which_the_answer_is_shown_is_told_what_was_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after Run All Cells: the answer is there, and the choices still are."""
    pytest.importorskip("anywidget")
    monkeypatch.setattr(kernel, "listens", lambda: True)
    key, choices = "bias_or_transpose", ["AccumulateGrad of b", "TBackward0"]
    line = lines_for(key)[choices[1]]
    shown = autograder.predict(key, choices=choices)
    assert isinstance(shown, predicting.Prompt)
    autograder.reveal(key, choices[0])
    shown.widget.heard = {"number": 1, "text": ""}
    told = f"You said {choices[1]}; it is {choices[0]}. {line}"
    assert shown.widget.said == prose(told)
    assert progress_store().read().progress.predictions[key].right is False


def test_a_typed_guess_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.setattr(kernel, "listens", lambda: True)
    shown = autograder.predict("bytes")
    assert isinstance(shown, predicting.Prompt)
    shown.widget.heard = {"number": -1, "text": " 153,600 "}
    assert progress_store().read().progress.predictions["bytes"].first == 153_600


def test_without_anywidget_there_is_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "listens", lambda: True)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    guess_widget._widget_class.cache_clear()
    try:
        shown = autograder.predict("bytes", choices=[0, 8])
    finally:
        guess_widget._widget_class.cache_clear()
    assert isinstance(shown, predicting.Prompt)
    assert set(shown._repr_mimebundle_()[0]) == {"text/plain", "text/html"}


def test_prose_shows_code_and_stress_and_leaves_a_product_alone() -> None:
    assert prose("the *last* of `a * b`") == "the <em>last</em> of <code>a * b</code>"
    for product in ("2 * n * k", "`x*y*z`", "f(*args) and g(*args)", "**kwargs**", "n*m*k"):
        assert "<em>" not in prose(product), product


@pytest.mark.parametrize("why", ["validate", "autograde"])
def test_where_nbgrader_runs_the_notebook_a_verdict_is_what_nbgrader_reads(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card would be full marks to it. An error is none, a number is the points."""
    monkeypatch.setattr(autograder.checks, "_imported", lambda name: LAB)
    monkeypatch.setenv("NBGRADER_EXECUTION", why)
    names: dict[str, Any] = {"check": autograder.check, "weight_gradient": lambda x, dy: x.mT @ dy}
    with pytest.raises(NotPassed, match="This is dW transposed") as refused:
        exec('check("weight_gradient")', names)
    assert refused.value._render_traceback_() == [str(refused.value)]
    names["weight_gradient"] = stub
    with pytest.raises(NotPassed, match="not answered yet"):
        exec('check("weight_gradient")', names)
    names["weight_gradient"] = right
    exec('passed = check("weight_gradient")', names)
    passed = names["passed"]
    assert float(repr(passed)) == 3
    assert "pass" in passed.html


def test_what_is_our_fault_is_no_failure_to_nbgrader(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = checked_function(right).verdict
    ours = dataclasses.replace(verdict, cause=Cause.CHECK_FAULT, points=0.0)
    shown = Shown("it was us", "<p>it was us</p>")
    assert scored(shown, ours) is shown


def test_the_unit_is_read_from_the_notebooks_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/ada/course/notebooks/01_strides.ipynb")
    autograder.predict("key", guess=1)
    assert progress_store().read().progress.predictions["key"].unit == "01_strides"


@pytest.mark.slow
def test_the_judge_never_loads_the_face_and_the_face_nothing_heavy() -> None:
    program = """
import sys
import autograder.judge
assert "autograder.notebook" not in sys.modules
from autograder import check, hint, predict, progress, reveal
heavy = {"IPython", "anywidget", "ipywidgets", "nbgrader", "jupytext", "nbclient", "matplotlib"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="chek"):
        autograder.chek  # noqa: B018
    face = {"answered", "check", "hint", "predict", "progress", "reveal"}
    assert face <= set(dir(autograder))
