// The stride visualizer: a tensor as sizes, strides and an offset over a row of floats.
//
// First the arithmetic, pure and tested against torch; it prefers slow definitions ("walk over all
// elements and look") to the rules that the chapter lets you find. Then the page. No dependencies.
//
// A view is { shape, stride, offset }. An operation returns a new view, or throws an Error whose
// message is for the reader.

export const LIMIT = 100_000; // elements that are walked over

export const numel = (shape) => shape.reduce((n, size) => n * size, 1);

/** Row-major strides; an empty dimension counts as if it held one element, as in torch. */
export function contiguousStride(shape) {
  return shape.map((_, d) => numel(shape.slice(d + 1).map((size) => Math.max(size, 1))));
}

export function addressOf(view, index) {
  return index.reduce((address, i, d) => address + i * view.stride[d], view.offset);
}

/** Every index, the last dimension fastest: row-major order. */
export function* indices(shape) {
  if (shape.length === 0) {
    yield [];
    return;
  }
  for (let i = 0; i < shape[0]; i++) {
    for (const rest of indices(shape.slice(1))) yield [i, ...rest];
  }
}

export const addresses = (view) => Array.from(indices(view.shape), (i) => addressOf(view, i));

/** Does row-major order visit one float after the other? */
export function isContiguous(view) {
  return addresses(view).every((address, k) => address === view.offset + k);
}

/** Do two elements read the same float? */
export function isOverlapping(view) {
  const walk = addresses(view);
  return new Set(walk).size < walk.length;
}

/** The elements' addresses that a storage of `size` floats does not have. */
export function outside(view, size) {
  return [...new Set(addresses(view).filter((a) => a < 0 || a >= size))].sort((a, b) => a - b);
}

export function transpose(view, dim0, dim1) {
  const [a, b] = [wrapped(view, dim0), wrapped(view, dim1)];
  const swap = (list) => list.map((item, d) => (d === a ? list[b] : d === b ? list[a] : item));
  return { ...view, shape: swap(view.shape), stride: swap(view.stride) };
}

/** view[..., start:stop:step, ...] along `dim`; null stands for a bound that is left out. */
export function slice(view, dim, start = null, stop = null, step = 1) {
  const d = wrapped(view, dim);
  if (step < 1) throw new Error(say("a step of {step}: torch slices forwards only, by 1 or more", { step }));
  const size = view.shape[d];
  const bound = (i, low) => Math.min(Math.max(i < 0 ? i + size : i, low), size);
  const from = bound(start ?? 0, 0);
  const to = bound(stop ?? size, from);
  return {
    shape: view.shape.with(d, Math.ceil((to - from) / step)),
    stride: view.stride.with(d, view.stride[d] * step),
    offset: view.offset + from * view.stride[d],
  };
}

export function expand(view, sizes) {
  const fresh = sizes.length - view.shape.length;
  if (fresh < 0) {
    const dims = view.shape.length;
    throw new Error(say("expand needs a size for each of the {dims} dimensions", { dims }));
  }
  const shape = [...sizes];
  const stride = [];
  for (let d = sizes.length - 1; d >= 0; d--) {
    const old = d < fresh ? 1 : view.shape[d - fresh];
    if (sizes[d] === -1 && d < fresh) throw new Error(say("-1 keeps a size: a new dimension has none"));
    if (sizes[d] === -1) shape[d] = old;
    if (old !== 1 && shape[d] !== old) {
      throw new Error(say("dimension {d} has size {old}: only a size of 1 can expand", { d: d - fresh, old }));
    }
    const inner = d + 1 < sizes.length ? shape[d + 1] * stride[0] : 1;
    stride.unshift(shape[d] !== old ? 0 : d < fresh ? inner : view.stride[d - fresh]);
    if (view.shape.length === 0) stride[0] = 0; // torch writes 0 here, where 1 would do as well
  }
  return { shape, stride, offset: view.offset };
}

/** Sliding windows of `size` elements along `dim`, `step` apart, in a new last dimension. */
export function unfold(view, dim, size, step) {
  const d = wrapped(view, dim);
  if (step < 1) throw new Error(say("a step of {step}: windows move forwards, by 1 or more", { step }));
  if (size < 0 || size > view.shape[d]) {
    throw new Error(say("a window of {size} does not fit into dimension {d}, of size {all}",
      { size, d, all: view.shape[d] }));
  }
  return {
    shape: [...view.shape.with(d, Math.floor((view.shape[d] - size) / step) + 1), size],
    stride: [...view.stride.with(d, view.stride[d] * step), view.stride[d]],
    offset: view.offset,
  };
}

/** `sizes` with its -1 worked out. */
export function inferred(view, sizes) {
  const n = numel(view.shape);
  const known = numel(sizes.filter((size) => size !== -1));
  const unknown = sizes.filter((size) => size === -1).length;
  if (unknown > 1) throw new Error(say("only one size can be -1"));
  if (unknown ? known === 0 || n % known : known !== n) {
    throw new Error(say("{n} elements do not make ({sizes})", { n, sizes: sizes.join(", ") }));
  }
  return sizes.map((size) => (size === -1 ? n / known : size));
}

/** The view with other sizes over the same floats, or null where that needs a copy.
 *
 * By definition: it must visit the same addresses in the same order. One step along a dimension
 * passes all elements behind it, which fixes each stride; then every address is compared. */
export function viewAs(view, sizes) {
  const shape = inferred(view, sizes);
  const made = (stride) => ({ shape, stride, offset: view.offset });
  if (numel(shape) === 0) {
    return made(String(shape) === String(view.shape) ? view.stride : contiguousStride(shape));
  }
  const walk = addresses(view);
  const behind = contiguousStride(shape);
  const stride = shape.map((size, d) => (size > 1 ? walk[behind[d]] - walk[0] : 0));
  for (let d = shape.length - 1; d >= 0; d--) {
    // No step is ever taken along a size of 1. torch still writes a stride there: this one.
    const inner = d + 1 < shape.length ? shape[d + 1] * stride[d + 1] : (view.stride.at(-1) ?? 1);
    if (shape[d] === 1) stride[d] = inner;
  }
  return addresses(made(stride)).every((a, k) => a === walk[k]) ? made(stride) : null;
}

/** Whole numbers out of "3, 4", "(3, 4)" or "3 4". */
export function numbers(text) {
  const words = text.replace(/[()[\]]/g, " ").split(/[\s,]+/).filter(Boolean);
  const bad = words.find((word) => !/^-?\d{1,12}$/.test(word));
  if (bad !== undefined) throw new Error(say("\"{bad}\" is not a whole number", { bad }));
  return words.map(Number);
}

/** Throws where sizes, strides and offset make no view at all. Whether it is in bounds is another
 * question, which the picture answers. */
export function checked(view) {
  const { shape, stride, offset } = view;
  if (shape.some((size) => size < 0)) throw new Error(say("a size is at least 0"));
  if (stride.length !== shape.length) {
    throw new Error(say("{sizes}, but {strides}", { sizes: counted(shape.length, "{n} size", "{n} sizes"),
      strides: counted(stride.length, "{n} stride", "{n} strides") }));
  }
  if (stride.some((s) => s < 0)) throw new Error(say("torch has no negative strides"));
  if (offset < 0) throw new Error(say("an offset is at least 0"));
  if (shape.length > 6) throw new Error(say("more than 6 dimensions are too many to draw"));
  if (numel(shape) > LIMIT) throw new Error(say("{n} elements are too many to walk over", { n: numel(shape) }));
  return view;
}

function wrapped(view, dim) {
  const dims = view.shape.length;
  if (dim < -dims || dim >= dims) {
    const range = dims ? say("{low} to {high}", { low: -dims, high: dims - 1 }) : say("none");
    throw new Error(say("there is no dimension {dim} in {shape}: choose {range}",
      { dim, shape: tuple(view.shape), range }));
  }
  return dim < 0 ? dim + dims : dim;
}

export const tuple = (list) => `(${list.join(", ")}${list.length === 1 ? "," : ""})`;
const elements = (n) => counted(n, "{n} element", "{n} elements");
const floatsOf = (n) => counted(n, "{n} float", "{n} floats");

// ---- The page. Its state lives in a model, as { shape, stride, offset, size }: anywidget's in a
// notebook, a few lines of our own on a page without a kernel.

const SHOWN = { side: 16, corner: 8, panels: 8, storage: 192, missing: 16 };

const OPERATIONS = {
  transpose: {
    fields: { dim0: "0", dim1: "1" },
    run: (view, a, b) => transpose(view, one(a), one(b)),
    code: (view, a, b) => `.transpose(${one(a)}, ${one(b)})`,
  },
  slice: {
    fields: { dim: "0", start: "1", stop: "", step: "1" },
    run: (view, d, from, to, by) => slice(view, one(d), maybe(from), maybe(to), maybe(by) ?? 1),
    code: (view, d, from, to, by) =>
      `[${":, ".repeat(wrapped(view, one(d)))}${from}:${to}${["", "1"].includes(by) ? "" : `:${by}`}]`,
  },
  expand: {
    fields: { sizes: "2, -1, -1" },
    run: (view, sizes) => expand(view, numbers(sizes)),
    code: (view, sizes) => `.expand(${numbers(sizes).join(", ")})`,
  },
  unfold: {
    fields: { dim: "-1", size: "2", step: "1" },
    run: (view, d, size, step) => unfold(view, one(d), one(size), one(step)),
    code: (view, ...given) => `.unfold(${given.map(one).join(", ")})`,
  },
  view: {
    fields: { sizes: "-1" },
    run: (view, sizes) => viewAs(view, numbers(sizes)),
    code: (view, sizes) => `.view(${numbers(sizes).join(", ")})`,
  },
};

function one(text) {
  const found = numbers(text);
  if (found.length !== 1) throw new Error(say("\"{text}\" is not one whole number", { text }));
  return found[0];
}

const maybe = (text) => (text.trim() === "" ? null : one(text));
const listed = (items, most) => items.slice(0, most).join(", ") + (items.length > most ? ", …" : "");
const named = (index) => `x[${index.join(", ")}]`;

/** An element: h("p", { class: "note", onclick: f }, "text", child). */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** "0 + 1·4 + 2·1 = 6": the address of `index`, with its numbers. */
export function formula(view, index) {
  const terms = index.map((i, d) => `${i}·${view.stride[d]}`);
  return `${[view.offset, ...terms].join(" + ")} = ${addressOf(view, index)}`;
}

/** What is true of a view over `size` floats: [kind, what, why]. */
export function facts(view, size) {
  const walk = addresses(view);
  const floats = new Set(walk).size;
  const missing = outside(view, size);
  return [
    isContiguous(view)
      ? ["yes", say("contiguous"), say("row-major order visits one float after the other")]
      : ["no", say("not contiguous"), say("row-major order visits {floats}", { floats: listed(walk, 6) })],
    floats === walk.length
      ? ["yes", say("no overlap"), `${elements(walk.length)}, ${floatsOf(floats)}`]
      : ["no", say("overlapping"),
        say("{elements} over {floats}", { elements: elements(walk.length), floats: floatsOf(floats) })],
    missing.length
      ? ["bad", say("out of bounds"),
        say("reads {floats}, but {last}", { floats: listed(missing, 4), last: lastFloat(size) })]
      : ["yes", say("in bounds"), counted(size, "of {n} float", "of {n} floats")],
  ];
}

/** How much of a side of n elements is drawn. */
const seen = (n) => (n > SHOWN.side ? SHOWN.corner : n);

const lastFloat = (size) => (size ? say("the last float is at {at}", { at: size - 1 }) : say("there are no floats"));

class Page {
  constructor(model, el) {
    this.model = model;
    this.past = []; // states to go back to
    this.chosen = {}; // { index } of an element and its { at }, or only { at } of a float
    this.inputs = {};
    this.given = Object.fromEntries(
      Object.entries(OPERATIONS).map(([name, { fields }]) => [name, { ...fields }]));
    this.root = h("div", { class: "ol-view ol-strides", role: "group", "aria-label": say("stride visualizer") });
    this.root.append(...this.editor(), ...this.operator(), ...this.stage());
    el.append(this.root);
    this.redraw = () => this.refresh();
    model.on("change:view", this.redraw);
    this.pick("transpose");
    this.refresh();
  }

  get view() {
    const { shape, stride, offset } = this.model.get("view");
    return { shape, stride, offset };
  }

  get size() {
    return this.model.get("view").size;
  }

  write(view, size, { edit = false } = {}) {
    // Typing "12" passes through "1": one step to undo, not two.
    if (!(edit && this.past.at(-1)?.edit)) this.past.push({ state: this.model.get("view"), edit });
    this.complain(null);
    this.model.set("view", { ...view, size });
    this.model.save_changes();
  }

  back(steps) {
    const [{ state }] = this.past.splice(-steps);
    this.complain(null);
    this.answer.replaceChildren();
    this.model.set("view", state);
    this.model.save_changes();
    this.refresh(); // also where the state is the same and only the fields differ
  }

  // -- What the reader edits.

  editor() {
    this.complaint = h("p", { class: "complaint", role: "alert" });
    return [
      h("div", { class: "fields" },
        this.field("shape", say("shape"), say("shape: the sizes")),
        this.field("strides", say("strides"), say("strides, in elements")),
        this.field("offset", say("offset"), say("storage offset, in elements")),
        this.field("floats", say("floats"), say("how many floats the storage has")),
        h("button", { type: "button", onclick: () => this.straighten() }, say("contiguous strides"))),
      this.complaint,
    ];
  }

  field(name, shown, label) {
    this.inputs[name] = h("input", { type: "text", inputmode: "numeric", autocomplete: "off",
      spellcheck: "false", "aria-label": label, oninput: () => this.edit() });
    return h("label", { class: "field" }, h("span", {}, shown), this.inputs[name]);
  }

  edit() {
    try {
      const [shape, stride] = [this.parsed("shape", numbers), this.parsed("strides", numbers)];
      const [offset, size] = [this.parsed("offset", one), this.parsed("floats", one)];
      if (size < 0 || size > LIMIT) throw new Error(say("a storage has 0 to {most} floats here", { most: LIMIT }));
      this.write(checked({ shape, stride, offset }), size, { edit: true });
    } catch (error) {
      this.complain(error);
    }
  }

  parsed(name, parse) {
    try {
      return parse(this.inputs[name].value);
    } catch (error) {
      throw Object.assign(error, { field: name });
    }
  }

  straighten() {
    try {
      this.inputs.strides.value = contiguousStride(this.parsed("shape", numbers)).join(", ");
      this.edit();
    } catch (error) {
      this.complain(error);
    }
  }

  complain(error) {
    this.complaint.textContent = error
      ? say("{what}. Below is the last view that was one.", { what: error.message }) : "";
    for (const [name, input] of Object.entries(this.inputs)) {
      input.setAttribute("aria-invalid", error !== null && (error.field ?? name) === name);
    }
  }

  // -- What the reader applies.

  operator() {
    this.tabs = h("div", { class: "tabs", role: "radiogroup", "aria-label": say("operation") },
      ...Object.keys(OPERATIONS).map((name) => h("button", { type: "button", role: "radio",
        onclick: () => this.pick(name), onkeydown: (event) => this.turn(event, name) }, name)));
    this.form = h("form", { class: "form", onsubmit: (event) => this.apply(event) });
    this.answer = h("div", { class: "answer", role: "status" });
    return [this.tabs, this.form, this.answer];
  }

  pick(name) {
    this.operation = name;
    this.answer.replaceChildren();
    const boxes = Object.keys(OPERATIONS[name].fields).map((label) => this.box(label));
    this.form.replaceChildren(...boxes, h("button", { type: "submit", class: "apply" }));
    for (const tab of this.tabs.children) {
      tab.setAttribute("aria-checked", tab.textContent === name);
      tab.tabIndex = tab.textContent === name ? 0 : -1;
    }
    this.preview();
  }

  box(label) {
    const given = this.given[this.operation];
    const input = h("input", { type: "text", inputmode: "numeric", autocomplete: "off",
      class: label === "sizes" ? "wide" : null,
      oninput: () => {
        given[label] = input.value;
        this.preview();
      } });
    input.value = given[label];
    return h("label", { class: "field" }, h("span", {}, label), input);
  }

  turn(event, name) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const names = Object.keys(OPERATIONS);
    const next = (names.indexOf(name) + by + names.length) % names.length;
    this.pick(names[next]);
    this.tabs.children[next].focus();
  }

  preview() {
    const { code } = OPERATIONS[this.operation];
    let words = this.operation;
    try {
      words = `x${code(this.view, ...Object.values(this.given[this.operation]))}`;
    } catch {} // what is wrong is said when it is applied
    this.form.querySelector(".apply").textContent = say("apply {words}", { words });
  }

  apply(event) {
    event.preventDefault();
    const given = Object.values(this.given[this.operation]);
    this.answer.replaceChildren();
    try {
      const made = OPERATIONS[this.operation].run(this.view, ...given);
      if (made === null) this.offerCopy(numbers(given[0]));
      else this.write(checked(made), this.size);
    } catch (error) {
      this.answer.append(h("p", { class: "complaint" }, `${error.message}.`));
    }
  }

  offerCopy(sizes) {
    const shape = inferred(this.view, sizes);
    const floats = numel(shape);
    this.answer.append(
      h("p", {}, h("b", {}, say("x.view({sizes}) needs a copy. ", { sizes: sizes.join(", ") })),
        say("In row-major order the elements lie at {at}, and no strides for {shape} walk that way.",
          { at: listed(addresses(this.view), 8), shape: tuple(shape) })),
      h("button", { type: "button", onclick: () => {
        this.answer.replaceChildren();
        this.write({ shape, stride: contiguousStride(shape), offset: 0 }, floats);
      } }, say("x.reshape({sizes}): copy {floats} into a new storage",
        { sizes: sizes.join(", "), floats: floatsOf(floats) })));
  }

  // -- What the reader sees.

  stage() {
    const button = (words, act) => h("button", { type: "button", onclick: act }, words);
    this.code = h("code", { class: "code" });
    this.undo = button(say("undo"), () => this.back(1));
    this.reset = button(say("reset"), () => this.back(this.past.length));
    this.facts = h("ul", { class: "facts" });
    this.grids = h("div", { class: "grids" });
    this.says = h("p", { class: "says", "aria-live": "polite" });
    this.storage = h("div", { class: "storage", role: "grid", "aria-label": say("storage") });
    const title = (what, why) => h("div", { class: "name" }, `${what} `, h("small", {}, why));
    return [
      h("div", { class: "bar" }, this.code, this.undo, this.reset),
      h("div", { class: "stage" },
        h("div", { class: "tensor" }, title(say("tensor"), say("each element shows its address")), this.grids,
          this.says),
        this.facts),
      title(say("storage"), say("the floats that there are")), this.storage,
    ];
  }

  /** Everything anew, after the state has changed. */
  refresh() {
    const { view, size } = this;
    this.readers = new Map();
    for (const index of indices(view.shape)) {
      const at = addressOf(view, index);
      if (this.readers.has(at)) this.readers.get(at).push(index);
      else this.readers.set(at, [index]);
    }
    const values = { shape: view.shape.join(", "), strides: view.stride.join(", "),
      offset: view.offset, floats: size };
    for (const [name, input] of Object.entries(this.inputs)) {
      if (document.activeElement !== input) input.value = values[name];
    }
    this.undo.disabled = this.reset.disabled = this.past.length === 0;
    this.code.textContent =
      `x = torch.arange(${size}.).as_strided(${tuple(view.shape)}, ${tuple(view.stride)}, ${view.offset})`;
    this.facts.replaceChildren(...facts(view, size).map(([kind, what, why]) =>
      h("li", { class: kind }, h("b", {}, what), ` ${why}`)));
    this.grids.replaceChildren(...this.drawGrids());
    this.storage.replaceChildren(h("div", { class: "line-of-cells", role: "row" }, ...this.drawStorage()));
    this.preview();
    const index = view.shape.map((n) => Math.min(1, n - 1));
    this.choose(numel(view.shape) ? { index, at: addressOf(view, index) } : {});
  }

  drawGrids() {
    const { shape } = this.view;
    const note = (words) => h("p", { class: "note" }, words);
    if (numel(shape) === 0) return [note(say("no elements: {shape} has a size of 0", { shape: tuple(shape) }))];
    const outers = [...indices(shape.slice(0, -2))];
    const more = outers.length - SHOWN.panels;
    return [...outers.slice(0, SHOWN.panels).map((outer) => this.drawPanel(outer)),
      ...(more > 0 ? [note(say("… and {n} more", { n: more }))] : [])];
  }

  /** The last two dimensions at one index of those before. */
  drawPanel(outer) {
    const { shape } = this.view;
    const [rows, columns] = [shape.at(-2) ?? 1, shape.at(-1) ?? 1];
    const drawn = (n) => Array.from({ length: seen(n) }, (_, i) => i);
    const head = (i, side) => h("span", { class: side ? "head side" : "head", "aria-hidden": "true" }, `${i}`);
    const corner = shape.length > 1 ? [head("", true)] : []; // a vector has no row to number
    const heads = drawn(columns).map((c) => head(c, false));
    const lines = drawn(rows).map((r) =>
      h("div", { class: "line-of-cells", role: "row" }, ...(corner.length ? [head(r, true)] : []),
        ...drawn(columns).map((c) =>
          this.drawElement([...outer, r, c].slice(outer.length + 2 - shape.length)))));
    const grid = h("div", { role: "grid", "aria-label": outer.length ? named(outer) : "x",
      "aria-rowcount": rows, "aria-colcount": columns },
      ...(shape.length ? [h("div", { class: "line-of-cells", role: "presentation" }, ...corner, ...heads)] : []),
      ...lines);
    const cut = seen(rows) < rows || seen(columns) < columns;
    return h("div", { class: "panel" },
      outer.length ? h("p", { class: "note" }, named(outer)) : null, grid,
      cut ? h("p", { class: "note" }, say("… a corner of {rows} by {columns}", { rows, columns })) : null);
  }

  drawElement(index) {
    const at = addressOf(this.view, index);
    const past = at >= this.size;
    const choose = () => this.choose({ index, at });
    return this.tinted(at, h("div", { class: past ? "cell missing" : "cell", role: "gridcell",
      tabindex: -1, "data-at": at, "data-index": index, onpointerenter: choose, onfocus: choose,
      onkeydown: (event) => this.walk(event, index),
      "aria-label": past ? say("{element}, address {at}, out of bounds", { element: named(index), at })
        : say("{element}, address {at}", { element: named(index), at }) }, `${at}`));
  }

  drawStorage() {
    const shown = Math.min(this.size, SHOWN.storage);
    const missing = outside(this.view, this.size);
    const note = (words, kind = "note") => h("span", { class: kind }, words);
    const cells = Array.from({ length: shown }, (_, at) => this.drawFloat(at));
    if (this.size > shown) cells.push(note(say("… to {at}", { at: this.size - 1 })));
    if (this.size === 0) cells.push(note(say("no floats")));
    if (missing.length) cells.push(note(say("end of the storage"), "wall"));
    cells.push(...missing.slice(0, SHOWN.missing).map((at) => this.drawFloat(at)));
    if (missing.length > SHOWN.missing) cells.push(note("…"));
    return cells;
  }

  drawFloat(at) {
    const readers = this.readers.get(at)?.length ?? 0;
    const [kind, told] = at >= this.size ? ["cell missing", say("out of bounds")]
      : readers ? ["cell", counted(readers, "read by {n} element", "read by {n} elements")] : ["cell idle", say("not read")];
    const choose = () => this.choose({ at });
    return this.tinted(at, h("div", { class: kind, role: "gridcell", tabindex: -1, "data-at": at,
      onpointerenter: choose, onfocus: choose, onkeydown: (event) => this.along(event),
      "aria-label": say("address {at}, {told}", { at, told }) }, `${at}`,
      readers > 1 ? h("sup", { "aria-hidden": "true" }, `${readers}×`) : null));
  }

  tinted(at, cell) {
    const t = Math.min(at / Math.max(this.size - 1, 1), 1);
    cell.style.setProperty("--t", `${(t < 0.5 ? 2 * t : 2 * t - 1) * 100}%`);
    if (t >= 0.5) cell.classList.add("late");
    return cell;
  }

  // -- What links the two.

  /** Marks one element or float, its address, and whatever else reads it. */
  choose(chosen) {
    this.chosen = chosen;
    const cells = [...this.root.querySelectorAll(".cell")];
    for (const cell of cells) {
      const same = Number(cell.dataset.at) === chosen.at;
      const self = same && cell.dataset.index === chosen.index?.join(",");
      cell.classList.toggle("self", self);
      cell.classList.toggle("same", same && !self);
      cell.tabIndex = -1;
    }
    // One stop for the tab key in each grid; arrows do the rest.
    for (const grid of [this.grids, this.storage]) {
      const stop = grid.querySelector(".self, .same") ?? grid.querySelector(".cell");
      if (stop) stop.tabIndex = 0;
    }
    this.says.replaceChildren(...this.sentence());
  }

  sentence() {
    const { index, at } = this.chosen;
    if (at === undefined) return ["\u00a0"];
    const others = (this.readers.get(at) ?? []).filter((i) => String(i) !== String(index)).map(named);
    const bold = (words, kind = null) => h("b", { class: kind }, words);
    const parts = index
      ? [bold(named(index)), say(" is at "), bold(formula(this.view, index)), ". ", others.length
        ? say(others.length > 1 ? "{others} read the same float. " : "{others} reads the same float. ",
          { others: listed(others, 4) }) : ""]
      : [bold(say("address {at}", { at })),
        say(" is read by {others}. ", { others: listed(others, 4) || say("no element") })];
    const past = at >= this.size ? [bold(say("✕ out of bounds: {last}.", { last: lastFloat(this.size) }), "bad")] : [];
    return [...parts, ...past];
  }

  /** Arrows walk along the last two dimensions, PageUp and PageDown along the one before. */
  walk(event, index) {
    const moves = { ArrowRight: [1, 1], ArrowLeft: [1, -1], ArrowDown: [2, 1], ArrowUp: [2, -1],
      PageDown: [3, 1], PageUp: [3, -1], Home: [1, -Infinity], End: [1, Infinity] };
    const [fromEnd, by] = moves[event.key] ?? [];
    if (!fromEnd || fromEnd > index.length) return;
    event.preventDefault();
    const d = index.length - fromEnd;
    const size = this.view.shape[d];
    const last = (fromEnd < 3 ? seen(size) : size) - 1;
    const to = index.with(d, Math.min(Math.max(index[d] + by, 0), last));
    this.grids.querySelector(`[data-index="${to}"]`)?.focus();
  }

  along(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const cells = [...this.storage.querySelectorAll(".cell")];
    cells[cells.indexOf(event.target) + by]?.focus();
  }
}
