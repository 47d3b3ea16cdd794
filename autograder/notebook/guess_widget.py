"""The clickable form of a guess: radio buttons, or one field to type into.

A click or Enter commits. Arrow keys only move between the choices: whoever looks through them by
keyboard has not guessed yet.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from autograder.judge import say

from .card import prose

_ESM = """
const make = (tag, properties, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};

function render({ model, el }) {
  const labels = model.get("labels"), words = model.get("words");
  const group = "ol-guess-" + Math.random().toString(36).slice(2);
  const status = make("p", { className: "ol-said" });
  status.setAttribute("role", "status");
  const commit = make("button", { type: "submit", textContent: words.commit });
  const field = make("input", { type: "text", autocomplete: "off" });
  const radios = labels.map((_, k) => make("input", { type: "radio", name: group, value: k }));
  const options = labels.map((text, k) => make("label", {}, radios[k], make("span", {}, text)));
  const legend = make("legend", { textContent: words.asked });
  const form = labels.length
    ? make("form", {}, make("fieldset", {}, legend, ...options))
    : make("form", {}, make("label", {}, make("span", {}, words.asked + ": "), field));
  form.append(commit, status);
  form.className = "ol-guess";

  const chosen = () => radios.findIndex((radio) => radio.checked);
  const value = () => (labels.length ? labels[chosen()] : field.value.trim());
  const send = () => {
    if (!value()) return;
    status.textContent = words.said.replace("{}", value());
    commit.hidden = true;
    model.set("heard", { number: chosen(), text: field.value, turn: Date.now() });
    model.save_changes();
  };
  const say = () => { if (model.get("said")) status.innerHTML = model.get("said"); };

  let by_pointer = false;
  commit.hidden = labels.length > 0;
  form.addEventListener("pointerdown", () => { by_pointer = true; });
  form.addEventListener("keydown", (event) => {
    by_pointer = false;
    event.stopPropagation(); // a notebook would take the arrow keys for its own
    if (event.key === "Enter" && event.target.type === "radio") { event.preventDefault(); send(); }
  });
  form.addEventListener("change", () => {
    if (labels.length && by_pointer) send(); else commit.hidden = false;
  });
  form.addEventListener("input", () => { if (!labels.length) commit.hidden = false; });
  form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  model.on("change:said", say);
  say();
  el.append(form);
  return () => model.off("change:said", say);
}
export default { render };
"""

_CSS = """
.ol-guess { max-width: 52rem; padding: .6rem 1rem; box-sizing: border-box; color: inherit;
  border: 1px solid rgba(128,128,128,.35); border-left: 4px solid rgba(128,128,128,.6);
  border-radius: 6px; line-height: 1.5; font-family: inherit }
.ol-guess fieldset { border: 0; margin: 0; padding: 0; display: flex; flex-wrap: wrap;
  gap: .2rem 1.4rem }
.ol-guess legend { padding: 0 0 .25rem }
.ol-guess label { display: inline-flex; align-items: baseline; gap: .45rem; padding: .15rem 0;
  cursor: pointer; font-variant-numeric: tabular-nums }
.ol-guess input[type=text] { font: inherit; padding: .1rem .4rem; width: 14rem; max-width: 100%;
  color: inherit; background: transparent; border: 1px solid rgba(128,128,128,.7);
  border-radius: 4px }
.ol-guess button { font: inherit; margin: .35rem .6rem 0 0; padding: .1rem .8rem; cursor: pointer;
  color: #fff; background: #2f5d8a; border: 1px solid transparent; border-radius: 1rem }
.ol-guess button[hidden] { display: none }
.ol-guess :is(button, input):focus-visible { outline: 2px solid currentColor; outline-offset: 2px }
.ol-guess .ol-said { margin: .3rem 0 0; min-height: 1.5em }
"""

Hear = Callable[[int, str], str]


@cache
def _widget_class() -> type | None:
    try:
        import anywidget
        import traitlets
    except ImportError:
        return None

    class GuessWidget(anywidget.AnyWidget):
        """labels: the choices, none for free text. words: what else stands on it. heard: what was
        committed. said: the reply, as HTML."""

        _esm = _ESM
        _css = _CSS
        labels = traitlets.List(traitlets.Unicode()).tag(sync=True)
        words = traitlets.Dict().tag(sync=True)
        heard = traitlets.Dict().tag(sync=True)
        said = traitlets.Unicode().tag(sync=True)

    return GuessWidget


def make_widget(labels: list[str], said: str, hear: Hear) -> Any:
    """A widget that calls `hear(number of the choice or -1, typed text)` when a guess is committed
    and shows what it returns; None where anywidget is not installed."""
    kind = _widget_class()
    if kind is None:
        return None
    words = {"asked": say("guess").rstrip(": "), "commit": say("this_is_my_guess")}
    widget = kind(labels=labels, said=prose(said), words={**words, "said": say("said", guess="{}")})

    def heard(change: Any) -> None:
        message = change["new"]
        number, text = message.get("number"), message.get("text")
        if type(number) is int and isinstance(text, str):
            widget.said = prose(hear(number, text))

    widget.observe(heard, names="heard")
    return widget
