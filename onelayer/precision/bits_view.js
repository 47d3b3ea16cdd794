// The bits of a number, to press: six formats, the value, its neighbours, what rounds to it.
//
// First the arithmetic, pure and tested against torch. It prefers slow definitions to rules: the
// nearest number is looked for among all that a format has. Then the page. No dependencies.
//
// A view is { format, bits, exact, numbers }. bits: the pattern as an integer, or null for the one
// that is nearest to `exact`. exact: the number before it was rounded; "NaN", "Infinity" and
// "-Infinity" are texts, as JSON has no such numbers. numbers: [name, number] to choose from.

export const FORMATS = {
  fp32: { exponent: 8, fraction: 23 },
  tf32: { exponent: 8, fraction: 10 },
  bf16: { exponent: 8, fraction: 7 },
  fp16: { exponent: 5, fraction: 10 },
  e5m2: { exponent: 5, fraction: 2 },
  e4m3fn: { exponent: 4, fraction: 3, finite: true }, // "fn": finite, and one NaN
};

export const width = (f) => 1 + f.exponent + f.fraction;
export const bias = (f) => 2 ** (f.exponent - 1) - 1;
const signWeight = (f) => 2 ** (f.exponent + f.fraction);

/** { sign, exponent, fraction } as integers. */
export function fields(bits, f) {
  const sign = bits >= signWeight(f) ? 1 : 0;
  const magnitude = bits - sign * signWeight(f);
  return { sign, exponent: Math.floor(magnitude / 2 ** f.fraction), fraction: magnitude % 2 ** f.fraction };
}

/** "zero", "subnormal", "normal", "infinity" or "NaN". */
export function kind(bits, f) {
  const { exponent, fraction } = fields(bits, f);
  if (exponent === 0) return fraction ? "subnormal" : "zero";
  if (exponent < 2 ** f.exponent - 1) return "normal";
  if (f.finite) return fraction === 2 ** f.fraction - 1 ? "NaN" : "normal";
  return fraction ? "NaN" : "infinity";
}

export function value(bits, f) {
  const { sign, exponent, fraction } = fields(bits, f);
  const what = kind(bits, f);
  if (what === "NaN") return NaN;
  const plus = what === "infinity" ? Infinity
    : what === "normal" ? (1 + fraction / 2 ** f.fraction) * 2 ** (exponent - bias(f))
    : (fraction / 2 ** f.fraction) * 2 ** (1 - bias(f));
  return sign ? -plus : plus;
}

/** The pattern of the largest finite number. */
export const largest = (f) => (2 ** f.exponent - 1) * 2 ** f.fraction + (f.finite ? 2 ** f.fraction - 2 : -1);

/** The pattern with bit `place` changed; place 0 is the last. */
export const flipped = (bits, place) => bits + (Math.floor(bits / 2 ** place) % 2 ? -1 : 1) * 2 ** place;

/** The next number up (by = 1) or down (by = -1), or null where there is none. */
export function next(bits, f, by) {
  if (kind(bits, f) === "NaN") return null;
  const { sign } = fields(bits, f);
  const magnitude = bits - sign * signWeight(f);
  const away = sign ? -by : by; // from zero
  if (magnitude === 0) return by > 0 ? 1 : signWeight(f) + 1;
  const stop = largest(f) + (f.finite ? 0 : 1);
  if (away > 0 && magnitude >= stop) return null;
  return sign * signWeight(f) + magnitude + away;
}

/** The distance to the next number away from zero; at the end of the range, the last one. */
export function ulp(bits, f) {
  const last = largest(f);
  const magnitude = Math.min(bits % signWeight(f), last - 1);
  return value(magnitude + 1, f) - value(magnitude, f);
}

/** The pattern of the number nearest to x, and of two as near the one that ends in 0. Behind the
 * last number the grid goes on for half a step; then comes infinity, or for fp8's "fn", which has
 * none, the last number again (torch's Float8_e4m3fn.h). */
export function nearest(x, f) {
  const given = numeric(x);
  const minus = given < 0 || Object.is(given, -0) ? signWeight(f) : 0;
  const size = Math.abs(given);
  const last = largest(f);
  if (Number.isNaN(given)) return signWeight(f) - 1;
  if (size >= value(last, f) + ulp(last, f) / 2) return minus + (f.finite ? last : last + 1);
  let [low, high] = [0, last + 1]; // patterns grow as their numbers do: halve until one is left
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (value(middle, f) <= size) low = middle;
    else high = middle;
  }
  if (low === last) return minus + last;
  const [down, up] = [size - value(low, f), value(low + 1, f) - size];
  const higher = up < down || (up === down && low % 2 === 1);
  return minus + low + (higher ? 1 : 0);
}

/** [low, high] between which everything becomes this number, or null. */
export function catches(bits, f) {
  if (!["zero", "subnormal", "normal"].includes(kind(bits, f))) return null;
  const here = value(bits, f);
  const edge = (by) => {
    const other = next(bits, f, by);
    const there = other === null ? Infinity : value(other, f);
    return Number.isFinite(there) ? (here + there) / 2 : here + by * ulp(bits, f) / 2;
  };
  return [edge(-1), edge(1)];
}

/** The pattern that a view shows. */
export const shown = ({ bits, exact, format }) => bits ?? nearest(exact, FORMATS[format]);

export const numeric = (exact) => Number(exact);
const written = (x) => (Number.isFinite(x) ? x : String(x));

/** A number as a reader writes it: 13.125, 6.1e-5, −∞. */
export function text(x, digits = 8) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x < 0 ? "−∞" : "∞";
  if (x === 0) return Object.is(x, -0) ? "−0" : "0";
  const size = Math.abs(x);
  const plain = size >= 1e-4 && size < 1e7;
  const short = plain ? String(Number(x.toPrecision(digits))) : x.toExponential().length <= digits + 4 ? x.toExponential() : x.toExponential(digits - 3);
  return short.replace("-", "−").replace("e-", "e−").replace("e+", "e");
}

/** How a pattern becomes its number: [formula, value]. */
export function formula(bits, f) {
  const { sign, exponent, fraction } = fields(bits, f);
  const minus = sign ? "−" : "";
  const share = `${fraction}/${2 ** f.fraction}`;
  switch (kind(bits, f)) {
    case "NaN": return f.finite ? say("all bits 1: not a number") : say("exponent all ones, fraction not 0: not a number");
    case "infinity": return say("exponent all ones, fraction 0: {minus}∞", { minus });
    case "normal": return `${minus}2^(${exponent} − ${bias(f)}) × (1 + ${share})`;
    default: return `${minus}2^(1 − ${bias(f)}) × (0 + ${share})`;
  }
}

// ---- The page.

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, given] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), given);
    else if (given !== null) element.setAttribute(name, given);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, given] of Object.entries(attributes)) element.setAttribute(name, given);
  element.append(...children);
  return element;
}

const LINE = { width: 640, height: 74, margin: 70, axis: 34 };
const AROUND = 2; // numbers on each side
const MARKED = { [say("rounds to it")]: "of-caught", [say("was")]: "of-was" }; // as the line is coloured

class Page {
  constructor(model, el) {
    this.model = model;
    this.keys = h("div", { class: "keys", role: "group", "aria-label": say("bits") });
    this.says = h("p", { class: "says", role: "status" });
    this.line = h("div", { class: "line" });
    this.facts = h("dl", { class: "facts" });
    this.everywhere = h("tbody");
    this.typed = h("input", { type: "text", inputmode: "decimal", "aria-label": say("a number"), onchange: () => this.type() });
    const { numbers } = this.view;
    this.offered = numbers.length ? h("select", { "aria-label": say("a number of the head"), onchange: () => this.offer() },
      h("option", { value: "" }, say("choose …")), ...numbers.map(([name], k) => h("option", { value: k }, name))) : null;
    this.down = h("button", { type: "button", onclick: () => this.step(-1) }, say("next down"));
    this.up = h("button", { type: "button", onclick: () => this.step(1) }, say("next up"));
    const head = h("tr", {}, ...[say("format"), say("stores"), say("error")].map((name) => h("th", { scope: "col" }, name)));
    el.append(h("div", { class: "ol-view ol-bits", role: "group", "aria-label": say("the bits of a number") },
      h("div", { class: "bar" }, h("label", {}, say("number "), this.typed), this.offered, this.down, this.up),
      this.keys, this.says, this.line, this.facts,
      h("table", {}, h("caption", {}, say("the same number in each format")), h("thead", {}, head), this.everywhere)));
    this.redraw = () => this.refresh();
    model.on("change:view", this.redraw);
    this.refresh();
  }

  get view() {
    return this.model.get("view");
  }

  get form() {
    return FORMATS[this.view.format];
  }

  write(changes) {
    this.model.set("view", { ...this.view, ...changes });
    this.model.save_changes();
    this.refresh();
  }

  /** Another pattern: now this is the number. */
  put(bits) {
    this.write({ bits, exact: written(value(bits, this.form)) });
  }

  step(by) {
    const bits = next(shown(this.view), this.form, by);
    if (bits !== null) this.put(bits);
  }

  type() {
    const given = this.typed.value.trim().replaceAll("−", "-").replace("∞", "Infinity");
    const x = given === "" ? NaN : Number(given);
    const understood = !Number.isNaN(x) || given.toLowerCase() === "nan";
    this.typed.setAttribute("aria-invalid", String(!understood));
    if (understood) this.write({ bits: null, exact: written(x) });
    else this.says.textContent = say("\"{given}\" is not a number", { given });
  }

  offer() {
    if (this.offered.value !== "") this.write({ bits: null, exact: this.view.numbers[this.offered.value][1] });
  }

  refresh() {
    const bits = shown(this.view);
    const f = this.form;
    this.typed.value = text(numeric(this.view.exact), 10);
    this.typed.setAttribute("aria-invalid", "false");
    [this.down.disabled, this.up.disabled] = [-1, 1].map((by) => next(bits, f, by) === null);
    this.drawKeys(bits, f);
    this.says.replaceChildren(h("b", {}, `${formula(bits, f)} = ${text(value(bits, f))}`));
    this.line.replaceChildren(...this.axis(bits, f));
    this.facts.replaceChildren(...this.told(bits, f).flatMap(([name, ...words]) => [h("dt", { class: MARKED[name] ?? null }, name), h("dd", {}, ...words)]));
    this.everywhere.replaceChildren(...Object.entries(FORMATS).map(([name, form]) => this.row(name, form)));
  }

  /** The buttons; the one that had the focus keeps it. */
  drawKeys(bits, f) {
    const focused = this.keys.contains(document.activeElement) ? document.activeElement.dataset.place : null;
    const group = (name, from, count) => h("div", { class: `group ${name}` },
      h("div", { class: "row8" }, ...Array.from({ length: count }, (_, k) => this.key(name, from - k, bits, f))),
      h("span", { class: "name" }, name === "sign" ? say("sign") : say("{name}, {n} bits", { name: say(name), n: count })));
    this.keys.replaceChildren(group("sign", f.exponent + f.fraction, 1),
      group("exponent", f.exponent + f.fraction - 1, f.exponent), group("fraction", f.fraction - 1, f.fraction));
    if (focused !== null) this.keys.querySelector(`[data-place="${focused}"]`)?.focus();
  }

  key(name, place, bits, f) {
    const on = Math.floor(bits / 2 ** place) % 2;
    const weight = name === "sign" ? say("minus") : name === "exponent" ? `${2 ** (place - f.fraction)}` : `1/${2 ** (f.fraction - place)}`;
    return h("button", { type: "button", class: on ? "on" : "off", "data-place": place, title: weight, "aria-pressed": String(on === 1),
      "aria-label": name === "sign" ? say("sign bit") : say("{name} bit {weight}", { name: say(name), weight }), onclick: () => this.put(flipped(bits, place)) }, String(on));
  }

  told(bits, f) {
    const what = kind(bits, f);
    const found = [[say("it is"), what === "normal" ? say("a normal number")
      : what === "subnormal" ? say("subnormal: no leading 1, fewer bits left") : say(what)]];
    const caught = catches(bits, f);
    if (caught) found.push([say("to the next"), say("{ulp} (one ulp)", { ulp: text(ulp(bits, f)) })
      + (value(bits, f) ? say(", {share} of it", { share: text(ulp(bits, f) / Math.abs(value(bits, f)), 3) }) : "")],
      [say("rounds to it"), say("all from {low} to {high}", { low: text(caught[0]), high: text(caught[1]) })]);
    const exact = numeric(this.view.exact);
    if (this.view.bits === null && Number.isFinite(exact)) found.push([say("was"), text(exact, 12)]);
    return found;
  }

  row(name, f) {
    const here = name === this.view.format;
    const exact = numeric(this.view.exact);
    const stored = here ? value(shown(this.view), f) : value(nearest(exact, f), f);
    const error = stored - exact;
    const share = Number.isFinite(error) && exact !== 0 ? `${text((100 * error) / Math.abs(exact), 3)} %` : Object.is(stored, exact) ? say("none") : say("not finite");
    const choose = () => this.write({ format: name, bits: null });
    return h("tr", { class: here ? "here" : "" },
      h("th", { scope: "row" }, h("button", { type: "button", "aria-pressed": String(here), onclick: choose }, name)),
      h("td", {}, text(stored)), h("td", {}, error === 0 ? say("none") : share));
  }

  /** The number and its neighbours on a line, at their true distances, and the number before it. */
  axis(bits, f) {
    if (!catches(bits, f)) return [];
    const places = [bits];
    for (const by of [-1, 1]) {
      let at = bits;
      for (let k = 0; k < AROUND; k++) {
        at = at === null ? null : next(at, f, by);
        if (at !== null && Number.isFinite(value(at, f))) places.push(at);
      }
    }
    places.sort((a, b) => value(a, f) - value(b, f));
    const [low, high] = [value(places[0], f), value(places.at(-1), f)];
    const x = (v) => LINE.margin + ((v - low) / (high - low)) * (LINE.width - 2 * LINE.margin);
    const [from, to] = catches(bits, f).map(x);
    const ticks = places.map((p, k) => s("g", { class: p === bits ? "tick here" : k % 2 ? "tick between" : "tick" },
      s("path", { d: `M${x(value(p, f))} ${LINE.axis - 9}v18` }),
      s("text", { x: x(value(p, f)), y: k % 2 ? LINE.axis + 24 : LINE.axis - 14 }, text(value(p, f), f.fraction > 12 ? 10 : 6))));
    const exact = numeric(this.view.exact);
    const was = this.view.bits === null && exact >= low && exact <= high && exact !== value(bits, f)
      ? [s("circle", { class: "was", cx: x(exact), cy: LINE.axis, r: 4.5 })] : [];
    return [s("svg", { viewBox: `0 0 ${LINE.width} ${LINE.height}`, role: "img", "aria-label": say("{number} among its neighbours {low} to {high}",
      { number: text(value(bits, f)), low: text(low, 6), high: text(high, 6) }) },
      s("rect", { class: "caught", x: from, y: LINE.axis - 6, width: Math.max(0, to - from), height: 12 }),
      s("path", { class: "ground", d: `M${LINE.margin / 2} ${LINE.axis}H${LINE.width - LINE.margin / 2}` }), ...ticks, ...was)];
  }
}
