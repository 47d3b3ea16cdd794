"""Three schemas, and kernels behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograder.judge import Draw, Student, Wrong, describe, expect_close, expect_tuple, within
from autograder.judge import text as said

from . import lab
from .bench import CHANGED, ChangedArgument, explained, room_for_python
from .heads import head

SCHEMAS = {
    "head": "head(Tensor x, Tensor w, Tensor? b=None) -> Tensor",
    "cap_": "cap_(Tensor(a!) z, float limit=30.) -> Tensor(a!)",
    "top": "top(Tensor z, int k=3, *, bool largest=True) -> (Tensor, Tensor)",
}
Declared = dict[str, tuple[str, list[str]]]
Fact = tuple[str, str]
_MAX_SCHEMA = 400

_RAISED = {
    "ChangedArgument": CHANGED,
    "AttributeError": "Something was asked for that is not there. Three operators are to be "
    "defined in this library, head, cap_ and top; a library has `define` and `impl`.",
    "NotImplementedError": "An operator has a schema and no kernel for the CPU: library.impl.",
    "TypeError": "Something was handed over that is not taken there: the message says by whom. "
    "If by a kernel: is it this operator's own? And has it the defaults of its schema? What "
    "equals its default is left out.",
    "RuntimeError": "torch does not take it: its message says at which place.",
}


@lab.question(
    "declare_head",
    points=3,
    minutes=8,
    difficulty=2,
    hints=(
        "For each operator: which arguments may be left out, which are written, and what comes "
        "back that was there before?",
        "`Tensor?` may be None, `=None` may be left out. `Tensor(a!)` says: in alias set a, and "
        "written; a return that is the same tensor carries the same mark. After `*,` an argument "
        "is given by keyword only.",
        'library.define("cap_(Tensor(a!) z, float limit=30.0) -> Tensor(a!)")',
    ),
    function="declared",
    host="Its operator has a kernel for the CPU alone.",
)
def declare_head(student: Student, draw: Draw) -> None:
    """Schemas and registration: define head, cap_ and top, each with its kernel for the CPU."""
    with room_for_python(student, "declare_head") as room:
        with explained(_RAISED):
            declared = room.call("declared", "declare_head")
        for op, want in SCHEMAS.items():
            _expect_schema(op, declared, want)
        for n in draw.sizes(1, 6):
            with explained(_RAISED):
                _expect_head(room, draw.tensor(n, 12), draw.tensor(9, 12), draw.tensor(9))
                _expect_capped(room, draw.tensor(n, 9), 0.5)
                _expect_capped(room, draw.tensor(9, 6).T, 0.5)  # written too where it is no row
                _expect_top(room, draw.tensor(n, 9))


def _expect_head(room: Student, x: Tensor, w: Tensor, b: Tensor) -> None:
    with within("", why=_NOT_HEAD):
        expect_close(room.call("declared", "declare_head", "head", x, w, b), head(x, w, b))
        y = room.call("declared", "declare_head", "head", x, w)
        expect_close(y, head(x, w, torch.zeros(9)))


_NOT_HEAD = (
    "head_kernel adds b where there is one: is it the kernel of head, and does it get x, w and b "
    "as they came?"
)
_NOT_TOP = (
    "top_kernel finds the k largest, or the k smallest where largest is False: is it the kernel of "
    "top, and does it get k and largest as they came?"
)
_NOT_Z = "cap_ writes into z, and what it returns is z. Is its kernel cap_kernel?"


def _expect_capped(room: Student, z: Tensor, limit: float) -> None:
    want = z.clamp(max=limit)
    got, written, same = expect_tuple(room.call("capped", "declare_head", z, limit), 3, "z, capped")
    with within("", why=_NOT_Z):
        expect_close(got, want)
        expect_close(written, want)
        if same is not True:
            raise Wrong(expected="z itself", got="a copy", where="in what cap_ returned")


def _expect_top(room: Student, z: Tensor) -> None:
    for k, largest in ((3, True), (2, False), (3, False)):
        values, places = z.topk(k, largest=largest)
        got = expect_tuple(
            room.call("declared", "declare_head", "top", z, k, largest=largest),
            2,
            "two tensors",
            where="in what top returned",
        )
        with within("", why=_NOT_TOP):
            expect_close(got[0], values)
            expect_close(got[1], places)


def _expect_schema(op: str, declared: Any, want: str) -> None:
    text, keys = _of(op, declared)
    got, right = _facts(text), _facts(want)
    for (where, mine), (place, wanted) in zip(got, right, strict=False):
        if where != place:
            why = (
                "The names of the arguments, their number and their order are part of the schema: "
                f"whoever calls counts on them. Your schema: {text}"
            )
            raise Wrong(expected=place, got=where, where=f"in {op}", why=why)
        if mine != wanted:
            there = said("within", place=f"in {op},", rest=place)
            raise Wrong(
                expected=wanted, got=mine, where=there, why=_about(place, wanted, mine, text)
            )
    if len(got) != len(right):
        says = f"{len(right)} arguments and returns"
        raise Wrong(expected=says, got=str(len(got)), where=f"in {op}", why=f"Your schema: {text}")
    if keys != ["CPU"]:
        why = "The kernel is to be registered for the key CPU, and for no other."
        got_keys = ", ".join(map(str, keys)) or "none"
        raise Wrong(expected="a kernel for CPU", got=got_keys, where=f"of {op}", why=why)


def _about(place: str, wanted: str, mine: str, text: str) -> str:
    """Why these two facts differ, where it is known: two returned tensors do in the mark alone."""
    kinds = {fact.partition(" in set")[0] for fact in (wanted, mine)}
    if not place.startswith("return") or kinds != {"Tensor"}:
        return f"Your schema: {text}"
    return (
        "A return that is an argument itself carries the mark of that argument; one without a "
        f"mark is new memory. Your schema: {text}"
    )


def _of(op: str, declared: Any) -> tuple[str, list[Any]]:
    found = declared.get(op) if isinstance(declared, dict) else None
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[1], list):
        raise Wrong(expected=f"the schema of {op} and its keys", got=describe(declared))
    if not isinstance(found[0], str) or len(found[0]) > _MAX_SCHEMA:
        raise Wrong(expected=f"the schema of {op}", got=describe(found[0]))
    return found[0], found[1]


def _facts(text: str) -> list[Fact]:
    """(place, what a schema says there) of each argument and each return."""
    try:
        schema = torch._C.parse_schema(text)
    except RuntimeError as error:
        refused = said("error", error="RuntimeError", message=str(error).splitlines()[0])
        raise Wrong(expected="a schema", got=text, where=refused) from None
    sets: list[str] = []
    facts = []
    for a in schema.arguments:
        default = f" = {a.default_value!r}" if a.has_default_value() else ""
        only = ", by keyword only" if a.kwarg_only else ""
        facts.append((f"argument {a.name}", f"{a.type}{_alias(a, sets)}{default}{only}"))
    for place, r in enumerate(schema.returns):
        facts.append((f"return {place}", f"{r.type}{_alias(r, sets)}"))
    return facts


def _alias(argument: Any, sets: list[str]) -> str:
    """Its alias set, by the order in which sets occur: their letters are free."""
    info = argument.alias_info
    if info is None:
        return ""
    name = ",".join(sorted(info.before_set))
    if name not in sets:
        sets.append(name)
    return f" in set {sets.index(name)}" + (", written" if info.is_write else "")


def _saying(**bent: str) -> Callable[..., Any]:
    """The right kernels behind these schemas in the place of the right ones."""
    texts = {op: str(torch._C.parse_schema(bent.get(op, text))) for op, text in SCHEMAS.items()}

    def declared(name: str, op: str = "", *args: Any, **kwargs: Any) -> Any:
        return {o: (t, ["CPU"]) for o, t in texts.items()} if not op else None

    return declared


_WRONG = {
    "bias_needed": (
        "Tensor b says that there always is one. A tensor that may be None is Tensor?, and a "
        "default lets the caller leave it out.",
        {"head": "head(Tensor x, Tensor w, Tensor b) -> Tensor"},
    ),
    "bias_never_none": (
        "`=None` is a default that a Tensor cannot have: one that may be None is a `Tensor?`.",
        {"head": "head(Tensor x, Tensor w, Tensor b=None) -> Tensor"},
    ),
    "bias_named_otherwise": (
        "The bias is called b here, and an argument's name is part of the schema: whoever passes "
        "`b=...` counts on it.",
        {"head": "head(Tensor x, Tensor w, Tensor? bias=None) -> Tensor"},
    ),
    "bias_without_default": (
        "b may be None, but it must be passed: without `=None` nobody can leave it out.",
        {"head": "head(Tensor x, Tensor w, Tensor? b) -> Tensor"},
    ),
    "writing_unsaid": (
        "cap_ writes into z and its schema does not say so. Whoever trusts a schema (autograd, the "
        "compiler) then uses old numbers: `Tensor(a!)`.",
        {"cap_": "cap_(Tensor z, float limit=30.) -> Tensor"},
    ),
    "return_is_new": (
        "z is marked as written, but the return is said to be new memory. It is z itself: the same "
        "mark on both.",
        {"cap_": "cap_(Tensor(a!) z, float limit=30.) -> Tensor"},
    ),
    "a_view_only": (
        "`Tensor(a)` says that the return is a view of z. That z is written needs the `!`.",
        {"cap_": "cap_(Tensor(a) z, float limit=30.) -> Tensor(a)"},
    ),
    "nothing_returned": (
        "cap_ returns z: an operator in place gives back what it wrote, so that calls can be "
        "chained. `()` is no return at all.",
        {"cap_": "cap_(Tensor(a!) z, float limit=30.) -> ()"},
    ),
    "limit_is_an_int": (
        "An int limit refuses 29.5. Logits are cut off at a float.",
        {"cap_": "cap_(Tensor(a!) z, int limit=30) -> Tensor(a!)"},
    ),
    "no_default_limit": (
        "The limit has no default: `=30.0` behind its name.",
        {"cap_": "cap_(Tensor(a!) z, float limit) -> Tensor(a!)"},
    ),
    "largest_by_position": (
        "largest can be given by position here. What follows `*,` is given by keyword only.",
        {"top": "top(Tensor z, int k=3, bool largest=True) -> (Tensor, Tensor)"},
    ),
    "k_by_keyword": (
        "k can only be given by keyword here: `*,` stands before the first of those, and k is "
        "none of them.",
        {"top": "top(Tensor z, *, int k=3, bool largest=True) -> (Tensor, Tensor)"},
    ),
    "a_list_of_tensors": (
        "`Tensor[]` is a list of any length. Two tensors are `(Tensor, Tensor)`.",
        {"top": "top(Tensor z, int k=3, *, bool largest=True) -> Tensor[]"},
    ),
}
for _name, (_sentence, _bent) in _WRONG.items():
    declare_head.wrong(_name, _sentence, declared=_saying(**_bent))


@declare_head.wrong(
    "for_every_backend",
    "The kernels are registered as composite ones. Those stand for all backends, and autograd "
    "looks through them: register for the CPU.",
)
def _(name: str, op: str = "", *args: Any, **kwargs: Any) -> Any:
    return {o: (text, ["CompositeImplicitAutograd"]) for o, (text, _) in _saying()(name).items()}


def _right(name: str, op: str = "", *args: Any, **kwargs: Any) -> Any:
    """The schemas, and head where it is called."""
    if not op:
        return _saying()(name)
    x, w, *b = args
    return head(x, w, *(b or [torch.zeros(len(w))]))


def _other_memory(name: str, z: Tensor, limit: float) -> Any:
    raise ChangedArgument("z has other memory, another shape or another requires_grad now")


declare_head.wrong("other_memory", CHANGED, declared=_right, capped=_other_memory)


@declare_head.cost
def _(student: Student, draw: Draw) -> str:
    with room_for_python(student, "declare_head") as room:
        declared = room.call("declared", "declare_head")
    facts = {op: _facts(_of(op, declared)[0]) for op in SCHEMAS}
    written = [op for op, said in facts.items() if any("written" in what for _, what in said)]
    return (
        f"{len(facts)} operators, {len(facts)} entries in the dispatch table; {written[0]} writes"
    )
