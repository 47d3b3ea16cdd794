// Traces side by side, on one scale of time.
//
// First what is pure and tested, then the page. No dependencies.
//
// A view is { sides, from, zoom, chosen }. Each side has a `label`, its `span` in us, its `lanes` of
// bars { start, took, name, kind, link }, and `counts` of bars by kind. from: the first moment that
// is shown, as a share of the longest span. zoom: how often the window is halved. chosen: [side,
// lane, bar], or null.

const MOST_ZOOM = 8;

/** The us of the longest side: both are drawn on its scale. */
export const longest = ({ sides }) => Math.max(1e-9, ...sides.map(({ span }) => span));

/** [begin, end] of what is shown, in us. */
export function shown(view) {
  const whole = longest(view);
  const width = whole / 2 ** view.zoom;
  const begin = Math.min(view.from * whole, whole - width);
  return [begin, begin + width];
}

/** The bars of a lane that lie in [begin, end], with their place in the lane. Those that are finer
 * than `finest` us are drawn as one while they touch and are of one kind. */
export function drawn(bars, [begin, end], finest) {
  const found = [];
  bars.forEach((bar, place) => {
    const stop = bar.start + bar.took;
    if (stop < begin || bar.start > end) return;
    const last = found.at(-1);
    const fine = bar.took < finest && last && last.kind === bar.kind && bar.start - last.stop < finest;
    if (fine && last.stop - last.start < 20 * finest) last.stop = Math.max(last.stop, stop);
    else found.push({ place, kind: bar.kind, name: bar.name, start: bar.start, stop });
  });
  return found;
}

/** Places [lane, bar] on the same side that belong to a bar: a launch and its kernels. */
export function partners(side, [lane, place]) {
  const { link } = side.lanes[lane].bars[place];
  if (!link) return [];
  return side.lanes.flatMap(({ bars }, l) => bars.flatMap((bar, b) => (bar.link === link && !(l === lane && b === place) ? [[l, b]] : [])));
}

export const us = (time) => (time >= 1000 ? `${(time / 1000).toLocaleString("en", { maximumFractionDigits: 2 })} ms` : `${time.toLocaleString("en", { maximumFractionDigits: 1 })} us`);

/** What there is of each kind, in words. */
export function inWords({ counts, span }) {
  const words = { call: ["{n} call", "{n} calls"], wait: ["{n} wait", "{n} waits"], kernel: ["{n} kernel", "{n} kernels"],
    copy: ["{n} copy", "{n} copies"], operator: ["{n} operator", "{n} operators"] };
  const told = Object.entries(words).flatMap(([kind, [one, many]]) =>
    (counts[kind] ? [counted(counts[kind], one, many, counts[kind].toLocaleString("en"))] : []));
  return `${us(span)}: ${told.join(", ")}`;
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
    const press = (by, sign, name) => h("button", { type: "button", "aria-label": name, onclick: () => this.zoom(by) }, sign);
    [this.out, this.in] = [press(-1, "−", say("zoom out")), press(1, "+", say("zoom in"))];
    this.place = h("input", { type: "range", min: 0, max: 1000, "aria-label": say("first moment"), oninput: () => this.write({ from: Number(this.place.value) / 1000 }) });
    this.window = h("span", { class: "window" });
    this.tracks = h("div", { class: "tracks" });
    this.now = h("p", { class: "now", role: "status" });
    const key = [["region", say("region")], ["operator", say("operator")], ["call", say("call of CUDA")],
      ["wait", say("the host waits")], ["kernel", say("kernel")], ["copy", say("copy")]];
    el.append(h("div", { class: "ol-view ol-traces", role: "group", "aria-label": say("traces side by side") },
      h("div", { class: "bar" }, h("span", {}, say("zoom")), this.out, this.in, this.window), this.place, this.tracks, this.now,
      h("p", { class: "key" }, ...key.map(([kind, words]) => h("span", {}, h("i", { class: kind }), words)))));
    this.redraw = () => this.refresh();
    model.on("change:view", this.redraw);
    this.refresh();
  }

  get view() {
    return this.model.get("view");
  }

  write(changes) {
    this.model.set("view", { ...this.view, ...changes });
    this.model.save_changes();
    this.refresh();
  }

  /** One step in or out, around the chosen bar or the middle. */
  zoom(by) {
    const { view } = this;
    const zoom = Math.min(MOST_ZOOM, Math.max(0, view.zoom + by));
    const [begin, end] = shown(view);
    const [side, lane, bar] = view.chosen ?? [];
    const middle = view.chosen ? view.sides[side].lanes[lane].bars[bar].start : (begin + end) / 2;
    const from = middle / longest(view) - 0.5 / 2 ** zoom;
    this.write({ zoom, from: Math.min(Math.max(0, from), 1 - 1 / 2 ** zoom) });
  }

  refresh() {
    const { view } = this;
    const window = shown(view);
    this.place.value = Math.round(1000 * (window[0] / longest(view)));
    [this.out.disabled, this.in.disabled, this.place.disabled] = [view.zoom <= 0, view.zoom >= MOST_ZOOM, view.zoom <= 0];
    this.window.textContent = say("{low} to {high}", { low: us(window[0]), high: us(window[1]) });
    this.tracks.replaceChildren(...view.sides.map((side, s) => this.side(side, s, window)));
    this.tell();
  }

  side(side, s, window) {
    const [chosenSide, ...chosen] = this.view.chosen ?? [];
    const here = chosenSide === s;
    const marked = here ? [chosen, ...partners(side, chosen)].map(String) : [];
    const [begin, end] = window;
    const at = (time) => `${(100 * time) / (end - begin)}%`;
    const lanes = side.lanes.map(({ name, bars }, l) => {
      const spans = drawn(bars, window, (end - begin) / 400).map((bar) => {
        const [from, to] = [Math.max(bar.start, begin), Math.min(bar.stop, end)];
        const wide = (to - from) / (end - begin) > 0.005 + 0.0105 * bar.name.length;
        const mark = marked.includes(String([l, bar.place])) ? " chosen" : "";
        return h("button", { type: "button", tabindex: -1, class: `${bar.kind}${mark}`, title: bar.name, style: `left:${at(from - begin)};width:${at(to - from)}`,
          onclick: () => this.write({ chosen: [s, l, bar.place] }) }, wide ? bar.name : "");
      });
      return h("div", { class: "lane" }, h("b", {}, name), h("div", { class: "bars" }, ...spans));
    });
    return h("div", { role: "group", "aria-label": side.label }, h("div", { class: "side" }, side.label, h("small", {}, inWords(side))), ...lanes);
  }

  tell() {
    const { sides, chosen } = this.view;
    if (!chosen) return void (this.now.textContent = say("Choose a bar to see what it is, and what it launched. Zoom goes to the bar that is chosen."));
    const [s, lane, place] = chosen;
    const bar = sides[s].lanes[lane].bars[place];
    const others = partners(sides[s], [lane, place]).slice(0, 2).map(([l, b]) => sides[s].lanes[l].bars[b]);
    const words = others.map((other) =>
      say(other.start < bar.start ? "{name}, {took}, begins {gap} earlier" : "{name}, {took}, begins {gap} later",
        { name: other.name, took: us(other.took), gap: us(Math.abs(other.start - bar.start)) }));
    const it = say("{name}: {took}, at {start}", { name: bar.name, took: us(bar.took), start: us(bar.start) });
    this.now.replaceChildren(h("b", {}, it), ...words.map((text) => h("span", {}, text)));
  }
}
