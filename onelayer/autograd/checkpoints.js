// Checkpoints: what a chain of layers keeps for backward, what it makes again, and when.
//
// First the arithmetic, pure and tested against torch. Then the page. No dependencies.
//
// A view is { layers, kept, all, at }. layers: for each one the bytes of its `entry`, the tensor
// that comes in, and of what it saves `inside`. kept: whose entries stay, the first one always.
// all: nothing is checkpointed. at: how many steps have been played.

/** [first, after the last] layer of each checkpoint: it begins where an entry is kept. */
export function segments(kept) {
  const starts = kept.flatMap((keep, i) => (keep || i === 0 ? [i] : []));
  return starts.map((start, k) => [start, starts[k + 1] ?? kept.length]);
}

/** The entries that stay if every `interval`-th layer begins a checkpoint. */
export const every = (count, interval) => Array.from({ length: count }, (_, i) => i % interval === 0);

/** What happens, in order: { kind, layer, keeps, frees }. keeps: [layer, "entry" or "inside"] pairs
 * that are held from this step on; frees: those that are gone after it. */
export function steps({ layers, kept, all }) {
  const last = layers.length - 1;
  const forward = layers.map((_, layer) => ({ kind: "forward", layer, frees: [],
    keeps: [...(all || kept[layer] || layer === 0 ? [[layer, "entry"]] : []), ...(all ? [[layer, "inside"]] : [])] }));
  const back = (layer) => ({ kind: "backward", layer, keeps: [], frees: [[layer, "entry"], [layer, "inside"]] });
  if (all) return [...forward, ...layers.map((_, i) => back(last - i))];
  const backward = segments(kept).reverse().flatMap(([start, end]) => {
    const again = [];
    for (let layer = start; layer < end; layer++) {
      if (layer === end - 1 && !layers[layer].inside) break; // nothing of it is missing
      const keeps = [[layer, "inside"], ...(layer < end - 1 ? [[layer + 1, "entry"]] : [])];
      again.push({ kind: "again", layer, keeps, frees: [] });
    }
    return [...again, ...Array.from({ length: end - start }, (_, i) => back(end - 1 - i))];
  });
  return [...forward, ...backward];
}

const weight = (layers, items) => items.reduce((sum, [layer, part]) => sum + layers[layer][part], 0);

/** The bytes held after each step. */
export function held(view) {
  let now = 0;
  return steps(view).map(({ keeps, frees }) => {
    now += weight(view.layers, keeps) - weight(view.layers, frees);
    return now;
  });
}

/** kept: bytes after the forward; peak; made: bytes that backward makes again; again: how many
 * layers run a second time; extra: that work as a share of a step, whose backward counts double. */
export function bill(view) {
  const repeated = steps(view).filter(({ kind }) => kind === "again");
  const now = held(view);
  return { kept: now[view.layers.length - 1], peak: Math.max(...now), again: repeated.length,
    made: repeated.reduce((sum, { keeps }) => sum + weight(view.layers, keeps), 0),
    extra: repeated.length / (3 * view.layers.length) };
}

/** The peak for each interval, 1 to the number of layers. */
export function curve(layers) {
  return layers.map((_, k) => bill({ layers, kept: every(layers.length, k + 1), all: false }).peak);
}

/** The interval that gives these entries, or 0. */
export function intervalOf(kept) {
  const interval = kept.indexOf(true, 1) < 0 ? kept.length : kept.indexOf(true, 1);
  return every(kept.length, interval).every((keep, i) => keep === (kept[i] || i === 0)) ? interval : 0;
}

// ---- The page.

const MOST = 64; // layers that can still be told apart
const CHART = { width: 360, height: 170, left: 8, right: 8, top: 22, bottom: 24 };

function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function s(tag, attributes = {}, ...children) {
  const example = document.createElement("template");
  example.innerHTML = "<svg></svg>"; // the page knows the namespace: no address needs to stand here
  const space = example.content.firstChild.namespaceURI;
  return filled(document.createElementNS(space, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const bytes = (n) => say("{n} bytes", { n: n.toLocaleString("en") });
const layersForward = (n) => counted(n, "{n} layer forward", "{n} layers forward");
const percent = (share) => `${(100 * share).toFixed(share && share < 0.1 ? 1 : 0)} %`;

/** "3", "1 and 16", "3 to 6": numbers in order. */
export function spoken(numbers) {
  const [first, last] = [numbers[0], numbers.at(-1)];
  if (numbers.length > 2 && last - first === numbers.length - 1) return say("{first} to {last}", { first, last });
  return numbers.length > 1 ? numbers.slice(0, -1).join(", ") + say(" and ") + last : String(first);
}

/** What a step did, in words. */
export function sentence({ kind, layer, keeps }, view) {
  const who = say("layer {n}", { n: layer + 1 });
  const has = (part) => keeps.some(([, p]) => p === part);
  if (kind === "backward") return say("backward of {who}: what it saved is read and freed", { who });
  if (kind === "again") {
    const rebuilt = [view.layers[layer].inside ? say("what it saves inside") : "",
      has("entry") ? say("what enters layer {n}", { n: layer + 2 }) : ""].filter(Boolean);
    const fields = { who, what: rebuilt.join(say(" and ")) };
    return rebuilt.length > 1 ? say("{who} runs again: {what} are there again", fields)
      : say("{who} runs again: {what} is there again", fields);
  }
  if (view.all) return say("{who} runs: what enters it and what it saves inside stay", { who });
  return has("entry") ? say("{who} runs: what enters it stays, a checkpoint begins here", { who })
    : say("{who} runs: nothing of it stays", { who });
}

class Page {
  constructor(model, el) {
    this.model = model;
    const button = (words, press, more = {}) => h("button", { type: "button", onclick: press, ...more }, words);
    this.buttons = {
      all: button(say("keep everything"), () => this.write({ all: true, at: 0 })),
      fewer: button("−", () => this.space(-1), { "aria-label": say("shorter interval") }),
      more: button("+", () => this.space(1), { "aria-label": say("longer interval") }),
      shorter: button("−", () => this.resize(-1), { "aria-label": say("one layer less") }),
      longer: button("+", () => this.resize(1), { "aria-label": say("one layer more") }),
      next: button(say("next step"), () => this.go(1)),
      back: button(say("one back"), () => this.go(-1)),
      peak: button(say("to the peak"), () => this.go("peak")),
      start: button(say("start again"), () => this.go("start")),
    };
    this.interval = h("span", { class: "count", "data-of": "interval" });
    this.depth = h("span", { class: "count", "data-of": "layers" });
    this.fields = { entry: this.field("entry", say("bytes that enter each layer")),
      inside: this.field("inside", say("bytes that each saves inside")) };
    this.strip = h("ol", { class: "strip", "aria-label": say("layers") });
    this.says = h("p", { class: "says", role: "status" });
    this.numbers = h("div", { class: "numbers" });
    this.overTime = h("figure", { class: "chart" });
    this.overInterval = h("figure", { class: "chart" });
    const { all, fewer, more, shorter, longer, next, back, peak, start } = this.buttons;
    this.root = h("div", { class: "ol-view ol-checkpoints", role: "group", "aria-label": say("bytes saved against recomputed") },
      h("div", { class: "bar" }, all,
        h("span", { class: "stepper" }, say("a checkpoint every"), fewer, this.interval, more),
        h("span", { class: "stepper" }, say("layers"), shorter, this.depth, longer)),
      h("div", { class: "bar" }, this.fields.entry.label, this.fields.inside.label),
      h("p", { class: "legend" }, say("Above: what enters a layer. Click it to keep it or to make it again. "),
        say("Below: what the layer saves besides.")),
      this.strip, this.numbers,
      h("div", { class: "bar" }, next, back, peak, start), this.says,
      h("div", { class: "charts" }, this.overTime, this.overInterval));
    el.append(this.root);
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

  field(part, words) {
    const input = h("input", { type: "number", min: 0, step: 1024, onchange: () => {
      const value = Math.max(0, Math.round(Number(input.value) || 0));
      this.write({ layers: this.view.layers.map((layer) => ({ ...layer, [part]: value })), at: 0 });
    } });
    return { input, label: h("label", {}, words, input) };
  }

  go(by) {
    const now = held(this.view);
    const goal = { peak: now.indexOf(Math.max(...now)) + 1, start: 0 };
    this.write({ at: Math.min(Math.max(goal[by] ?? this.view.at + by, 0), now.length) });
  }

  /** A longer or shorter interval; from "keep everything" or hand-picked entries it begins at 1. */
  space(by) {
    const { layers, kept, all } = this.view;
    const now = all ? 0 : intervalOf(kept);
    const interval = Math.min(Math.max(now ? now + by : 1, 1), layers.length);
    this.write({ kept: every(layers.length, interval), all: false, at: 0 });
  }

  /** One layer more, like the last, or less. An interval stays what it was. */
  resize(by) {
    const { layers, kept, all } = this.view;
    const count = Math.min(Math.max(layers.length + by, 1), MOST);
    const interval = intervalOf(kept);
    const grown = Array.from({ length: count }, (_, i) => layers[Math.min(i, layers.length - 1)]);
    const entries = interval ? every(count, interval) : grown.map((_, i) => i === 0 || Boolean(kept[i]));
    this.write({ layers: grown, kept: entries, all, at: 0 });
  }

  toggle(layer) {
    const { layers, kept, all } = this.view;
    const from = all ? layers.map(() => true) : kept;
    this.write({ all: false, at: 0, kept: from.map((keep, i) => (i === 0) || (i === layer ? !keep : keep)) });
    this.strip.children[layer].querySelector("button").focus();
  }

  refresh() {
    const { layers, kept, all, at } = this.view;
    const [plan, now, sum] = [steps(this.view), held(this.view), bill(this.view)];
    const interval = all ? 0 : intervalOf(kept);
    this.buttons.all.setAttribute("aria-pressed", String(all));
    this.interval.textContent = interval || "–";
    this.depth.textContent = layers.length;
    this.buttons.fewer.disabled = interval === 1;
    this.buttons.more.disabled = interval === layers.length;
    this.buttons.shorter.disabled = layers.length === 1;
    this.buttons.longer.disabled = layers.length === MOST;
    this.buttons.next.disabled = at === plan.length;
    this.buttons.back.disabled = this.buttons.start.disabled = at === 0;
    for (const [part, { input }] of Object.entries(this.fields)) {
      const same = layers.every((layer) => layer[part] === layers[0][part]);
      input.value = same ? layers[0][part] : "";
      input.placeholder = same ? "" : say("differ");
    }
    this.says.textContent = at === 0 ? say("{n} steps: forward, then backward. Nothing has run yet.", { n: plan.length })
      : say("{at}. {what} ({bytes} held)", { at, what: sentence(plan[at - 1], this.view), bytes: bytes(now[at - 1]) });
    this.drawStrip(plan.slice(0, at));
    this.drawNumbers(sum);
    this.overTime.replaceChildren(this.timeChart(plan, now));
    this.overInterval.replaceChildren(this.intervalChart(sum, interval));
  }

  drawStrip(done) {
    const { layers, kept, all } = this.view;
    const [stays, back] = [new Set(), new Set()];
    for (const { kind, keeps, frees } of done) {
      for (const item of keeps) (kind === "again" ? back : stays).add(String(item));
      for (const item of frees) for (const set of [back, stays]) set.delete(String(item));
    }
    const state = (item) => (stays.has(item) ? "stays" : back.has(item) ? "made" : "absent");
    const current = done.at(-1);
    this.strip.replaceChildren(...layers.map((layer, i) => {
      const keep = all || kept[i] || i === 0;
      const entry = h("button", { type: "button", class: `entry ${state(`${i},entry`)}`, "aria-pressed": String(keep),
        "aria-label": say("entry of layer {n}, {bytes}", { n: i + 1, bytes: bytes(layer.entry) }), "aria-disabled": i === 0 ? "true" : null,
        onclick: () => i && this.toggle(i) }, keep ? say("keep") : say("again"));
      const inside = h("span", { class: `inside ${layer.inside ? state(`${i},inside`) : "none"}` },
        layer.inside ? (all ? say("keep") : say("again")) : "");
      const now = current?.layer === i ? ` now ${current.kind}` : "";
      return h("li", { class: `layer${keep ? " first" : ""}${now}` }, entry, inside, h("span", { class: "number" }, i + 1));
    }));
  }

  drawNumbers({ kept, peak, made, again, extra }) {
    const rows = [[say("kept after the forward"), bytes(kept)], [say("most held at once"), bytes(peak)],
      [say("made again in backward"), bytes(made)],
      [say("extra work, if backward costs two forwards"),
        say("{layers}, {share} of a step", { layers: layersForward(again), share: percent(extra) })]];
    this.numbers.replaceChildren(...rows.map(([name, value]) => h("div", {}, h("span", {}, name), h("b", {}, value))));
  }

  timeChart(plan, now) {
    const most = Math.max(...now, 1);
    const wide = (CHART.width - CHART.left - CHART.right) / plan.length;
    const tall = CHART.height - CHART.top - CHART.bottom;
    const bars = now.map((value, i) => s("rect", { class: `${plan[i].kind}${i === this.view.at - 1 ? " here" : ""}`,
      x: CHART.left + i * wide, width: Math.max(wide - 0.6, 0.4), height: (tall * value) / most,
      y: CHART.top + tall - (tall * value) / most }));
    return this.chart(say("bytes held after each step"), bars, [
      s("text", { x: CHART.left, y: CHART.height - 8 }, say("forward")),
      s("text", { x: CHART.left + wide * this.view.layers.length, y: CHART.height - 8 }, say("backward, and what runs again"))]);
  }

  intervalChart({ peak }, interval) {
    const { layers } = this.view;
    const peaks = curve(layers);
    const plain = bill({ ...this.view, all: true }).peak;
    const most = Math.max(plain, peak, ...peaks, 1);
    const [wide, tall] = [CHART.width - CHART.left - CHART.right, CHART.height - CHART.top - CHART.bottom];
    const x = (k) => CHART.left + 4 + ((wide - 8) * (k - 1)) / Math.max(layers.length - 1, 1);
    const y = (value) => CHART.top + tall - (tall * value) / most;
    const lowest = Math.min(...peaks);
    const best = peaks.flatMap((value, i) => (value === lowest ? [i + 1] : []));
    const dots = peaks.map((value, i) => s("circle", { cx: x(i + 1), cy: y(value), r: i + 1 === interval ? 5 : 2.6,
      class: i + 1 === interval ? "here" : best.includes(i + 1) ? "best" : "dot" }));
    const line = s("path", { class: "line", d: `M${peaks.map((value, i) => `${x(i + 1)} ${y(value)}`).join("L")}` });
    const rule = s("path", { class: "rule", d: `M${CHART.left} ${y(plain)}H${CHART.width - CHART.right}` });
    return this.chart(say("the peak, by interval"), [rule, line, ...dots], [
      s("text", { x: CHART.left, y: CHART.height - 8 }, "1"),
      s("text", { x: CHART.width - CHART.right, y: CHART.height - 8, "text-anchor": "end" }, String(layers.length)),
      s("text", { x: CHART.width / 2, y: CHART.height - 8, "text-anchor": "middle" }, say("lowest at {at}: {bytes}", { at: spoken(best), bytes: bytes(lowest) })),
      s("text", { x: CHART.width - CHART.right, y: y(plain) - 4, "text-anchor": "end" }, say("everything kept"))]);
  }

  chart(title, marks, words) {
    return s("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", "aria-label": title },
      s("text", { x: CHART.left, y: 11, class: "title" }, title),
      s("path", { class: "ground", d: `M${CHART.left} ${CHART.height - CHART.bottom}H${CHART.width - CHART.right}` }),
      ...marks, ...words);
  }
}
