"""The key set of a call, the operator's table, and the way through it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from onelayer.drawing.words import say

# Everything under torch._C that this file reads is private to PyTorch. It is read in this file
# alone, so that a change there is mended in one place.
_C: Any = torch._C

# The words of computeDispatchTableEntryWithDebug in aten/src/ATen/core/dispatch/OperatorEntry.cpp
# -> what they mean.
MEANING = {
    "kernel": "registered for this key",
    "default backend kernel": "one kernel for every backend",
    "math kernel": "composite: calls other operators",
    "autograd kernel": "autograd: records a node if needed, calls again below",
    "batched kernel": "takes itself apart for vmap",
    "backend fallback": "fallback of this key, for any operator",
    "nested kernel": "composite for nested tensors",
    "missing": "no kernel: an error",
}
_COMPOSITE = "math kernel"
_ENTRY = re.compile(r"^(\w+): (fallthrough )?registered at (\S+) \[(.+)\]$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One cell of an operator's table: which kernel a key would run. `kind` is a key of MEANING;
    `registered`: the file and line that the kernel was registered from."""

    key: str
    kind: str
    registered: str = ""
    falls_through: bool = False

    @property
    def where(self) -> str:
        """The file's name; what a notebook compiles has a number or a bracket for one."""
        name = re.split(r"[/\\]", self.registered)[-1].partition(":")[0]
        return say("a notebook cell") if re.match(r"<|\d+\.py$", name) else name

    @property
    def composite(self) -> bool:
        return self.kind == _COMPOSITE


@dataclass(frozen=True)
class Stop:
    """What becomes of one key of a call: "excluded", "falls through", "runs" or "not reached"."""

    entry: Entry
    fate: str

    @property
    def words(self) -> str:
        if self.fate == "runs":
            return f"{say(MEANING.get(self.entry.kind, self.entry.kind))} ({self.entry.where})"
        if self.fate == "excluded":
            return say("excluded in this thread just now")
        passed = self.fate == "falls through"
        return say("falls through to the next key") if passed else say(self.fate)


def key_set(*tensors: torch.Tensor) -> tuple[str, ...]:
    """The dispatch keys that these tensors carry together, the highest priority first."""
    keys = _C.DispatchKeySet.from_raw_repr(0)
    for tensor in tensors:
        keys = keys | _C._dispatch_keys(tensor)
    return tuple(_names(keys))


def _names(keys: Any) -> Iterator[str]:
    while keys.raw_repr():
        highest = keys.highestPriorityTypeId()
        name = _C._dispatch_key_name(highest)  # Python's own enum has no name for some
        if name == "Undefined":  # backend bits alone are no key
            return
        yield name
        keys = keys.remove(highest)


def in_order(keys: Iterable[str]) -> tuple[str, ...]:
    """The same keys, the highest priority first."""

    def bits(key: str) -> int:  # the highest bit is the functionality, and the priority
        return int(_C.DispatchKeySet(_C._dispatch_key_parse(key)).raw_repr())

    return tuple(sorted(keys, key=bits, reverse=True))


def dispatch_table(op: str) -> dict[str, Entry]:
    """Every runtime key that has a kernel for `op` ("aten::addmm") -> its entry.

    Raises RuntimeError for an operator that does not exist.
    """
    name, _, overload = op.partition(".")
    _C._dispatch_find_schema_or_throw(name, overload)
    found = _ENTRY.findall(_C._dispatch_dump_table(op))
    return {key: Entry(key, kind, where, bool(through)) for key, through, where, kind in found}


def path(op: str, *tensors: torch.Tensor) -> tuple[Stop, ...]:
    """The way of `op(*tensors)` through its table, highest key first, in the mode of this moment.

    A kernel that is not composite is taken to call again below itself, as autocast, autograd and
    the fallbacks do; the last one computes. A composite kernel calls other operators instead, so
    that no key below it is asked.
    """
    keys = _C.DispatchKeySet.from_raw_repr(0)
    for tensor in tensors:
        keys = keys | _C._dispatch_keys(tensor)
    keys = keys | _C._dispatch_tls_local_include_set()
    table, stops, done = dispatch_table(op), [], False
    for key in _names(keys):
        entry = table.get(key, Entry(key, "missing"))
        if _is_excluded(key):
            fate = "excluded"
        elif done:
            fate = "not reached"
        else:
            fate = "falls through" if entry.falls_through else "runs"
        stops.append(Stop(entry, fate))
        last = entry.composite or entry.kind == "missing" or ends_the_way(key)
        done = done or (fate == "runs" and last)
    return tuple(stops)


def _is_excluded(key: str) -> bool:
    """Whether this thread skips `key` now. A set excludes functionality, whatever the backend."""
    functionality = _C._dispatch_num_backends()  # the bits above are functionality
    own = _C.DispatchKeySet(_C._dispatch_key_parse(key)).raw_repr() >> functionality
    return bool(own & (_C._dispatch_tls_local_exclude_set().raw_repr() >> functionality))


def ends_the_way(key: str) -> bool:
    """Whether a kernel of this key calls nothing below itself: a backend's own, or Python's."""
    above = ("Auto", "ADInplace", "Conj", "Neg", "Zero", "Functionalize", "FuncTorch", "Tracer")
    return not key.startswith((*above, "PythonTLSSnapshot", "Backend"))
