"""A dispatcher that runs the head."""

from __future__ import annotations

import itertools
from typing import Any

import torch

import onelayer
from autograder.checks.explaining import explaining, saying
from autograder.judge import Draw, Student, expect_close, expect_equal, expect_tuple, some

from . import lab
from .chain import PRIORITY, Ran, Table, chain
from .keys import Names


@lab.question(
    "run_head",
    points=6,
    minutes=15,
    difficulty=4,
    hints=(
        "Write down for keys Trace, Autograd, CPU who calls whom. Which keys does `below` still "
        "have at each step?",
        "Three cases for the name: none at all, raise LookupError; a fallthrough, `continue`; a "
        "kernel: log, then return KERNELS[name](below, *args), where below(*new) is a `call` with "
        "`lower` and the new arguments.",
        "return KERNELS[name](lambda *new, keys=lower: call(keys, new), *args)",
    ),
)
def run_head(student: Student, draw: Draw) -> None:
    """One call of the head through a table of kernels: priorities, redispatch, fallthrough,
    fallback.

    x (N, 64), w (V, 64), b (V,), keys in any order, table {key: kernel name}, fallbacks {key:
    kernel name} -> (log of "key: name", logits (N, V) or None where a kernel was missing).
    """
    always: list[tuple[Names, Table, Table]] = [
        (["CPU"], {"CPU": "linear"}, {}),
        (["Trace", "CPU"], {"CPU": "linear", "Trace": "pass"}, {}),
        (
            ["Autograd", "Trace", "CPU"],
            {"CPU": "linear", "Trace": "pass", "Autograd": "pass", "Ban": "ban"},
            {},
        ),
        (["Autograd", "CPU"], {"CPU": "linear", "Autograd": "fallthrough"}, {}),
        (["Autograd", "CPU"], {"CPU": "linear", "Autograd": "pass"}, {"Autograd": "fallthrough"}),
        (["Autograd", "CPU"], {"CPU": "linear"}, {"Autograd": "pass"}),
        (["Autograd", "CPU"], {"CPU": "linear"}, {"Autograd": "fallthrough"}),
        (["Sparse", "CPU"], {"CPU": "linear"}, {"Sparse": "pass"}),
        (["Sparse", "CPU"], {"CPU": "linear"}, {}),
        (["CPU", "Autograd"], {"Autograd": "ban"}, {}),
        (
            ["CPU", "Autocast", "Ban"],
            {"CPU": "linear", "Autocast": "bfloat16", "Ban": "ban"},
            {"Trace": "pass"},
        ),
        (["CPU", "Autocast"], {"CPU": "linear", "Autocast": "bfloat16"}, {}),
        (["Autograd"], {"Autograd": "fallthrough", "CPU": "linear"}, {}),
        ([], {"CPU": "linear"}, {"CPU": "linear"}),
        (["Trace", "CPU"], {"Trace": "fallthrough", "CPU": "linear"}, {"Trace": "pass"}),
        (["Trace", "Ban", "Autograd"], {"Trace": "pass", "Ban": "pass"}, {}),
    ]
    for keys, table, fallbacks in always + [_drawn_run(draw) for _ in draw.cases(6)]:
        x, w, b = _inputs(draw)
        with explaining(_RAISED):
            got = student.call("run_head", x, w, b, keys, table, fallbacks)
        _expect_run(got, chain(x, w, b, keys, table, fallbacks), table)
    runs = [(*_inputs(draw, rows=1, words=5), *run) for run in some(_small_runs(), 120)]
    with explaining(_RAISED):
        for run, got in zip(runs, student.each("run_head", runs), strict=True):
            _expect_run(got, chain(*run), run[4])


def _small_runs() -> list[tuple[Names, Table, Table]]:
    """Two keys above the last one, each with each name that it may have, or with two; and the last
    one with a kernel of its own, with a fallback, with a name that ends nowhere, and with none."""
    names = (None, "pass", "ban", "bfloat16", "fallthrough", "linear")
    ways: list[tuple[str | None, str | None]] = [(name, None) for name in names]
    ways += [(None, "ban"), (None, "fallthrough")]
    ways += [("pass", "ban"), ("fallthrough", "ban"), ("ban", "fallthrough")]
    last: list[tuple[str | None, str | None]] = [("linear", None), (None, "linear"), (None, None)]
    last += [("fallthrough", "linear"), ("pass", None), ("linear", "ban")]
    runs: list[tuple[Names, Table, Table]] = []
    uppers = list(itertools.combinations(PRIORITY[:-1], 2))
    for place, found in enumerate(itertools.product(ways, ways, (False, True))):
        *above, is_plain = found
        end = last[0] if is_plain else last[1 + place // 2 % 5]
        keys = [*uppers[place % len(uppers)], "CPU"]
        table, fallbacks = (
            {key: name for key, way in zip(keys, (*above, end), strict=True) if (name := way[k])}
            for k in (0, 1)
        )
        brought = keys[:2] if place % 7 == 0 else keys
        runs.append((brought[::-1] if place % 2 else brought, table, fallbacks))
    every: Table = dict.fromkeys(PRIORITY, "pass")
    for k in range(len(PRIORITY)):
        ended = {**every, PRIORITY[k]: "linear"}
        runs += [(list(PRIORITY[::-1]), ended, {}), (list(PRIORITY), {}, ended)]
        others = {key: name for key, name in every.items() if key != PRIORITY[k]}
        passed = {**dict.fromkeys(PRIORITY[:k], "fallthrough"), "CPU": "linear"}
        runs += [(list(PRIORITY), {**others, "CPU": "linear"}, {}), (list(PRIORITY), passed, every)]
    return runs


_RAISED = {
    "RecursionError": "A key was asked again, and again: `below` must call with the `lower` "
    "keys, of which there are fewer each time.",
    "TypeError": "A kernel is called with `below` and then the three tensors: KERNELS[name](below, "
    "*args). `below` takes three tensors too.",
}


def _inputs(
    draw: Draw, *, rows: int = 3, words: int = 20
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Whole numbers, exact in float32 in any order of summation. In bfloat16 all of x is 512, and
    the rows of w sum to zero: only b is left of the logits, but for one that is 513, and 512 in
    bfloat16."""
    x = draw.integers(rows, 64, low=511, high=514).float()
    w = draw.integers(words, 64, low=-3, high=3).float()
    w[:, -1] -= w.sum(dim=1)
    b = torch.tensor(draw.shuffled(range(-(words // 2), words - words // 2)), dtype=torch.float32)
    w[b == 1, -1] += 1
    return x, w, b


def _drawn_run(draw: Draw) -> tuple[Names, Table, Table]:
    names = ("pass", "ban", "bfloat16", "fallthrough")
    keys = [key for key in draw.shuffled(PRIORITY) if draw.integer(0, 2) or key == "CPU"]
    table = {key: draw.choice(names) for key in PRIORITY[:-1] if draw.integer(0, 2)}
    fallbacks = {key: draw.choice(names) for key in PRIORITY[:-1] if draw.integer(0, 2)}
    return keys, {**table, "CPU": "linear"}, fallbacks


def _expect_run(got: Any, want: Ran, table: Table) -> None:
    log, logits = expect_tuple(got, 2, "a log and the logits")
    expect_equal(log, want[0], why=_because(log, want[0], table))
    if want[1] is None:
        said = (
            "The log is right: a kernel is missing. Then there are no logits, and None is returned."
        )
        return expect_equal(logits, None, why=said)
    with saying(_OTHER_LOGITS):
        return expect_close(logits, want[1])


_OTHER_LOGITS = (
    "The log is right, and these are not the logits that its kernels make together. A kernel gets "
    "the very arguments that `below` was called with, and `below` gives back what it returned."
)


def _because(log: Any, want: Names, table: Table) -> str:
    """Whose turn it is where a log is wrong; "" for what is no log, or has too much at its end."""
    if not isinstance(log, (list, tuple)):
        return ""
    place = next((k for k, line in enumerate(want) if list(log[k : k + 1]) != [line]), len(want))
    if place == len(want):
        return ""
    if str(next(iter(log[place : place + 1]), "")).endswith(": fallthrough"):
        return (
            f"log[{place}]: a fallthrough logs nothing, whether its name comes from the table or "
            "from the fallbacks. The turn is the next key's."
        )
    key, _, name = want[place].partition(": ")
    if key == "missing":
        return f"log[{place}]: no key is left, or the next one has no name. Raise LookupError."
    if key in table:
        return f"log[{place}]: it is the turn of {key}. Its name in the table is {name}."
    return f"log[{place}]: it is the turn of {key}. It has only a fallback, {name}."


@run_head.wrong(
    "lowest_first",
    "The kernels ran from the lowest key up. The backend computes, so it must be the last one.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return chain(x, w, b, keys, table, fallbacks, bend=lambda way: way[::-1])


@run_head.wrong(
    "order_of_arrival",
    "The keys were taken in the order in which they came. A key set has no order of its own: take "
    "PRIORITY's.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    def as_given(way: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
        return sorted(way, key=lambda stop: keys.index(stop[0]))

    return chain(x, w, b, keys, table, fallbacks, bend=as_given)


@run_head.wrong(
    "set_forgotten",
    "A kernel ran for a key that the call does not have. Below a kernel are the lower keys of "
    "*this* call, not all lower keys.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    present = [key for key in PRIORITY if key in keys]
    first = PRIORITY.index(present[0]) + 1 if present else len(PRIORITY)
    lower = [key for key in PRIORITY[first:] if key in table or key in fallbacks or key in keys]
    return chain(x, w, b, [*present[:1], *lower], table, fallbacks)


@run_head.wrong(
    "straight_to_the_backend",
    "A kernel between the first and the last was left out: redispatch goes to the next key, not to "
    "the backend.",
)
def _(*given: Any) -> Ran:
    def first_and_last(way: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
        real = [stop for stop in way if stop[1] != "fallthrough"]
        return [*real[:1], *real[1:][-1:]]

    return chain(*given, bend=first_and_last)


@run_head.wrong(
    "fallthrough_is_missing",
    "A fallthrough was taken for a missing kernel. It says: nothing to do for this key, ask the "
    "next.",
)
def _(*given: Any) -> Ran:
    return chain(
        *given,
        bend=lambda way: [(key, None if name == "fallthrough" else name) for key, name in way],
    )


@run_head.wrong(
    "fallthrough_of_a_fallback_is_missing",
    "A fallthrough among the fallbacks was taken for a missing kernel. It says what it says in the "
    "table: nothing to do for this key, ask the next.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    kernels = {key: name for key, name in fallbacks.items() if name != "fallthrough"}
    return chain(x, w, b, keys, table, kernels)


@run_head.wrong(
    "fallthrough_logged",
    "A fallthrough is in the log. There is no kernel behind it, so nothing has run.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    _, logits = chain(x, w, b, keys, table, fallbacks)
    names = [(key, table.get(key, fallbacks.get(key))) for key in PRIORITY if key in keys]
    ran = list(itertools.takewhile(lambda stop: stop[1] is not None, names))
    log = [f"{key}: {name}" for key, name in ran]
    return (log if logits is not None else [*log, "missing"]), logits


@run_head.wrong(
    "fallthrough_run",
    "A fallthrough is in the log, and the call ends there, as where it is looked up like a "
    "kernel. It is the name for none: go on to the next key before you log or run anything.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    names = [(key, table.get(key, fallbacks.get(key))) for key in PRIORITY if key in keys]
    stop = next((at for at, (_, name) in enumerate(names) if name == "fallthrough"), None)
    if stop is None or None in [name for _, name in names[:stop]]:
        return chain(x, w, b, keys, table, fallbacks)
    return [*(f"{key}: {name}" for key, name in names[: stop + 1]), "missing"], None


@run_head.wrong(
    "old_arguments",
    "The kernel below got the arguments of the beginning. `below` passes on those that it is "
    "called with: autocast's kernel calls it with rounded ones.",
)
def _(*given: Any) -> Ran:
    return chain(*given, rounds=False)


@run_head.wrong(
    "logged_on_the_way_back",
    "The log is the wrong way round, as where a kernel is logged when it has returned, after all "
    "those below it. Log before you run it.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    return (["missing"] if logits is None else log[::-1]), logits


@run_head.wrong(
    "nothing_logged_above_a_hole",
    "A kernel has its turn before the hole, and it is not in the log. Keys are looked up one at a "
    "time, and a kernel is logged before it is called: a hole further down takes nothing back.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    if any(key not in table and key not in fallbacks for key in keys):
        return ["missing"], None
    return chain(x, w, b, keys, table, fallbacks)


@run_head.wrong(
    "nothing_returned",
    'The log has the right kernels, and then "missing", as where the loop goes on to its end: '
    "`call` must return what KERNELS[name] returns.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    return (log if logits is None else [*log, "missing"]), None


_USES = {"bfloat16": "float", "ban": "scatter"}
"""What the page's kernels ask of the logits that `below` returns."""


@run_head.wrong(
    "below_returns_nothing",
    "The log is right, and the logits got lost on the way up: `below` must return what its `call` "
    "returns.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    uses = [_USES[name] for above in log[:-1] if (name := above.partition(": ")[2]) in _USES]
    if logits is not None and uses:
        raise AttributeError(f"'NoneType' object has no attribute '{uses[-1]}'")
    return log, logits if len(log) == 1 else None


@run_head.wrong(
    "fallback_first",
    "The fallback was taken although the operator has an entry of its own for this key. A fallback "
    "serves those that have none.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    return chain(x, w, b, keys, {**table, **fallbacks}, {})


run_head.wrong(
    "fallbacks_forgotten",
    "The operator has no kernel for this key, but the key has a fallback for every operator.",
    run_head=lambda x, w, b, keys, table, fallbacks: chain(x, w, b, keys, table, {}),
)


@run_head.wrong(
    "missing_is_passed_over",
    "A key without any kernel was passed over. torch raises there: passing over must be asked for, "
    "by a fallthrough.",
)
def _(*given: Any) -> Ran:
    return chain(
        *given,
        bend=lambda way: [stop for stop in way if stop[1] is not None],
    )


@run_head.wrong(
    "fallthrough_falls_back",
    "The table says fallthrough for this key, and its fallback was called. The table comes first, "
    "whatever it says.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    own = {k: v for k, v in table.items() if v != "fallthrough" or k not in fallbacks}
    return chain(x, w, b, keys, own, fallbacks)


@run_head.wrong(
    "fallback_read_in_any_case",
    "The table has a name for this key, and the call was given up where the key has no fallback, "
    "as by `table.get(key, fallbacks[key])`: it reads fallbacks[key] in any case, and a KeyError "
    "is a LookupError.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    own = {key: name for key, name in table.items() if key in fallbacks}
    return chain(x, w, b, keys, own, fallbacks)


@run_head.wrong(
    "missing_caught_on_the_way",
    "A kernel was missing further down, and an outer call went on with its next key, so kernels "
    "ran again. Let the LookupError pass: `run_head` catches it.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    log, logits = chain(x, w, b, keys, table, fallbacks)
    return (log, logits) if logits is not None else ([*_retried(log[:-1]), "missing"], None)


def _retried(stops: Names) -> Names:
    """Each stop, and all that is tried again below it."""
    return [s for k, stop in enumerate(stops) for s in (stop, *_retried(stops[k + 1 :]))]


@run_head.wrong(
    "names_alone",
    "The log has kernels without their keys. An entry is `key: name`.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    return [entry.partition(": ")[2] or entry for entry in log], logits


def _hole(logits: torch.Tensor | None, keys: Names, table: Table, fallbacks: Table) -> str | None:
    """The key at which a call without logits found no kernel; None where it ran out of keys."""
    holes = [key for key in PRIORITY if key in keys and not (table.get(key) or fallbacks.get(key))]
    return holes[0] if holes and logits is None else None


@run_head.wrong(
    "keys_alone",
    "The log has keys without their kernels. An entry is `key: name`.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    return [entry.partition(":")[0] for entry in log], logits


@run_head.wrong(
    "name_before_key",
    "Key and kernel are the wrong way round in the log. An entry is `key: name`.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    return [": ".join(entry.split(": ")[::-1]) for entry in log], logits


@run_head.wrong(
    "without_the_space",
    "The space behind the colon is missing in the log. An entry is `key: name`.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    return [entry.replace(": ", ":") for entry in log], logits


@run_head.wrong(
    "pairs_logged",
    "The log has pairs. An entry is one text, `key: name`.",
)
def _(*given: Any) -> Any:
    log, logits = chain(*given)
    return [tuple(entry.split(": ")) if ": " in entry else entry for entry in log], logits


@run_head.wrong(
    "missing_twice",
    '"missing" is in the log twice: `run_head` logs it when it catches the LookupError. Only '
    "raise it.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    log, logits = chain(x, w, b, keys, table, fallbacks)
    return ([*log, "missing"] if _hole(logits, keys, table, fallbacks) else log), logits


@run_head.wrong(
    "hole_logged",
    "The key without a kernel is in the log. Nothing ran for it: raise LookupError, and "
    '`run_head` logs "missing".',
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    log, logits = chain(x, w, b, keys, table, fallbacks)
    hole = _hole(logits, keys, table, fallbacks)
    return ([*log[:-1], f"{hole}: None", "missing"] if hole else log), logits


@run_head.wrong(
    "hole_logged_as_missing",
    '"missing" stands beside a key in the log. Raise LookupError: `run_head` logs it, alone.',
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    log, logits = chain(x, w, b, keys, table, fallbacks)
    hole = _hole(logits, keys, table, fallbacks)
    return ([*log[:-1], f"{hole}: missing", "missing"] if hole else log), logits


@run_head.wrong(
    "none_for_a_hole",
    "Where a key had no kernel, None was returned. Raise LookupError: the kernels above must not "
    "go on.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    log, logits = chain(x, w, b, keys, table, fallbacks)
    if not _hole(logits, keys, table, fallbacks):
        return log, logits
    uses = [_USES[name] for above in log if (name := above.partition(": ")[2]) in _USES]
    if uses:
        raise AttributeError(f"'NoneType' object has no attribute '{uses[-1]}'")
    return log[:-1], None


@run_head.wrong(
    "one_key_below",
    "A kernel was missing below another one, although the call has it: `below` runs over *all* "
    "the lower keys.",
)
def _(*given: Any) -> Ran:
    def next_alone(way: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
        first = next((k for k, (_, name) in enumerate(way) if name != "fallthrough"), 0)
        return way[: first + 2]

    return chain(*given, bend=next_alone)


@run_head.wrong(
    "pass_not_logged",
    "A kernel that only passes the call on has run as well: log every kernel.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    return [entry for entry in log if not entry.endswith(": pass")], logits


@run_head.wrong(
    "below_asks_itself",
    "A key was asked again, and again: `below` must call with the `lower` keys, of which there "
    "are fewer each time.",
)
def _(*given: Any) -> Ran:
    log, logits = chain(*given)
    if any(entry.endswith((": pass", ": ban", ": bfloat16")) for entry in log):
        raise RecursionError("maximum recursion depth exceeded")
    return log, logits


@run_head.wrong(
    "fallthrough_asks_the_fallbacks",
    "For a fallthrough of the table the fallbacks were asked. It is an answer: go on to the next "
    "key.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    own = {key: name for key, name in table.items() if name != "fallthrough"}
    return chain(x, w, b, keys, own, fallbacks)


@run_head.wrong(
    "table_emptied",
    "The caller's table was changed, as by `pop`, which removes. Read the name with `get`.",
)
def _(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, keys: Names, table: Table, fallbacks: Table
) -> Ran:
    ran = chain(x, w, b, keys, dict(table), fallbacks)
    for key in keys:
        table.pop(key, None)
    return ran


@run_head.cost
def _(student: Student, draw: Draw) -> str:
    layer, x = onelayer.head(), onelayer.hidden("<en> she has eaten <es> ella")[-1:]  # (1, 64)
    w, b = layer.weight.detach(), layer.bias.detach()
    table = {"CPU": "linear", "Ban": "ban"}
    said = []
    for keys in (["CPU"], ["CPU", "Ban"]):
        _, logits = student.call("run_head", x, w, b, keys, table, {})
        said.append(onelayer.next_words(logits, k=1)[0][0])
    return f'after "ella" the head says {said[0]!r}; with one more kernel in the table, {said[1]!r}'
