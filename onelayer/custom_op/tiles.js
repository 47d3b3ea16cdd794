// The tiled product z = x w.T: which thread computes which output, and which elements of x and w a
// block brings to shared memory at each step. Threads are (tx, ty), blocks (bx, by), as in CUDA.
// No dependencies.

const ceil = (a, b) => Math.floor((a + b - 1) / b);

/** Blocks along V and along N, and steps along D. */
export const grid = ({ n, v, d, tile }) =>
  ({ bx: ceil(v, tile), by: ceil(n, tile), steps: ceil(d, tile) });

/** The output of a thread, and whether there is one. */
export function lane(size, at) {
  const row = at.by * size.tile + at.ty, column = at.bx * size.tile + at.tx;
  return { row, column, live: row < size.n && column < size.v };
}

/** What a thread loads at a step: an element of x and one of w, each [row, column] or null. */
export function loads(size, at, step) {
  const column = step * size.tile + at.tx;
  const x = at.by * size.tile + at.ty, w = at.bx * size.tile + at.ty;
  const inside = column < size.d;
  return {
    x: inside && x < size.n ? [x, column] : null,
    w: inside && w < size.v ? [w, column] : null,
  };
}

/** Threads, those without an output, and loads from global memory in all: naive and tiled. */
export function counts(size) {
  const { bx, by, steps } = grid(size);
  const threads = bx * by * size.tile ** 2, outputs = size.n * size.v;
  return {
    threads,
    idle: threads - outputs,
    naive: 2 * size.d * outputs,
    tiled: size.d * (bx * size.n + by * size.v),
    steps,
  };
}

/** The same view, with everything inside its bounds. */
export function settled(view) {
  const { bx, by, steps } = grid(view);
  const within = (k, count) => Math.min(Math.max(k, 0), Math.max(count - 1, 0));
  return { ...view, bx: within(view.bx, bx), by: within(view.by, by), step: within(view.step, steps),
    tx: within(view.tx, view.tile), ty: within(view.ty, view.tile) };
}

/** What the picked thread does, in two sentences. */
export function told(view) {
  const out = lane(view, view), from = loads(view, view, view.step);
  const element = (name, place) => place ? `${name}[${place}]` : say("0 for {name}", { name });
  const beyond = out.row >= view.n ? say("row {row} is beyond N = {n}", { row: out.row, n: view.n })
    : say("column {column} is beyond V = {v}", { column: out.column, v: view.v });
  const fields = { tx: view.tx, ty: view.ty, bx: view.bx, by: view.by, row: out.row, column: out.column, beyond };
  return [
    out.live ? say("Thread ({tx}, {ty}) of block ({bx}, {by}) computes z[{row},{column}].", fields)
      : say("Thread ({tx}, {ty}) of block ({bx}, {by}) computes nothing: {beyond}.", fields),
    say("Step {step} of {steps}: it brings {x} and {w}.", { step: view.step + 1, steps: grid(view).steps,
      x: element("x", from.x), w: element("w", from.w) }),
  ];
}

const SVG = "http://www.w3.org/2000/svg";

function make(namespace, tag, attributes, children) {
  const element = namespace ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}
const h = (tag, attributes = {}, ...children) => make(false, tag, attributes, children);
const s = (tag, attributes = {}, ...children) => make(true, tag, attributes, children);
const title = (text) => s("title", {}, text);
const number = (value) => value.toLocaleString("en");

const WIDE = 600; // of the drawings, in their own units
const TILES = [4, 8, 16, 24, 32];

class Page {
  constructor(model, el) {
    this.model = model;
    this.switches = h("div", { class: "switches" });
    this.whole = h("div", { class: "whole" });
    this.stage = h("div", { class: "stage" });
    this.told = h("div", { class: "say", role: "status" });
    this.sums = h("dl", { class: "sums" });
    this.bar = h("div", { class: "bar" });
    el.append(h("div", { class: "ol-view ol-tiles", role: "group", "aria-label": say("the tiled product") },
      this.switches, this.whole, h("div", { class: "frame" }, h("div", { class: "work" }, this.stage,
        h("div", { class: "side" }, this.told, this.bar, this.sums)))));
    this.controls();
    this.redraw = () => this.draw();
    model.on("change:view", this.redraw);
    this.draw();
  }

  get view() { return settled(this.model.get("view")); }

  set(change) {
    this.model.set("view", settled({ ...this.view, ...change }));
    this.model.save_changes();
  }

  controls() {
    const view = this.view;
    this.count = h("output", {}, `${view.n}`);
    const slider = h("input", { type: "range", min: 1, max: Math.max(40, view.n), value: view.n,
      "aria-label": say("N, rows of x"), oninput: (event) => this.set({ n: Number(event.target.value) }) });
    this.sizes = [...new Set([...TILES, view.tile])].sort((a, b) => a - b).map((tile) =>
      h("button", { type: "button", "data-tile": tile, onclick: () => this.set({ tile, step: 0 }) }, `${tile}`));
    this.switches.append(h("label", {}, h("span", {}, "N"), slider, this.count),
      h("div", { class: "choice", role: "group", "aria-label": say("tile") }, h("span", {}, say("tile")), ...this.sizes));
    this.back = h("button", { type: "button", onclick: () => this.set({ step: this.view.step - 1 }) }, say("back"));
    this.next = h("button", { type: "button", class: "next",
      onclick: () => this.set({ step: this.view.step + 1 }) }, say("next step"));
    this.bar.append(this.back, this.next);
  }

  draw() {
    const view = this.view, { steps } = grid(view);
    this.count.textContent = view.n;
    for (const button of this.sizes)
      button.setAttribute("aria-pressed", Number(button.dataset.tile) === view.tile);
    this.back.disabled = view.step === 0;
    this.next.disabled = view.step >= steps - 1;
    this.whole.replaceChildren(...this.overview(view));
    this.stage.replaceChildren(this.product(view));
    this.told.replaceChildren(...told(view).map((text) => h("p", {}, text)));
    this.sums.replaceChildren(...this.totals(view));
  }

  /** z, cut into blocks. */
  overview(view) {
    const { bx, by } = grid(view), unit = WIDE / (bx * view.tile), side = unit * view.tile;
    const tall = Math.max(side, 9), high = by * tall;
    const boxes = [];
    for (let row = 0; row < by; row++)
      for (let column = 0; column < bx; column++) {
        const picked = row === view.by && column === view.bx;
        boxes.push(s("rect", { x: column * side, y: row * tall, width: side, height: tall,
          class: picked ? "block picked" : "block", "data-block": `${column},${row}`,
          onclick: () => this.set({ bx: column, by: row, step: 0 }) }, title(say("block ({column}, {row})", { column, row }))));
      }
    const down = tall / view.tile;
    const edge = [
      s("rect", { class: "beyond", x: view.v * unit, y: 0, width: WIDE - view.v * unit, height: high }),
      s("rect", { class: "beyond", x: 0, y: view.n * down, width: view.v * unit, height: high - view.n * down }),
    ];
    const picture = s("svg", { viewBox: `-1 -1 ${WIDE + 2} ${high + 2}`, tabindex: 0, role: "img",
      "aria-label": say("the blocks of z; arrow keys move to another"), onkeydown: (event) => this.walk(event) },
      ...boxes, ...edge);
    const caption = say("z ({n}, {v}) is computed by {bx} x {by} blocks of {tile} x {tile} threads. Pick a block.",
      { n: view.n, v: view.v, bx, by, tile: view.tile });
    return [h("p", {}, caption), picture];
  }

  walk(event) {
    const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key] ?? [];
    if (dx === undefined) return;
    event.preventDefault();
    this.set({ bx: this.view.bx + dx, by: this.view.by + dy, step: 0 });
    this.whole.querySelector("svg").focus();
  }

  /** The block's rows of x on the left, of w above (turned), its outputs in the corner. */
  product(view) {
    const { d, tile } = view, cell = WIDE / (d + tile + 2), corner = (d + 2) * cell;
    const marks = [];
    const box = (x, y, kind, label, extra = {}) => marks.push(s("rect", { x: x * cell, y: y * cell,
      width: cell, height: cell, class: kind, ...extra }, title(label)));
    for (let k = 0; k < tile; k++)
      for (let column = 0; column < d; column++) {
        const when = Math.floor(column / tile);
        const state = when === view.step ? "now" : when < view.step ? "done" : "later";
        const x = view.by * tile + k, w = view.bx * tile + k;
        box(column, d + 2 + k, x < view.n ? `x ${state}` : `beyond ${state}`, x < view.n ? `x[${x},${column}]` : say("beyond N"));
        box(d + 2 + k, column, w < view.v ? `w ${state}` : `beyond ${state}`, w < view.v ? `w[${w},${column}]` : say("beyond V"));
      }
    for (let ty = 0; ty < tile; ty++)
      for (let tx = 0; tx < tile; tx++) {
        const out = lane(view, { ...view, tx, ty });
        box(d + 2 + tx, d + 2 + ty, out.live ? "z" : "beyond lane", say("thread ({tx}, {ty})", { tx, ty }),
          { "data-lane": `${tx},${ty}`, onclick: () => this.set({ tx, ty }) });
      }
    const frame = (x, y, width, height, kind) => marks.push(s("rect", { class: kind, x: x * cell, y: y * cell,
      width: width * cell, height: height * cell }));
    const first = view.step * tile, length = Math.min(tile, d - first);
    frame(first, d + 2 + view.ty, length, 1, "reads");
    frame(d + 2 + view.tx, first, 1, length, "reads");
    frame(d + 2 + view.tx, d + 2 + view.ty, 1, 1, "brings");
    const from = loads(view, view, view.step);
    if (from.x) frame(from.x[1], d + 2 + view.ty, 1, 1, "brings");
    if (from.w) frame(d + 2 + view.ty, from.w[1], 1, 1, "brings");
    const write = (x, name, side) => marks.push(s("text",
      { x, y: corner - 1.2 * cell, class: side }, say("{name}, {tile} of its rows", { name, tile })));
    write(0, "x", "start");
    write(corner - 1.2 * cell, "w", "end");
    return s("svg", { viewBox: `-1 -1 ${WIDE + 2} ${WIDE + 2}`, role: "img",
      "aria-label": say("the block's tiles of x and w, and its threads") }, ...marks);
  }

  totals(view) {
    const sum = counts(view), share = Math.round(100 * sum.idle / sum.threads);
    const per = (loads) => (loads / Math.max(view.n * view.v, 1)).toFixed(1);
    return [
      [say("threads"), say("{n}, {share} % without an output", { n: number(sum.threads), share })],
      [say("loads for an output, naive"), per(sum.naive)],
      [say("loads for an output, tiled"), per(sum.tiled)],
    ].flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  }
}
