"""What the face gives back, a card: HTML for a notebook, text for a terminal, both saying the same.
Whatever comes in is text and leaves escaped.

Text takes the colour of its surroundings, borders are half-transparent grey, and a state's word
sits in a pill with both its colours: so a card is readable in light and dark, in JupyterLab, VS
Code and Colab, without asking which one it is in. Nothing is loaded from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape

from autograder.judge import Said, content, say
from autograder.judge.verdict import NOT_YET, one_line

TONES = {
    "pass": ("#17694a", "#2f9e75"),
    "fail": ("#8f4310", "#d98a3d"),
    NOT_YET: ("#4c5668", "#8b95a7"),
    "right": ("#17694a", "#2f9e75"),
    "surprise": ("#2f5d8a", "#6f9bc8"),
    "ungradable": ("#5a41a5", "#9480d6"),
    "flagged": ("#5a41a5", "#9480d6"),
}
"""For each word the pill's background (white on it has a contrast over 6) and the card's edge."""

_STRESSED = re.compile(r"(?<![\w*])\*(\w[\w ]*)\*(?![\w*])")
_GREY = "rgba(128,128,128,"
_MONO = "var(--jp-code-font-family, ui-monospace, SFMono-Regular, Menlo, Consolas, monospace)"

STYLE = f"""<style>
.ol-card {{ box-sizing: border-box; max-width: 52rem; margin: .2rem 0; padding: .7rem 1rem .8rem;
  border: 1px solid {_GREY}.35); border-left: 4px solid var(--ol-edge, {_GREY}.6));
  border-radius: 6px; color: inherit; line-height: 1.5; overflow-wrap: anywhere }}
.ol-card.ol-card p {{ margin: .35rem 0 0; white-space: pre-line }}
.ol-card.ol-card > p:first-of-type:first-child, .ol-card.ol-card style + p {{ margin-top: 0 }}
.ol-card .ol-head {{ display: flex; flex-wrap: wrap; align-items: baseline; gap: .15rem .7rem }}
.ol-card .ol-name {{ font-weight: 600 }}
.ol-card .ol-pill {{ padding: .05rem .6rem; border-radius: 1rem; font-weight: 600;
  font-size: .9em; white-space: nowrap; color: #fff; background: var(--ol-pill, #4c5668) }}
.ol-card .ol-quiet {{ opacity: .78; font-size: .92em }}
.ol-card .ol-far {{ margin-left: auto }}
.ol-card.ol-card dl {{ display: grid; gap: .1rem .6rem; margin: .5rem 0 0;
  grid-template-columns: minmax(4.6rem, max-content) minmax(0, 1fr) }}
.ol-card.ol-card dt {{ float: none; width: auto; margin: 0; font-weight: 400; opacity: .78 }}
.ol-card.ol-card dd {{ margin: 0; width: auto; float: none }}
.ol-card.ol-card dd.ol-value {{ white-space: pre-wrap }}
.ol-card.ol-card code, .ol-card.ol-card pre, .ol-card .ol-value {{ font-family: {_MONO};
  font-size: .92em; color: inherit }}
.ol-card.ol-card code {{ padding: .05em .3em; border-radius: 3px; background: {_GREY}.14) }}
.ol-card.ol-card pre {{ margin: .3rem 0 0; padding: .4rem .6rem; max-height: 16rem; overflow: auto;
  white-space: pre-wrap; background: {_GREY}.1); border-radius: 4px }}
.ol-card .ol-say {{ font-weight: 600 }}
.ol-card.ol-card details {{ margin: .4rem 0 0 }}
.ol-card summary {{ cursor: pointer }}
.ol-card.ol-card summary:focus-visible {{ outline: 2px solid currentColor; outline-offset: 2px }}
.ol-card .ol-strip {{ display: flex; gap: 2px; height: .7rem; margin: .4rem 0 }}
.ol-card .ol-lab {{ background: {_GREY}.25); border-radius: 2px; overflow: hidden }}
.ol-card .ol-lab span {{ display: block; height: 100%; background: #2f9e75 }}
.ol-card .ol-scroll {{ overflow-x: auto; overflow-wrap: normal }}
.ol-card.ol-card table {{ border-collapse: collapse; margin: .4rem 0 0; font-size: inherit;
  border: 0; color: inherit }}
.ol-card.ol-card tr:nth-child(n):nth-child(n) {{ background: none }}
.ol-card.ol-card th, .ol-card.ol-card td {{ padding: .2rem 1rem .2rem 0; text-align: left;
  vertical-align: baseline; border: 0; border-bottom: 1px solid {_GREY}.25); white-space: normal;
  max-width: none }}
.ol-card.ol-card th {{ font-weight: 600 }}
.ol-card.ol-card tbody th {{ font-weight: 400 }}
.ol-card.ol-card .ol-number {{ text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums }}
.ol-card.ol-card caption {{ caption-side: top; text-align: left; font-weight: 600; color: inherit;
  padding: 0 0 .2rem }}
</style>"""


def card(body: str, *, label: str, mark: str = "", role: str = "status") -> str:
    """A card around `body` (HTML). `mark` is the state that gives it its edge; `label` is what a
    screen reader announces."""
    pill, edge = TONES.get(mark, ("#4c5668", "rgba(128,128,128,.6)"))
    tone = f"--ol-pill:{pill};--ol-edge:{edge}"
    opening = f'<div class="ol-card" role="{role}" aria-label="{escape(label)}" style="{tone}">'
    html = f"{STYLE}{opening}{body}</div>"
    return html.encode(
        "utf-8", "replace"
    ).decode()  # half a surrogate would stop the kernel's message


def prose(text: str) -> str:
    """A sentence: what stands between backticks becomes code, a word between stars is stressed."""
    parts = re.split(r"`([^`\n]+)`", escape(text))  # every second one is code
    return "".join(
        f"<code>{part}</code>" if place % 2 else _STRESSED.sub(r"<em>\1</em>", part)
        for place, part in enumerate(parts)
    )


def pill(mark: str) -> str:
    return f'<span class="ol-pill">{escape(say(f"mark.{mark}"))}</span>'


def rows(pairs: Iterable[tuple[str, Said]]) -> str:
    """Names and values, one under the other. A pair without a value is left out."""
    found = ""
    for name, value in pairs:
        if value:
            name, text = escape(say(f"row.{name}")), escape(content(value))
            found += f'<dt>{name}</dt><dd class="ol-value">{text}</dd>'
    return f"<dl>{found}</dl>" if found else ""


def quiet(text: str) -> str:
    """A remark under the card; nothing where there is nothing to say."""
    return f'<p class="ol-quiet">{prose(text)}</p>' if text else ""


def fold(summary: str, body: str, *, is_open: bool = False) -> str:
    """`body` (HTML) behind a line that opens it."""
    return f"<details{' open' * is_open}><summary>{prose(summary)}</summary>{body}</details>"


def toned(mark: str) -> str:
    """A mark as a pill of its own colour, for a line of a table."""
    background = TONES.get(mark, TONES[NOT_YET])[0]
    return pill(mark).replace(" class", f' style="--ol-pill:{background}" class', 1)


@dataclass(frozen=True, repr=False)
class Shown:
    """`text` and `html` say the same thing."""

    text: str
    html: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def sentence(text: str) -> Shown:
    """One sentence and nothing else."""
    text = one_line(text)
    return Shown(text, card(f"<p>{prose(text)}</p>", label=say("label.note")))


def calmly(work: Callable[[], Shown], call: str) -> Shown:
    """What `work` shows, or one sentence that says why it cannot: never a traceback of ours.

    `call` is the call as the student wrote it.
    """
    try:
        return work()
    except KeyboardInterrupt:
        return sentence(say("stopped", call=call))
    except BaseException as error:
        return sentence(say("failed", call=call, reason=told(error)))


def told(error: BaseException) -> str:
    """An error's class and the first line of its message; some cannot even say what they are."""
    try:
        message = (str(error).strip().splitlines() or [""])[0][:400]
    except Exception:
        message = ""
    return f"{type(error).__name__}: {message}".removesuffix(": ")
