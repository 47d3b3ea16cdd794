// A few choices, and the picture of their combination. Every picture was computed in Python: nothing
// is worked out here but which one to show.

/** The scene of the options that are on. */
export const sceneOf = ({ at, scenes }) => scenes[JSON.stringify(Object.values(at))];

const sizeOf = ([, parts]) => parts.reduce((total, [size]) => total + size, 0);

/** How long the longest line is, over all scenes: lines keep their scale when the choice changes. */
export const longest = ({ scenes }) =>
  Math.max(...Object.values(scenes).flatMap(({ lines }) => lines.map(sizeOf)), 1e-9);

/** A line in words, for whoever does not see it: its parts by look, counted. */
export function lineInWords([name, parts, value], means) {
  const counts = new Map();
  for (const [size, look, label] of parts) {
    const key = label ? `${label}: ${means[look]}` : means[look];
    if (size > 0) counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const told = [...counts].map(([words, count]) => (count > 1 ? `${count} x ${words}` : words));
  return `${name}: ${[...told, value].filter(Boolean).join(", ")}`;
}

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

class Page {
  constructor(model, el) {
    this.model = model;
    const view = model.get("view");
    this.most = longest(view);
    this.buttons = Object.entries(view.choices).flatMap(([name, options]) =>
      options.map((option) => h("button", { type: "button", "data-choice": name, "data-option": option,
        onclick: () => this.write(name, option) }, option)));
    const most = Math.max(...Object.values(view.scenes).map(({ lines }) => lines.length));
    this.lines = h("div", { class: "lines", style: `--most:${most}` });
    this.says = h("p", { class: "says", role: "status" });
    el.replaceChildren(h("div", { class: "ol-view ol-explorable", role: "group", "aria-label": view.about },
      h("div", { class: "choices" }, ...Object.keys(view.choices).map((name) => this.choice(name))),
      this.lines, this.key(view.means), this.says));
    this.redraw = () => this.refresh();
    model.on("change:view", this.redraw);
    this.refresh();
  }

  choice(name) {
    const mine = this.buttons.filter((button) => button.dataset.choice === name);
    return h("div", { class: "choice", role: "group", "aria-label": name }, h("span", {}, name), ...mine);
  }

  key(means) {
    return h("p", { class: "key" }, ...Object.entries(means).map(([look, words]) =>
      h("span", {}, h("i", { class: `part ${look}` }), words)));
  }

  write(name, option) {
    const view = this.model.get("view");
    this.model.set("view", { ...view, at: { ...view.at, [name]: option } });
    this.model.save_changes();
    this.refresh();
  }

  refresh() {
    const view = this.model.get("view");
    for (const button of this.buttons)
      button.setAttribute("aria-pressed", String(view.at[button.dataset.choice] === button.dataset.option));
    const { lines, says } = sceneOf(view);
    this.lines.replaceChildren(...lines.map((line) => this.line(line, view.means)));
    this.says.textContent = says;
  }

  line(line, means) {
    const [name, parts, value] = line;
    const part = ([size, look, label]) => h("span", { class: `part ${look}`, title: [label, means[look]].filter(Boolean).join(": "),
      style: `width:${(100 * size) / this.most}%` }, size / this.most > 0.022 * label.length ? label : "");
    return h("div", { class: "line" }, h("span", { class: "name" }, name),
      h("div", { class: "bar", role: "img", "aria-label": lineInWords(line, means) }, ...parts.map(part)),
      h("span", { class: "value" }, value));
  }
}
