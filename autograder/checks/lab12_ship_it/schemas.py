"""Operators' schemas as values, what each change does to callers, and drawn changes.

The rules are the question's text, next to PyTorch's own for its operators:
https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/core/function_schema.cpp
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from autograder.judge import Draw

BREAK, FEATURE, PATCH = 2, 1, 0
PLACEHOLDER = {"int": "3", "float": "0.5", "bool": "True", "str": '"sum"'}


@dataclass(frozen=True)
class Argument:
    """default: as the schema writes it, or "" without one."""

    name: str
    type: str
    default: str = ""
    keyword_only: bool = False

    def __str__(self) -> str:
        return f"{self.type} {self.name}" + (f"={self.default}" if self.default else "")


@dataclass(frozen=True)
class Schema:
    """An operator; name: with its overload, if it has one."""

    name: str
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...] = ("Tensor",)

    @property
    def positional(self) -> list[Argument]:
        return [a for a in self.arguments if not a.keyword_only]

    @property
    def keyword_only(self) -> list[Argument]:
        return [a for a in self.arguments if a.keyword_only]

    def __str__(self) -> str:
        parts = [*map(str, self.positional)]
        parts += ["*", *map(str, self.keyword_only)] if self.keyword_only else []
        many = ", ".join(self.returns)
        returned = many if len(self.returns) == 1 else f"({many})"
        return f"{self.name}({', '.join(parts)}) -> {returned}"


@dataclass(frozen=True)
class Reading:
    """How the rules are read: all False is right, each True is one mistake."""

    defaults_free: bool = False
    required_free: bool = False
    places_free: bool = False
    order_free: bool = False  # before names_free: what changed places has its name still
    names_free: bool = False
    keyword_order_counts: bool = False
    optional_breaks: bool = False
    narrowing_free: bool = False
    returns_free: bool = False
    writes_free: bool = False
    keyword_only_free: bool = False
    default_removed_free: bool = False
    default_given_breaks: bool = False
    new_default_breaks: bool = False
    gone_free: bool = False
    types_free: bool = False
    positional_breaks: bool = False
    result_names_count: bool = False


def effect(old: Schema, new: Schema, read: Reading) -> int:
    """BREAK, FEATURE or PATCH: what the change from old to new is to callers."""
    before, after = (_returned(s, named=read.result_names_count) for s in (old, new))
    if before != after and not read.returns_free:
        return BREAK
    if read.names_free:
        new = _named_alike(old, new)
    found = {a.name: a for a in new.arguments}
    effects = [PATCH]
    for argument in old.arguments:
        later = found.pop(argument.name, None)
        if later is not None:
            effects.append(_of_argument(argument, later, read))
        elif not read.gone_free:
            effects.append(BREAK)
    effects += [_of_new(a, read) for a in found.values()]
    return max(*effects, _of_order(old, new, read))


def _returned(schema: Schema, *, named: bool) -> list[str]:
    """Its types, or the types with their names."""
    return [one if named else one.partition(" ")[0] for one in schema.returns]


def decisive(old: Schema, new: Schema) -> str:
    """The first mistake of `Reading` that would make a break of this change none, or one of what
    is none; "" if no single one does."""
    truly = effect(old, new, Reading()) == BREAK
    for mistake in fields(Reading):
        if (effect(old, new, Reading(**{mistake.name: True})) == BREAK) != truly:
            return mistake.name
    return ""


def _named_alike(old: Schema, new: Schema) -> Schema:
    """Positional arguments under the old names."""
    names = [a.name for a in old.positional]
    taken = [
        replace(a, name=names[k]) if k < len(names) else a for k, a in enumerate(new.positional)
    ]
    return replace(new, arguments=(*taken, *new.keyword_only))


def _of_argument(old: Argument, new: Argument, read: Reading) -> int:
    """An argument that is there before and after."""
    effects = [_of_type(old.type, new.type, read), _of_default(old.default, new.default, read)]
    if new.keyword_only and not old.keyword_only and not read.keyword_only_free:
        effects.append(BREAK)
    if old.keyword_only and not new.keyword_only:
        effects.append(BREAK if read.positional_breaks else FEATURE)
    return max(effects)


def _of_type(old: str, new: str, read: Reading) -> int:
    if old == new:
        return PATCH
    if "!" in old + new:
        return PATCH if read.writes_free else BREAK
    if new == old + "?":
        return BREAK if read.optional_breaks else FEATURE
    return PATCH if read.types_free or (old == new + "?" and read.narrowing_free) else BREAK


def _of_default(old: str, new: str, read: Reading) -> int:
    if old == new:
        return PATCH
    if not old:
        return BREAK if read.default_given_breaks else FEATURE
    if not new:
        return PATCH if read.default_removed_free else BREAK
    return PATCH if read.defaults_free else BREAK


def _of_new(argument: Argument, read: Reading) -> int:
    if argument.default:
        return BREAK if read.new_default_breaks else FEATURE
    return FEATURE if read.required_free else BREAK


def _of_order(old: Schema, new: Schema, read: Reading) -> int:
    """The positional arguments must begin as before."""
    if read.keyword_order_counts and _moved(old.keyword_only, new.keyword_only):
        return BREAK
    stay = {a.name for a in new.positional}
    before = [a.name for a in old.positional if a.name in stay]
    after = [a.name for a in new.positional]
    if read.places_free:
        after = [name for name in after if name in before]
    return PATCH if after[: len(before)] == before or read.order_free else BREAK


def _moved(old: Sequence[Argument], new: Sequence[Argument]) -> bool:
    names = [a.name for a in new]
    kept = [a.name for a in old if a.name in names]
    return [name for name in names if name in kept] != kept


def drawn_schema(draw: Draw, name: str) -> Schema:
    """Three tensors, then numbers, some of them by keyword alone."""
    first = [Argument(n, "Tensor") for n in draw.shuffled(("x", "w", "t", "h"))[:3]]
    rows, limit = Argument("rows", "int"), Argument("limit", "int?")
    parts = Argument("parts", "int", str(draw.integer(1, 9)))
    free = [
        Argument("chunk", "int", str(draw.integer(64, 512))),
        Argument("shift", "bool", "False"),
    ]
    keys = [
        Argument("softcap", "float?", "None", True),
        Argument("z_loss", "float", f"0.{draw.integer(1, 9)}", True),
        Argument("ignore_index", "int", str(-draw.integer(1, 100)), True),
    ]
    middle = [limit, rows, parts]
    return Schema(name, (*first, *middle, *free, *draw.shuffled(keys)))


PAIRS = (  # before and after, of one operator
    ("int n=0", "int n=1"),  # 0, False and None are defaults, and empty where a truth is asked
    ("bool n=False", "bool n=True"),
    ("*, bool n=False", "*, bool n=True"),
    ("int? n=None", "int? n=3"),
    ("*, float? n=None", "*, float? n=0.0"),
    ("int? n=0", "int? n=None"),
    ("int n=3", "int? n=None"),
    ("float n=0.5", "float n=0.25"),
    ("*, float n=0.5", "*, float n=0.25"),
    ('str n="sum"', 'str n="mean"'),
    ("Tensor x", "Tensor x, int? n=None"),
    ("Tensor x", "Tensor x, int n=0"),
    ("Tensor x", "Tensor x, bool n=False"),
    ("Tensor x", "Tensor x, *, bool n=False"),
    ("Tensor x", "Tensor x, *, Tensor? n=None"),
    ("Tensor x", 'Tensor x, str n=""'),
    ("int? n", "int? n=None"),
    ("*, bool n", "*, bool n=False"),
    ("int n", "int n=0"),
    ("int n=0", "int n"),
    ("bool n=False", "bool n"),
    ("Tensor x", "Tensor x, int n"),
    ("Tensor x", "Tensor x, *, Tensor? n"),
    ("int n", "int? n"),
    ("*, float n=0.5", "*, float? n=0.5"),
    ("Tensor[] x", "Tensor[]? x"),
    ("int n", "float? n"),
    ("int n", "float n"),
    ("int n", "int[] n"),
    ("int[2] n", "int[] n"),  # for torch's parser both are a List[int]
    ("int[2] n", "int[3] n"),
    ("int[2] n", "int[2]? n"),
    ("int[2] n", "int[]? n"),  # T is int[2]
    ("Tensor x", "Tensor[] x"),
    ("Tensor x", "Tensor?[] x"),
    ("Tensor[] x", "Tensor?[] x"),  # T is Tensor[]: T? would be Tensor[]?
    ("Tensor? x", "Tensor x"),
    ("*, float? n=0.5", "*, float n=0.5"),
    ("Tensor x, int n", "int n, Tensor x"),
    ("Tensor x, int n=3, int m=3", "Tensor x, int m=3, int n=3"),
    ("Tensor x, *, int n", "int n, Tensor x"),
    ("Tensor x, int n=3, *, int m=3", "Tensor x, int m=3, int n=3"),
    ("Tensor x, *, int n, int m=3", "Tensor x, int m=3, *, int n"),
    ("Tensor x, int n=3, int m=4", "Tensor x, int n=3, *, int m=4"),
    ("Tensor x, *, int n=3", "Tensor x, *, int m=3"),
    ("Tensor(a!) x, Tensor w", "Tensor(a!) x, Tensor(b!) w"),
    ("Tensor(a!) x, Tensor w", "Tensor x, Tensor(a!) w"),
    ("Tensor(a!) x, Tensor w", "Tensor(a!) x, Tensor? w"),
    ("Tensor(a!) x, Tensor w", "Tensor x, Tensor w"),
    ("Tensor(a) x, Tensor w", "Tensor(a!) x, Tensor w"),  # a letter alone is no write
    ("Tensor(a!) x, Tensor w", "Tensor(a) x, Tensor w"),
    ("", "int n=3"),
    ("", "*, int n"),
    ("Tensor x", ""),
)
RETURNS = (
    ("Tensor, int", "int, Tensor"),
    ("Tensor, Tensor", "Tensor"),
    ("Tensor, Tensor", "Tensor, Tensor, int"),
    ("Tensor", ""),
    ("Tensor", "Tensor?"),
    ("Tensor, Tensor", "Tensor, Tensor[]"),
    ("int", "float"),
    ("Tensor loss, Tensor lse", "Tensor y, Tensor lse"),
)


Change = Callable[[Draw, Schema], Schema]


def _with(schema: Schema, old: Argument, *new: Argument) -> Schema:
    """`schema` with these arguments in the place of `old`."""
    place = schema.arguments.index(old)
    before, after = schema.arguments[:place], schema.arguments[place + 1 :]
    return replace(schema, arguments=(*before, *new, *after))


def _the(schema: Schema, name: str) -> Argument:
    return next(a for a in schema.arguments if a.name == name)


def _fresh(draw: Draw) -> str:
    return draw.choice(("scale", "gain", "bias_scale", "width", "block")) + str(draw.integer(1, 99))


def _number(draw: Draw, *, default: bool, keyword_only: bool = False) -> Argument:
    kind = draw.choice(tuple(PLACEHOLDER))
    return Argument(_fresh(draw), kind, PLACEHOLDER[kind] if default else "", keyword_only)


def _changed_default(draw: Draw, schema: Schema) -> Schema:
    old = _the(schema, draw.choice(("chunk", "ignore_index")))
    return _with(schema, old, replace(old, default=str(int(old.default) + draw.integer(1, 9))))


def _required(draw: Draw, schema: Schema) -> Schema:
    return replace(
        schema,
        arguments=(*schema.arguments, _number(draw, default=False, keyword_only=True)),
    )


def _at_the_end(draw: Draw, schema: Schema) -> Schema:
    last = schema.positional[-1]
    return _with(schema, last, last, _number(draw, default=True))


def _in_the_middle(draw: Draw, schema: Schema) -> Schema:
    place = _the(schema, draw.choice(("parts", "chunk")))
    return _with(schema, place, _number(draw, default=True), place)


def _by_keyword(draw: Draw, schema: Schema) -> Schema:
    place = draw.choice(schema.keyword_only)
    return _with(schema, place, _number(draw, default=True, keyword_only=True), place)


def _renamed(draw: Draw, schema: Schema) -> Schema:
    old = draw.choice(schema.positional)
    return _with(schema, old, replace(old, name=_fresh(draw)))


def _removed(draw: Draw, schema: Schema) -> Schema:
    return _with(schema, _the(schema, "shift"))


def _removed_keyword(draw: Draw, schema: Schema) -> Schema:
    """Of an argument that no call gives by position."""
    return _with(schema, draw.choice(schema.keyword_only))


def _swapped(draw: Draw, schema: Schema) -> Schema:
    a, b, *rest = schema.arguments
    return replace(schema, arguments=(b, a, *rest))


def _keywords_moved(draw: Draw, schema: Schema) -> Schema:
    keys = schema.keyword_only
    return replace(schema, arguments=(*schema.positional, *keys[1:], keys[0]))


def _optional(draw: Draw, schema: Schema) -> Schema:
    old = draw.choice([a for a in schema.positional if a.type == "Tensor"])
    return _with(schema, old, replace(old, type="Tensor?"))


def _narrowed(draw: Draw, schema: Schema) -> Schema:
    old = _the(schema, "limit")
    return _with(schema, old, replace(old, type="int"))


def _other_type(draw: Draw, schema: Schema) -> Schema:
    old = _the(schema, "rows")
    return _with(schema, old, replace(old, type=draw.choice(("Tensor", "str"))))


def _default_given(draw: Draw, schema: Schema) -> Schema:
    old = _the(schema, "rows")
    return _with(schema, old, replace(old, default="7"))


def _default_removed(draw: Draw, schema: Schema) -> Schema:
    old = draw.choice(schema.keyword_only)
    return _with(schema, old, replace(old, default=""))


def _none_removed(draw: Draw, schema: Schema) -> Schema:
    """The default that was None: what is missing then reads as None too."""
    old = _the(schema, "softcap")
    return _with(schema, old, replace(old, default=""))


def _more_returns(draw: Draw, schema: Schema) -> Schema:
    return replace(schema, returns=("Tensor",) * (len(schema.returns) + draw.integer(1, 2)))


def _other_returns(draw: Draw, schema: Schema) -> Schema:
    """As many, and one of them a list."""
    return replace(schema, returns=("Tensor[]", *schema.returns[1:]))


def _writes(draw: Draw, schema: Schema) -> Schema:
    old = draw.choice([a for a in schema.positional if a.type == "Tensor"])
    return _with(schema, old, replace(old, type="Tensor(a!)"))


def _keyword_only(draw: Draw, schema: Schema) -> Schema:
    old = _the(schema, "shift")
    without_it = _with(schema, old)
    moved = replace(old, keyword_only=True)
    return replace(without_it, arguments=(*without_it.arguments, moved))


def _positional(draw: Draw, schema: Schema) -> Schema:
    old = schema.keyword_only[0]
    rest = _with(schema, old)
    moved = replace(old, keyword_only=False)
    return replace(rest, arguments=(*rest.positional, moved, *rest.keyword_only))


CHANGES: dict[str, tuple[Change, int]] = {
    "changed_default": (_changed_default, BREAK),
    "required": (_required, BREAK),
    "at_the_end": (_at_the_end, FEATURE),
    "in_the_middle": (_in_the_middle, BREAK),
    "by_keyword": (_by_keyword, FEATURE),
    "renamed": (_renamed, BREAK),
    "removed": (_removed, BREAK),
    "removed_keyword": (_removed_keyword, BREAK),
    "swapped": (_swapped, BREAK),
    "keywords_moved": (_keywords_moved, PATCH),
    "optional": (_optional, FEATURE),
    "narrowed": (_narrowed, BREAK),
    "other_type": (_other_type, BREAK),
    "default_given": (_default_given, FEATURE),
    "default_removed": (_default_removed, BREAK),
    "none_removed": (_none_removed, BREAK),
    "more_returns": (_more_returns, BREAK),
    "other_returns": (_other_returns, BREAK),
    "writes": (_writes, BREAK),
    "keyword_only": (_keyword_only, BREAK),
    "positional": (_positional, FEATURE),
}
