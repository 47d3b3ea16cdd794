"""Lab 12's own truths: its wheels against the `packaging` library, its options against the course's
fused loss, its bounds against what rounding does; and every drawn change and fault is what it is
called."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging import tags
from packaging.utils import parse_wheel_filename

from autograder.checks.lab12_ship_it import lab
from autograder.checks.lab12_ship_it.broken_release import WHOLE, found_in
from autograder.checks.lab12_ship_it.next_version import _cases as drawn_versions
from autograder.checks.lab12_ship_it.next_version import _parsed, _shortened
from autograder.checks.lab12_ship_it.options import (
    Meaning,
    drawn_cases,
    gradients,
    loss_of,
    with_weight,
)
from autograder.checks.lab12_ship_it.options_backward import by_hand
from autograder.checks.lab12_ship_it.pairs_covered import (
    _allowed,
    _drawn,
    _most,
    _tangled,
    greedy,
    pairs_of,
)
from autograder.checks.lab12_ship_it.releases import FAULTS, load_in_a_comment, whole
from autograder.checks.lab12_ship_it.schemas import CHANGES, Reading, drawn_schema, effect
from autograder.checks.lab12_ship_it.tolerance import bound
from autograder.checks.lab12_ship_it.wheel_fits import (
    OLDEST,
    _linux,
    _mac,
    _names,
    _unknown,
    _windows,
    fits,
)
from autograder.judge import Draw, LocalStudent, State, ask
from onelayer.kernels.chunked import chunked_head_loss

SEEDS = range(12)
PAGE = Path(__file__).parents[2] / "solutions" / "12_ship_it" / "12_ship_it.py"
LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}


def platforms_of(machine: dict[str, Any]) -> list[str]:
    """What the machine's platform tags are, the best first."""
    arch = machine["arch"]
    if machine["system"] == "win":
        return [f"win_{arch}"]
    if machine["system"] == "macosx":
        return [*tags.mac_platforms(machine["macos"], arch)]
    minors = range(machine["glibc"][1], OLDEST[arch] - 1, -1)  # as packaging goes down
    legacy = [f"{LEGACY[minor]}_{arch}" for minor in minors if minor in LEGACY]
    return [*(f"manylinux_2_{minor}_{arch}" for minor in minors), *legacy, f"linux_{arch}"]


def pips_tags(machine: dict[str, Any]) -> set[tags.Tag]:
    version, platforms = machine["python"], platforms_of(machine)
    interpreter = f"cp3{version[1]}"
    abi = interpreter + ("t" if machine["free_threaded"] else "")
    taken = {*tags.cpython_tags(version, [abi], platforms)}
    return taken | {*tags.compatible_tags(version, interpreter, platforms)}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wheel_fits_where_packaging_says_so(seed: int) -> None:
    draw = Draw(seed)
    machines = [_linux(draw, False), _linux(draw, True), _windows(draw)]
    machines += [_mac(draw, arch) for arch in ("arm64", "x86_64")]
    machines += [_linux(draw, False) | {"arch": a, "glibc": (2, n)} for a, n in OLDEST.items()]
    for machine in machines:
        taken = pips_tags(machine)
        for name in _names(draw, machine) + _unknown(draw, machine):
            want = bool(parse_wheel_filename(name)[3] & taken)
            assert fits(name, machine) == want, (name, machine)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_greedy_choice_covers_all_pairs_with_far_fewer_runs(seed: int) -> None:
    draw = Draw(seed)
    for axes, excluded in (_tangled(draw), _drawn(draw)):
        allowed = _allowed(axes, excluded)
        chosen = greedy(allowed, pairs_of(allowed))
        assert pairs_of(chosen) == pairs_of(allowed)
        largest = sorted(len(values) for values in axes.values())[-2:]
        assert len(chosen) <= 2 * largest[0] * largest[1]
    axes, excluded = _tangled(draw)
    assert 2 * _most(_allowed(axes, excluded)) < len(_allowed(axes, excluded))


def summed(x: torch.Tensor, w: torch.Tensor, accumulator: torch.dtype) -> torch.Tensor:
    """x @ w.T with each product and each sum rounded to the accumulator's dtype."""
    z = torch.zeros(len(x), len(w), dtype=accumulator)
    for a, b in zip(x.T, w.T, strict=True):
        z = z + (a.double()[:, None] * b.double()).to(accumulator)
    return z


@pytest.mark.parametrize(
    ("accumulator", "out", "least"),
    [
        (torch.float32, torch.bfloat16, 0.2),
        (torch.bfloat16, torch.bfloat16, 0.01),
        (torch.float16, torch.float32, 0.01),
        (torch.float32, torch.float32, 0.01),
    ],
)
def test_no_error_is_over_the_bound_and_some_come_near(
    accumulator: torch.dtype, out: torch.dtype, least: float
) -> None:
    draw = Draw(3)
    short = out if accumulator is torch.float32 else accumulator
    x, w = (draw.tensor(n, 40, dtype=short) for n in (30, 50))
    got = summed(x, w, accumulator).to(out).double()
    error = (got - x.double() @ w.double().T).abs()
    share = error / bound(x, w, accumulator, out)
    assert least < float(share.max()) <= 1.0


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_to_callers_what_it_is_called(name: str) -> None:
    change, want = CHANGES[name]
    for seed in range(40):
        draw = Draw(seed)
        old = drawn_schema(draw, "onelayer::head_loss")
        new = change(draw, old)
        assert effect(old, new, Reading()) == want, f"{old}\n{new}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_drawn_schema_is_one_that_torch_reads(seed: int) -> None:
    for _, old, new in drawn_versions(Draw(seed)):
        for schema in (*old, *new):
            read = torch._C.parse_schema(str(schema))
            assert [a.name for a in read.arguments] == [a.name for a in schema.arguments]
            assert _parsed(str(schema)) == schema


@pytest.mark.parametrize("seed", SEEDS)
def test_an_option_means_what_it_means_in_the_fused_loss(seed: int) -> None:
    for (x, w, b, t), options in drawn_cases(Draw(seed)):
        if not len(t):
            continue
        x, w, b = x.double(), w.double(), None if b is None else b.double()
        options = with_weight(options, x)
        want = chunked_head_loss(x, w, b, t, **options)
        torch.testing.assert_close(loss_of(x, w, b, t, Meaning(), **options), want)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_formulas_are_what_autograd_finds(seed: int) -> None:
    for (x, w, b, t), options in drawn_cases(Draw(seed)):
        x, w, b = x.double(), w.double(), None if b is None else b.double()
        options = with_weight(options, x)
        shape = loss_of(x, w, b, t, Meaning(), **options).shape
        dloss = torch.full(shape, -1.75, dtype=torch.float64)
        want = gradients((x, w, b, t), dloss, Meaning(), options)
        for mine, true in zip(by_hand(x, w, b, t, dloss, **options), want, strict=True):
            torch.testing.assert_close(mine, true)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_fault_of_a_release_is_the_one_that_was_put_in(seed: int) -> None:
    draw = Draw(seed)
    assert found_in(whole(draw).files()) == WHOLE
    for kind, fault in FAULTS.items():
        for hidden in (False, True):
            release, place = fault(draw, whole(draw), hidden)
            assert found_in(release.files()) == (kind, place)
    release, place = load_in_a_comment(draw)
    assert found_in(release.files()) == ("not_loaded", place)


HEAD_WHEEL = pytest.param("head_wheel", marks=pytest.mark.compiler)


def test_what_a_whole_release_registers_in_python_works() -> None:
    """Its schemas and its Python, as torch takes them, around kernels that are written here."""
    release = replace(whole(Draw(0)), library="a_whole_release")
    texts, ours = release.files(), torch.library.Library("a_whole_release", "DEF")
    for schema in re.findall(r'm\.def\("(.*)"\);', texts["csrc/a_whole_release.cpp"]):
        name = ours.define(schema)
        ours.impl(name, torch.Tensor.clamp_ if "Tensor(a!)" in schema else torch.mul, "CPU")
    exec(texts["a_whole_release/ops.py"], {})
    forwards = [op for op in release.operators if op.differentiable]
    assert len(forwards) == 2
    for op in forwards:
        call = getattr(torch.ops.a_whole_release, op.name)
        p = 3.0 if "float" in op.arguments else torch.tensor(3.0)
        x = torch.ones(2, requires_grad=True)
        call(x, p).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]
        assert call(torch.ones(2, device="meta"), p).shape == (2,)


def test_no_two_releases_are_the_same() -> None:
    made = [tuple(whole(Draw(seed)).files().items()) for seed in range(40)]
    assert all(a != b for a, b in combinations(made, 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(n for n in lab.questions if n != "head_wheel"), HEAD_WHEEL])
def test_a_wrong_answer_is_wrong_whatever_is_drawn(name: str) -> None:
    """The fixed cases show each fault: the notebook and the grade cannot disagree."""
    question = lab.questions[name]
    for known in question.wrong_answers:
        student = LocalStudent(known.functions)
        for seed in (11, 12):
            with pytest.raises(Exception):  # noqa: B017, PT011  # Wrong, or what the answer raises
                question.check(student, Draw(seed))


@pytest.mark.parametrize("seed", range(3))
def test_the_old_names_of_manylinux_are_asked_of_every_processor(seed: int) -> None:
    def of_intel(names: list[str], machine: dict[str, Any]) -> list[str]:
        fit = [name for name in names if fits(name, machine)]
        return [n for n in fit if not re.search(r"manylinux2014_aarch64.whl$", n) or ".many" in n]

    verdict = ask(lab.questions["wheel_fits"], LocalStudent({"wheel_fits": of_intel}), seed=seed)
    assert "2014_aarch64" in str(verdict), str(verdict)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tag", ["manylinux2010_aarch64", "macosx_11_3_arm64"])
def test_a_platform_that_pip_does_not_have_is_asked(tag: str, seed: int) -> None:
    def by_its_age_alone(names: list[str], machine: dict[str, Any]) -> list[str]:
        return [n for n in names if fits(n, machine) or n.endswith(f"-{tag}.whl")]

    student = LocalStudent({"wheel_fits": by_its_age_alone})
    verdict = ask(lab.questions["wheel_fits"], student, seed=seed)
    assert verdict.state is State.FAIL, str(verdict)


RARE = [
    ("next_version", "str(argument.type), argument.N", "str(argument.type), bool(argument.N)"),
    ("next_version", "if major == 0:", "if (major, minor, patch) <= (1, 0, 0):"),
    ("next_version", "step = max(0, step - 1)", "step = max(0, step - 1) if minor else 0"),
    ("options_backward", "None if b is None else", "None if b is None or not b.any() else"),
    ("broken_release", """f'register_autograd("{full}"'""", """f'register_autograd("{full}'"""),
    ("broken_release", 'r"#.*", "", files["py', 'r"(?m)^#.*", "", files["py'),
    ("broken_release", """'"_C*.so"' not in""", """'"_C*.so"]' not in"""),
    ("broken_release", "built != runs or", 'project.count("==") != 2 or built != runs or'),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("question", "old", "new"), RARE)
def test_what_is_seldom_drawn_is_asked(question: str, old: str, new: str, seed: int) -> None:
    """The solution with one of these edits is wrong whatever is drawn."""
    cell = rf'^# %% id="{question}".*?\n(.*?)(?=^# %%)'
    (source,) = re.findall(cell, PAGE.read_text(), re.M | re.S)
    assert source.count(old) == 1
    names: dict[str, Any] = {"re": re, "torch": torch}
    exec(compile(source.replace(old, new), f"<cell {question}>", "exec"), names)
    verdict = ask(lab.questions[question], LocalStudent(names), seed=seed)
    assert verdict.state is State.FAIL, str(verdict)


def _sharded(stats: torch.Tensor, z: torch.Tensor, t: torch.Tensor, first: int, by: str) -> Any:
    """A right sharded loss, but for what `by` says."""
    tops, sums, picked = stats.unbind(1)
    if by == "0 where there is no column":
        tops = torch.where(sums > 0, tops, 0.0)
    top, keep = tops.amax(0), t != -100
    lse = top + (sums * (tops - top).exp()).sum(0).log()
    here = torch.arange(z.shape[1]) + first == t[:, None]
    if by == "the target's logit":
        here = z == picked.sum(0)[:, None]
    dz = ((z - lse[:, None]).exp() - here.float()) * keep[:, None] / keep.sum()
    return (lse - picked.sum(0))[keep].mean(), dz


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("by", ["", "the target's logit", "0 where there is no column"])
def test_equal_logits_and_logits_far_below_zero_are_asked(by: str, seed: int) -> None:
    student = LocalStudent({"sharded_loss": lambda *given: _sharded(*given, by)})
    verdict = ask(lab.questions["sharded_loss"], student, seed=seed)
    assert verdict.state is (State.FAIL if by else State.PASS), str(verdict)
    assert ("why?" in str(verdict)) == bool(by), str(verdict)


def test_a_schema_is_shortened_to_what_is_not_the_same() -> None:
    old = "l::f(Tensor x, int? k, int a, int b, float? c=None, int d=1, int e=2) -> Tensor"
    new = old.replace("float? c=None", "float? c")
    assert _shortened(new, old) == "l::f(..., int b, float? c, int d=1, ...) -> Tensor"
    assert _shortened("l::f(int[2] n) -> Tensor", "l::f(int[] n) -> Tensor") == (
        "l::f(int[2] n) -> Tensor"
    )
    assert _shortened("l::f(Tensor(a!) x, int n) -> ()", "l::f(Tensor x, int n) -> ()") == (
        "l::f(Tensor(a!) x, int n) -> ()"
    )
    assert (
        _shortened("l::f(int n) -> Tensor y", "l::f(int n) -> Tensor") == "l::f(int n) -> Tensor y"
    )


def test_a_matrix_that_is_kept_for_other_exclusions_is_refused() -> None:
    kept: dict[Any, Any] = {}

    def keeping(axes: Any, excluded: Any, most: int) -> Any:
        allowed = _allowed(axes, excluded)
        return kept.setdefault(tuple(axes), greedy(allowed, pairs_of(allowed)))

    verdict = ask(lab.questions["pairs_covered"], LocalStudent({"pairs_covered": keeping}), seed=1)
    assert "excluded []" in str(verdict), str(verdict)


def test_a_question_takes_any_right_matrix() -> None:
    """One that is larger than the greedy one, and not above the bound."""

    def padded(axes: Any, excluded: Any, most: int) -> Any:
        allowed = _allowed(axes, excluded)
        chosen = greedy(allowed[::-1], pairs_of(allowed))
        return (chosen + chosen)[:most]

    verdict = ask(lab.questions["pairs_covered"], LocalStudent({"pairs_covered": padded}), seed=5)
    assert verdict.state is State.PASS, str(verdict)
