"""What a custom operation receives, makes and finds in its backward, under autocast: predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from autograder.checks.explaining import explaining
from autograder.judge import Draw, Student, expect_equal, expect_kind, within

from . import lab

Case = dict[str, Any]
Said = dict[str, Any]
LOW, ALL = ("bfloat16", "float16"), ("bfloat16", "float16", "float32", "float64")
WAYS = ("custom_op", "register_autocast", "Function", "custom_fwd")
_NAMES = (
    "These are dtypes of torch. Their names are asked, as texts: `float32`, not `torch.float32`."
)
_RAISED = {
    "KeyError": "Every case has `way`, `cast`, `region`, `inputs`, `product`, `added` and "
    "`backward`; `cast` may be None.",
}


@lab.question(
    "custom_op_under_autocast",
    points=4,
    minutes=11,
    difficulty=4,
    hints=(
        "Who casts the inputs, if nobody has said anything about autocast? And does autocast go on "
        "inside the operation?",
        "With a declared dtype the inputs are cast in a region, and autocast is off inside. "
        "Without one they come as they are, and the product inside is cast as any product is. "
        "Backward runs after the region: only custom_bwd brings the region back.",
        "inside = None if cast else region; later = inside if way == 'custom_fwd' else None",
    ),
    host="It asks what autocast does on the CPU, and an answer may run it there.",
)
def custom_op_under_autocast(student: Student, draw: Draw) -> None:
    """The dtypes in a custom operation that is called in an autocast region, forward and backward.

    case (dict) -> {"received": [...], "product": ..., "result": ..., "backward": ...}, names of
    dtypes; "error" for a product that torch refuses.
    """
    cases = [*_fixed(draw), *(_drawn(draw) for _ in draw.cases(10))]
    answers = student.each("custom_op_under_autocast", [(case,) for case in cases])
    with explaining(_RAISED):
        for case, got in zip(cases, answers, strict=True):
            want = predicted(case)
            said = expect_kind(got, dict, f"a dict with {', '.join(want)}")
            for key, value in want.items():
                region = f"{case['way']} in {case['region']}"
                with within(f"{key!r}, {region},"):
                    expect_equal(
                        said.get(key), value, why=_violated(key, said.get(key), case, want)
                    )


def _violated(key: str, got: Any, case: Case, want: Said) -> str:
    """The rule of this case that an answer broke first, whichever way."""
    if any(isinstance(part, torch.dtype) for part in (got if isinstance(got, list) else [got])):
        return _NAMES
    return {"received": _who_casts, "product": _factors, "result": _widened, "backward": _later}[
        key
    ](case, want)


def _who_casts(case: Case, want: Said) -> str:
    if case["region"] == "off":
        return "Autocast is off around the call. Nobody casts the inputs there."
    if case["cast"] is None:
        return "No dtype was declared here, so the operation receives its inputs as they are."
    return (
        f"Declared is {case['cast']}: in a region each of the five inputs is cast to it, whichever "
        "it was, and float64 alone stays."
    )


def _factors(case: Case, want: Said) -> str:
    a, b = (want["received"][k] for k in case["product"])
    if case["region"] == "off" or case["cast"]:
        return f"Inside autocast is off: the product of {a} and {b} is not cast."
    return (
        f"Nothing was declared, so autocast is on inside, in {case['region']}: it makes "
        f"{_cast(a, case['region'])} and {_cast(b, case['region'])} of the factors {a} and {b}. No "
        "list casts float64."
    )


def _widened(case: Case, want: Said) -> str:
    added = want["received"][case["added"]]
    return (
        f"The product has {want['product']} and what is added {added}: together they make "
        f"{want['result']}, as in any sum."
    )


def _later(case: Case, want: Said) -> str:
    a, b = want["result"], want["received"][case["backward"]]
    if case["way"] == "custom_fwd" and case["region"] != "off" and case["cast"] is None:
        return (
            f"custom_bwd brings back the region, {case['region']}: it makes "
            f"{_cast(a, case['region'])} and {_cast(b, case['region'])} of the gradient's {a} and "
            f"the saved {b}. Two different dtypes are refused."
        )
    return (
        f"In this backward autocast is off: the gradient has {a}, what was saved {b}. Nothing is "
        "cast, and two different dtypes are refused."
    )


def _fixed(draw: Draw) -> list[Case]:
    """Each rule once. Where inputs differ, no two of the dtypes that can come out are the same."""
    low, other = draw.shuffled(LOW)
    mixed = ["float32", low, other, "float32", "float64"]
    return [
        _case("register_autocast", low, other, mixed, added=0),
        _case("custom_op", None, low, mixed, added=1),
        _case("custom_fwd", "float32", low, mixed, added=2),
        _case("custom_fwd", None, low, mixed, added=0),
        _case("Function", None, other, mixed, added=3),
        _case("register_autocast", other, "off", ["float32"] * 5, added=1),
        _case("custom_fwd", low, "off", ["float32"] * 5, added=1),
        _case("custom_op", None, low, [other] * 4 + ["float64"], added=0),
        # the same two the other way round: neither the first one wins, nor one of them always
        _case("custom_op", None, other, [low] * 5, product=(0, 0), added=1, backward=0),
        _case("custom_fwd", None, low, ["float64"] * 5, added=1),
        _case("custom_fwd", None, low, mixed, added=4),  # no list casts the gradient
        _case("Function", None, low, ["float64", "float64", other, "float32", low], added=2),
        _case("Function", None, "off", [low, low, other, low, low], added=2),
        _case("custom_fwd", None, low, mixed, added=1),  # the gradient has the region's dtype
        _case("Function", None, low, mixed, product=(3, 3), added=3),
        # a backward that is refused, in each of these ways, and one of float64
        _case("register_autocast", low, other, mixed, added=0, backward=4),
        _case("register_autocast", low, other, ["float64"] * 5, added=1),
        _case("custom_fwd", "float32", low, mixed, added=2, backward=4),
        _case("custom_fwd", low, other, ["float64"] * 5, added=1),
        _case("custom_fwd", None, "off", [low, low, other, low, low], added=2),
        _case("custom_fwd", None, "off", ["float64"] * 5, added=1),
        _case("custom_op", None, "off", [low, low, other, low, low], added=2),
    ]


def _case(
    way: str,
    cast: str | None,
    region: str,
    inputs: Sequence[str],
    *,
    product: Sequence[int] = (0, 1),
    added: int = 0,
    backward: int = 3,
) -> Case:
    return {
        "way": way,
        "cast": cast,
        "region": region,
        "inputs": list(inputs),
        "product": list(product),
        "added": added,
        "backward": backward,
    }


def _drawn(draw: Draw) -> Case:
    """Any case in which the forward runs."""
    while True:
        way = draw.choice(WAYS)
        declared = [*LOW, "float32"]
        cast = draw.choice(declared if way == "register_autocast" else [*declared, None])
        case = _case(
            way,
            cast if way in ("register_autocast", "custom_fwd") else None,
            draw.choice(("off", *LOW, *LOW)),
            [draw.choice((*ALL, "float32")) for _ in range(5)],
            product=[draw.integer(0, 4), draw.integer(0, 4)],
            added=draw.integer(0, 4),
            backward=draw.integer(0, 4),
        )
        if predicted(case)["product"] != "error":
            return case


def _cast(dtype: str, to: str | None, float64_too: bool = False) -> str:
    """As a list of autocast does it; `to` None: nothing is cast."""
    return dtype if to is None or (dtype == "float64" and not float64_too) else to


def _product(a: str, b: str, region: str | None, float64_too: bool = False) -> str:
    a, b = _cast(a, region, float64_too), _cast(b, region, float64_too)
    return a if a == b else "error"


def _sum(a: str, b: str) -> str:
    return "float32" if {a, b} == set(LOW) else max(a, b, key=ALL.index)


def predicted(
    case: Case,
    *,
    declared: Callable[[Case], str | None] = lambda case: case["cast"],
    in_regions_only: bool = True,
    off_inside: bool = True,
    on_inside: bool = True,
    comes_back: Sequence[str] = ("custom_fwd",),
    float64_too: bool = False,
    added: bool = True,
    keeps_received: bool = True,
    checks: bool = True,
    float64_received: bool = False,
    plain: Sequence[str] = (),
    back: str = "inside",
    gradient: str = "result",
    mixed: str = "float32",
    sum_in_region: bool = False,
    widens: bool = True,
    on_for_none: bool = False,
    keeps_on: Sequence[str] = (),
    float64_product: bool = False,
    only_float32: bool = False,
) -> Said:
    """The rules, which a test holds against torch, and the ways to get them wrong. plain: ways with
    autocast off inside. back: "inside", "region" or, without a region too, "cast anyway" in
    backward. gradient: its dtype is that of the "result" or the "product". mixed: what the two
    16-bit dtypes make."""
    region = None if case["region"] == "off" else case["region"]
    cast = declared(case) if region or not in_regions_only else None
    narrows = float64_too or float64_received
    taken = ("float32",) if only_float32 else ALL
    received = [_cast(d, cast, narrows) if d in taken else d for d in case["inputs"]]
    was_cast = case["cast"] if on_for_none else cast
    is_off = was_cast and off_inside and case["way"] not in keeps_on
    inside = region if on_inside and not is_off else None
    inside = None if case["way"] in plain else inside
    i, j = case["product"]
    product = _product(received[i], received[j], inside, float64_too or float64_product)
    if not checks and product == "error":
        product = _sum(received[i], received[j])
    result = _sum(product, received[case["added"]]) if added and product != "error" else product
    result = received[case["added"]] if not widens and product != "error" else result
    if {product, received[case["added"]]} == set(LOW) and added:
        result = mixed
    result = region if sum_in_region and region else result
    kept = (received if keeps_received else case["inputs"])[case["backward"]]
    state = {
        "inside": inside,
        "region": region,
        "cast anyway": case["cast"] or inside,
    }[back]
    later = state if case["way"] in comes_back else None
    came = {"result": result, "product": product, "float32": "float32"}[gradient]
    made = _product(came, kept, later, float64_too) if came != "error" else "error"
    made = _sum(came, kept) if made == "error" and not checks else made
    return {"received": received, "product": product, "result": result, "backward": made}


def _wrong(name: str, sentence: str, **how: Any) -> None:
    custom_op_under_autocast.wrong(
        name, sentence, custom_op_under_autocast=lambda case: predicted(case, **how)
    )


_wrong(
    "every_op_is_cast",
    "Without a word about autocast an operation receives its inputs as they are: it is on no list.",
    declared=lambda case: case["cast"] or (case["region"] if case["region"] != "off" else None),
)
_wrong(
    "cast_to_the_region",
    "What is declared is the dtype to cast to, whatever the region's is.",
    declared=lambda case: case["cast"] and case["region"],
)
_wrong(
    "nobody_casts",
    "A declared dtype was not used: in a region `register_autocast` and `cast_inputs` cast the "
    "inputs before the operation sees them.",
    declared=lambda case: None,
)
_wrong(
    "casts_without_a_region",
    "The inputs were cast with autocast off. What is declared holds in a region alone.",
    in_regions_only=False,
)
_wrong(
    "on_inside_after_a_cast",
    "Where the inputs were cast, autocast is off inside: the product has their dtype.",
    off_inside=False,
)
_wrong(
    "off_inside_always",
    "Autocast was taken to be off inside an operation that declared nothing. It is on: the product "
    "is cast as outside of it.",
    on_inside=False,
)
_wrong(
    "backward_in_the_region",
    "Backward runs where `backward()` is called, after the region. Only custom_bwd brings back the "
    "state of forward.",
    comes_back=WAYS,
)
_wrong(
    "custom_bwd_forgotten",
    "custom_bwd was passed over: it runs backward in the autocast state of its forward.",
    comes_back=(),
)
_wrong(
    "float64_is_cast",
    "float64 was cast. No list does it, and neither does a declared dtype.",
    float64_too=True,
)
_wrong(
    "product_is_the_result",
    "The result is the product and another input, added: a wider input widens it.",
    added=False,
)
_wrong(
    "keeps_the_originals",
    "Backward was given the inputs as the caller has them. What is saved is what the operation "
    "received.",
    keeps_received=False,
)
_wrong(
    "products_convert",
    "A product does not promote, as a sum does: with two dtypes, and autocast off, torch refuses.",
    checks=False,
)
_wrong(
    "float64_received_cast",
    "float64 was cast on the way in. A declared dtype leaves it as it is, as every list does.",
    float64_received=True,
)
_wrong(
    "region_after_a_cast",
    "Backward ran in the region's state where `cast_inputs` is set. Its forward had autocast off "
    "inside, and custom_bwd brings back that state.",
    back="region",
)
_wrong(
    "backward_of_a_function",
    "The backward of a plain Function ran in the state of its forward. Only custom_bwd does that.",
    comes_back=("custom_fwd", "Function"),
)
_wrong(
    "backward_of_a_custom_op",
    "The backward of a `custom_op` ran in the state of its forward. Only custom_bwd does that.",
    comes_back=("custom_fwd", "custom_op"),
)
_wrong(
    "backward_always_in_the_region",
    "Each backward ran in the region's state. `backward()` is called after the region, and only "
    "custom_bwd brings a state back: the one inside its forward.",
    comes_back=WAYS,
    back="region",
)
_wrong(
    "custom_op_switches_off",
    "Autocast was taken to be off inside a `custom_op`. It is on: the product is cast as outside "
    "of it.",
    plain=("custom_op",),
)
_wrong(
    "function_switches_off",
    "Autocast was taken to be off inside a Function. It is on: the product is cast as outside "
    "of it.",
    plain=("Function",),
)
_wrong(
    "none_means_the_region",
    "With `cast_inputs=None` the inputs were cast to the region's dtype. None casts nothing.",
    declared=lambda case: (
        case["cast"]
        or (case["region"] if case["way"] == "custom_fwd" and case["region"] != "off" else None)
    ),
)
_wrong(
    "none_means_the_region_which_stays",
    "With `cast_inputs=None` the inputs were cast to the region's dtype. None casts nothing.",
    declared=lambda case: (
        case["cast"]
        or (case["region"] if case["way"] == "custom_fwd" and case["region"] != "off" else None)
    ),
    on_for_none=True,
)
_wrong(
    "backward_always_in_the_cast_dtype",
    "Backward cast its product to the dtype of `cast_inputs`. Its forward had autocast off inside, "
    "so nothing is cast there.",
    back="cast anyway",
)
_wrong(
    "register_autocast_stays_on",
    "`register_autocast` casts the inputs and switches autocast off inside, as custom_fwd with "
    "`cast_inputs` does.",
    keeps_on=("register_autocast",),
)
_wrong(
    "custom_fwd_stays_on",
    "custom_fwd with `cast_inputs` switches autocast off inside, as `register_autocast` does.",
    keeps_on=("custom_fwd",),
)
_wrong(
    "float64_cast_by_the_product",
    "The product cast float64. No list does it, the lower one neither.",
    float64_product=True,
)
_wrong(
    "only_float32_is_cast",
    "A declared dtype casts the other 16-bit dtype as well, not float32 alone.",
    only_float32=True,
)
_wrong(
    "dtype_of_the_added",
    "The result took the dtype of the added input. The wider of the two wins.",
    widens=False,
)
_wrong(
    "result_in_the_region",
    "The sum was cast to the region's dtype. `add` is on no list: the wider of the two dtypes "
    "wins.",
    sum_in_region=True,
)
_wrong(
    "gradient_of_the_product",
    "The incoming gradient has the dtype of the result, not that of the product.",
    gradient="product",
)
_wrong(
    "gradient_in_float32",
    "The incoming gradient has the dtype of the result. That need not be float32.",
    gradient="float32",
)
_wrong(
    "float16_wins",
    "bfloat16 and float16 together make float32: neither holds the other's numbers.",
    mixed="float16",
)
_wrong(
    "bfloat16_wins",
    "bfloat16 and float16 together make float32: neither holds the other's numbers.",
    mixed="bfloat16",
)


@custom_op_under_autocast.wrong(
    "factors_alone", "Only the two factors are listed. The operation receives all five inputs."
)
def _(case: Case) -> Said:
    said = predicted(case)
    return said | {"received": [said["received"][k] for k in case["product"]]}


@custom_op_under_autocast.wrong(
    "none_for_error", 'None stands where torch refuses the product. The word "error" is asked.'
)
def _(case: Case) -> Said:
    said = predicted(case)
    return {key: None if value == "error" else value for key, value in said.items()}


@custom_op_under_autocast.wrong("dtypes_not_names", _NAMES)
def _(case: Case) -> Said:
    def dtype(name: str) -> Any:
        return name if name == "error" else getattr(torch, name)

    said = predicted(case)
    received = [dtype(name) for name in said.pop("received")]
    return {"received": received, **{key: dtype(name) for key, name in said.items()}}


@custom_op_under_autocast.cost
def _(student: Student, draw: Draw) -> str:
    inputs = ["float32"] * 5
    plain, cast = (
        student.call("custom_op_under_autocast", _case(way, dtype, "bfloat16", inputs))
        for way, dtype in (("Function", None), ("register_autocast", "bfloat16"))
    )
    return (
        f"its backward's product, float32 inputs in a bfloat16 region: {plain['backward']} where "
        f"nothing is declared, {cast['backward']} with register_autocast"
    )
