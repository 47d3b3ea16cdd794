"""`explorable`: a few choices, and for each of their combinations a picture that was computed.

All combinations are computed when the view is made, by the course's own counters; `explorable.js`
only picks one. So the view needs no kernel, and holds no rule that a test could not reach.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from .played import Played
from .words import say

_MOST_SCENES = 200
LOOKS = ("blue", "pale", "orange", "green", "red", "grey")
"""How a part can look. Red has a dashed border and grey has stripes: no look is a colour alone."""


class Part(NamedTuple):
    """A piece of a line: how long it is, how it looks, and what it is called."""

    size: float
    look: str
    label: str = ""


class Line(NamedTuple):
    """Parts side by side, under a name and with a value behind them."""

    name: str
    parts: Sequence[Part]
    value: str = ""


class Scene(NamedTuple):
    """What one combination of choices shows: its lines, and a sentence or two."""

    lines: Sequence[Line]
    says: str


class Explorable(Played):
    """Choices and what they show; `view["at"]` follows what the reader chose."""

    name = "explorable"

    @property
    def scene(self) -> dict[str, object]:
        """What is shown just now."""
        chosen: dict[str, object] = self.view["scenes"][_key(self.view["at"].values())]
        return chosen

    def __repr__(self) -> str:
        view = self.view
        at = ", ".join(f"{name}: {option}" for name, option in view["at"].items())
        lines, says = view["scenes"][_key(view["at"].values())].values()
        wide = max(len(name) for name, _, _ in lines)
        told = (
            (name, value or ", ".join(label for _, _, label in parts))
            for name, parts, value in lines
        )
        rows = [f"  {name:<{wide}}  {value}" for name, value in told]
        return "\n".join([f"{view['about']} ({at})", *rows, says])


def explorable(
    about: str,
    choices: Mapping[str, Sequence[str]],
    scene: Callable[..., Scene],
    *,
    means: Mapping[str, str],
    start: Mapping[str, str] | None = None,
) -> Explorable:
    """A view in which the reader makes `choices`, each between its options. `start` says which are
    on at first; where it does not, the first is.

    `scene` is called once for each combination, with one option of each choice, in their order.
    `means` says in words what each look of a part means. The longest line of all scenes is as wide
    as the view, so lines can be compared.

    Raises ValueError for no or more than 200 combinations, for a look that there is not, and for a
    part whose look means nothing.
    """
    if unknown := set(means) - set(LOOKS):
        raise ValueError(
            say(
                "a part looks like one of {looks}, not {unknown}",
                looks=LOOKS,
                unknown=sorted(unknown),
            )
        )
    ways = list(product(*choices.values()))
    if not 0 < len(ways) <= _MOST_SCENES:
        raise ValueError(
            say("1 to {most} combinations can be shown, not {n}", most=_MOST_SCENES, n=len(ways))
        )
    scenes = {_key(way): scene(*way) for way in ways}
    parts = [part for one in scenes.values() for line in one.lines for part in line.parts]
    if mute := {part.look for part in parts} - set(means):
        raise ValueError(say("nobody says what these looks mean: {mute}", mute=sorted(mute)))
    view = {
        "about": about,
        "choices": {name: list(options) for name, options in choices.items()},
        "at": {name: options[0] for name, options in choices.items()} | dict(start or {}),
        "means": dict(means),
        "scenes": json.loads(json.dumps({key: one._asdict() for key, one in scenes.items()})),
    }
    return Explorable(view).show()


def _key(options: Iterable[str]) -> str:
    return json.dumps(list(options), separators=(",", ":"), ensure_ascii=False)
