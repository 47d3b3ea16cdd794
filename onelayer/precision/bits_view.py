"""`show_bits`: a number as bits that can be pressed, in six formats.

All arithmetic and drawing is in `bits_view.js`, so that the same view runs in a notebook, where it
is an anywidget, and on a page without a kernel.
"""

from collections.abc import Mapping
from math import isfinite

from onelayer.drawing.played import Played
from onelayer.drawing.words import say

from .formats import FORMATS, in_groups, pattern_of, value_of


class BitsView(Played):
    """The bits of a number. `format`, `bits` and `number` follow what the reader does with it."""

    name = "bits"

    @property
    def format(self) -> str:
        return str(self.view["format"])

    @property
    def bits(self) -> int:
        """The pattern, as an integer."""
        pressed = self.view["bits"]
        form = FORMATS[self.format]
        return pattern_of(float(self.view["exact"]), form) if pressed is None else int(pressed)

    @property
    def number(self) -> float:
        """What the pattern says."""
        return value_of(self.bits, FORMATS[self.format])

    def __repr__(self) -> str:
        text = in_groups(self.bits, FORMATS[self.format])
        exact = float(self.view["exact"])  # NaN and infinity come from the page as texts
        return say(
            "{exact:.9g} in {format}: {bits}, which is {number:.9g}",
            exact=exact,
            format=self.format,
            bits=text,
            number=self.number,
        )


def show_bits(
    value: float = 1.0, format: str = "bf16", *, numbers: Mapping[str, float] | None = None
) -> BitsView:
    """A number as bits: press one, choose a format, step to the next number, see what rounds to it.

        show_bits(13.13)
        show_bits(1e-7, "fp16", numbers={"the largest logit": 13.13})

    `numbers` are offered by name. In a notebook with anywidget the view answers to the kernel;
    elsewhere it is the same view as HTML.

    Raises ValueError for a format other than fp32, tf32, bf16, fp16, e5m2 and e4m3fn, and for a
    number that is not finite or too large for a float32.
    """
    offered = {name: float(number) for name, number in (numbers or {}).items()}
    for number in (value, *offered.values()):
        if not isfinite(number) or abs(number) > _LARGEST:
            raise ValueError(
                say("show_bits begins with a finite float32, got {number}", number=number)
            )
    if format not in FORMATS:
        raise ValueError(
            say(
                "no format {format!r}: choose one of {known}",
                format=format,
                known=", ".join(FORMATS),
            )
        )
    named = [[name, number] for name, number in offered.items()]
    view = {"format": format, "bits": None, "exact": float(value), "numbers": named}
    return BitsView(view).show()


_LARGEST = value_of(0x7F7FFFFF, FORMATS["fp32"])
