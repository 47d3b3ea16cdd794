"""The corpus, read from its folder."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module

from . import corpus as files
from .attack import Attack


@dataclass(frozen=True)
class Named:
    """An attack with what its file says about it."""

    name: str
    strategy: str
    attack: Attack


def corpus() -> tuple[Named, ...]:
    """Every attack, by name. Raises TypeError for a file that holds none, or says nothing."""
    return tuple(_read(found.name) for found in pkgutil.iter_modules(files.__path__))


def _read(name: str) -> Named:
    module = import_module(f"{files.__name__}.{name}")
    attack, strategy = getattr(module, "attack", None), (module.__doc__ or "").strip()
    if not isinstance(attack, Attack) or not strategy:
        raise TypeError(f"attacks/corpus/{name}.py needs a docstring and `attack = Attack(...)`")
    if not name.upper().startswith(attack.threat):
        raise TypeError(f"attacks/corpus/{name}.py is not named after {attack.threat}")
    return Named(name, strategy, attack)


def chosen(family: str = "", names: Iterable[str] = ()) -> tuple[Named, ...]:
    """Those of a family, and those whose name begins with one of `names`; all where neither is
    given. Raises LookupError where nothing fits."""
    every, wanted = corpus(), tuple(name.lower() for name in names)
    if unknown := [w for w in wanted if not any(named.name.startswith(w) for named in every)]:
        raise LookupError(f"There is no attack {unknown[0]!r}.")
    found = tuple(
        named
        for named in every
        if (not family or named.attack.family == family.upper())
        and (not wanted or named.name.startswith(wanted))
    )
    if not found:
        families = ", ".join(sorted({named.attack.family for named in every}))
        raise LookupError(f"There is no such attack. Families: {families}.")
    return found
