"""What torch.compile checks before it runs what it has compiled."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType

_LEAF = re.compile(r"\+- (?P<kind>[A-Z_]+): (?P<rest>.*)")
_WHERE = re.compile(r":(?P<line>\d+) in (?P<function>\S+)")


@dataclass(frozen=True)
class Guard:
    """One condition of a compiled function.

    kind: torch's name for it, as TENSOR_MATCH. check: the condition as code; L holds the
    function's arguments and locals, G the globals. line: of the user's file, where it is about one.
    """

    kind: str
    check: str
    line: int | None

    def __str__(self) -> str:
        return f"{self.kind:<16} {self.check}"


def guards_of(code: CodeType) -> tuple[Guard, ...]:
    """The guards of each version that is compiled for `code` now, the first to be tried first."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    entries = _debug_get_cache_entry_list(code)
    return tuple(g for e in entries for g in _leaves(str(e.guard_manager).splitlines(), code))


def versions_of(code: CodeType) -> int:
    """How many compiled versions of `code` there are now."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    return len(_debug_get_cache_entry_list(code))


def _leaves(lines: Iterable[str], code: CodeType) -> Iterable[Guard]:
    for text in lines:
        leaf = _LEAF.search(text)
        if leaf is None:
            continue
        check, *notes = re.split(r"\s+# ", leaf["rest"])
        where = _WHERE.search(notes[-1]) if notes else None
        own = where is not None and where["function"] == code.co_name
        line = int(where["line"]) if where and own else None
        yield Guard(leaf["kind"], check.strip(), line)
