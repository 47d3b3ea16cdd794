"""Lab 02 catches what a right-looking answer does wrong in torch itself, and names the mistake also
where it raises."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from autograder.checks import find
from autograder.checks.lab02_dispatcher import lab
from autograder.checks.lab02_dispatcher.observed_step import MADE_A_COPY
from autograder.judge import Cause, LocalStudent, State, Verdict, ask

PAGE = Path(__file__).parents[2] / "solutions" / "02_dispatcher" / "02_dispatcher.py"
SOURCE = PAGE.read_text("utf-8")
ROUND = "return original.call_boxed(keyset, *args, **kwargs).bfloat16().float()"


def solved(name: str, *edits: tuple[str, str], seed: int = 11) -> Verdict:
    """The verdict on the page's own answer to `name` after each edit (from, to) of its text."""
    cells = re.findall(rf'id="(?:setup|{name})".*?\n(.*?)(?=\n# %%)', SOURCE, re.DOTALL)
    assert len(cells) == 2
    text = "\n".join(cells)
    for before, after in edits:
        assert text.count(before) == 1
        text = text.replace(before, after)
    page: dict[str, Any] = {}
    exec(text, page)
    return ask(find(name, [lab]), LocalStudent({name: page[name]}), seed=seed)


def asked(name: str, answer: Callable[..., Any]) -> Verdict:
    return ask(find(name, [lab]), LocalStudent({name: answer}), seed=11)


@pytest.mark.parametrize("name", list(lab.questions))
def test_the_answer_of_the_page_passes_before_it_is_spoilt(name: str) -> None:
    assert solved(name).state is State.PASS


@pytest.mark.parametrize(
    ("name", "edit", "misconception"),
    [
        ("with_my_addmm", ('my_addmm, "CPU"', 'my_addmm, "AutogradCPU"'), "no_autograd_above"),
        (
            "with_my_addmm",
            (ROUND, "return original.call_boxed(keyset, *(t.bfloat16() for t in args)).float()"),
            "arguments_rounded",
        ),
        ("with_my_addmm", (".bfloat16().float()", ".bfloat16()"), "left_in_bfloat16"),
        ("run_head", ("return KERNELS", "KERNELS"), "nothing_returned"),
        ("run_head", ("fallbacks.get(key))  #", "fallbacks[key])  #"), "fallback_read_in_any_case"),
        (
            "run_head",
            ("call(keys, args), *args)", "[call(keys, args)].clear(), *args)"),
            "below_returns_nothing",
        ),
        ("run_head", ("lambda *args, keys=lower", "lambda *_, keys=lower"), "old_arguments"),
        ("trace_linear", ("str(func)", "func._schema.name"), "schema_names"),
        ("trace_linear", ("str(func)", "func.__name__"), "without_namespace"),
    ],
)
def test_an_answer_spoilt_by_one_line_is_named(
    name: str, edit: tuple[str, str], misconception: str
) -> None:
    verdict = solved(name, edit)
    assert (verdict.state, verdict.misconception) == (State.FAIL, misconception)


def test_a_view_that_begins_further_on_is_no_new_storage() -> None:
    begins = ("{t.untyped_storage().data_ptr() for", "{t.data_ptr() for")
    verdict = solved("carried_bytes", begins, ("0 if storage.", "0 if result."))
    assert (verdict.state, verdict.misconception) == (State.FAIL, "offsets_charged")


def test_a_keyword_of_0_is_given_all_the_same() -> None:
    before = "result = func(*args, **kwargs)"
    kept = "result = func(*args, **{name: value for name, value in kwargs.items() if value})"
    assert solved("carried_bytes", (before, kept)).state is State.FAIL


def test_a_view_without_elements_has_no_address_and_is_no_new_storage() -> None:
    """It was accepted: an address within an old storage finds every view but an empty one."""
    within = (
        "any(s.data_ptr() <= result.data_ptr() < s.data_ptr() + s.nbytes() "
        "for s in (t.untyped_storage() for t in old))"
    )
    edit = ("storage.data_ptr() in known", within)
    verdict = solved("carried_bytes", edit)
    assert (verdict.state, verdict.misconception) == (State.FAIL, "empty_views_charged")


def test_a_kernel_that_stays_in_the_table_is_told_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[torch.library.Library] = []
    with monkeypatch.context() as patched:
        patched.setattr(torch.library.Library, "_destroy", lambda library: kept.append(library))
        told = [solved("with_my_addmm").misconception for _ in range(2)]
    for library in reversed(kept):
        library._destroy()  # type: ignore[no-untyped-call]
    assert told == ["not_given_back"] * 2


def test_a_tensor_made_in_inference_has_no_keys_of_autograd_though_it_learns() -> None:
    learns = ("if not made_in_inference", "if requires_grad or not made_in_inference")
    verdict = solved("tensor_keys", learns)
    assert verdict.state is State.FAIL
    assert "made in inference mode" in verdict.sentence


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("with_my_addmm", (ROUND, "return torch.addmm(*args, **kwargs)"), "back to your kernel"),
        ("with_my_addmm", (", with_keyset=True", ""), "takes the key set first"),
        ("run_head", ("keys=lower:", "keys=keys:"), "with the `lower` keys"),
        ("carried_bytes", ("func(*args, **kwargs)", "func(*given[0], **given[1])"), "Metered"),
        ("carried_bytes", ("return cls(result, before + new)", "return result"), "no `plain`"),
        ("trace_linear", ("return func(", "func("), "must return"),
        ("trace_linear", ("with record:", "if record.__enter__():"), "`with` leaves a mode"),
        ("observed_step", ("return func", "with self: return func"), "enter no mode there"),
        ("first_key", (" if key in keys), None)", " if key in keys))"), "The answer is None"),
    ],
)
def test_an_answer_that_raises_is_told_what_that_means(
    name: str, edit: tuple[str, str], said: str
) -> None:
    verdict = solved(name, edit)
    assert verdict.state is State.FAIL
    assert said in verdict.sentence


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("trace_linear", ("str(func)", 'f"{func.overloadpacket}.default"'), "aten.sum.dim_IntList"),
        ("tensor_keys", ('"cpu" else', '"cpu" and dtype.itemsize < 8 else'), "whatever its dtype"),
        (
            "tensor_keys",
            ('f"Autograd{', "f\"Autograd{prefix * ('C' in prefix)}{"),
            "after the device alone",
        ),
    ],
)
def test_a_value_that_breaks_a_rule_is_told_the_rule(
    name: str, edit: tuple[str, str], said: str
) -> None:
    """The first was told that another line had been recorded; the others, which key was missing."""
    verdict = solved(name, edit)
    assert verdict.state is State.FAIL
    assert said in verdict.sentence


def test_a_stub_is_not_answered_rather_than_wrong() -> None:
    def first_key(*_: Any) -> None:
        raise NotImplementedError("Lab 2.2: first_key, about 3 lines")

    assert asked("first_key", first_key).cause is Cause.BLANK


@pytest.mark.parametrize("copied", ["float", "contiguous"])
def test_a_step_that_went_into_a_copy_for_some_tensors_alone_is_told_so(copied: str) -> None:
    step = (
        "func(*args, **(kwargs or {}))",
        f"func(*(t.{copied}() for t in args), **(kwargs or {{}}))",
    )
    assert solved("observed_step", step).sentence == MADE_A_COPY
