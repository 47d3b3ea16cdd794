// The dispatch view: what a tensor and a thread bring to a call, and the way of the call through an
// operator's table. All rules are here, so that the view runs in a notebook and on a page without one.

const PARTS = {
  device: { label: say("device"), options: ["cpu", "meta"] },
  layout: { label: say("layout"), options: ["strided", "sparse_coo"] },
  negative: { label: say("negative view (lazy -x)") },
  made: { label: say("made in inference_mode") },
  needs: { label: "requires_grad" },
  autocast: { label: "autocast(\"cpu\")" },
  grad: { label: say("gradients"), options: ["enabled", "no_grad", "inference_mode"] },
  mode: { label: say("a TorchDispatchMode") },
};
const TENSOR = ["device", "layout", "negative", "made", "needs"];
const THREAD = ["autocast", "grad", "mode"];

/** The keys that the tensor carries. requires_grad is no part of it: autograd looks for itself. */
function carried({ device, layout, negative, made }) {
  const backend = device === "cpu" ? "CPU" : "Meta";
  const keys = [layout === "strided" ? backend : `Sparse${backend}`];
  if (negative && layout === "strided") keys.push("Negative");
  if (!made) keys.push("ADInplaceOrView", `Autograd${backend}`);
  if (device === "cpu") keys.push("AutocastCPU");
  return keys;
}

/** The keys that the thread adds to every call. */
function included({ grad, mode }) {
  const keys = ["BackendSelect"];
  if (grad !== "inference_mode") keys.push("ADInplaceOrView");
  if (mode) keys.push("Python", "PythonTLSSnapshot");
  return keys;
}

/** Whether the thread skips a key. no_grad skips none: autograd's kernel still runs. */
function excluded({ autocast, grad }, key) {
  if (key.startsWith("Autocast")) return !autocast;
  return key.startsWith("Autograd") && grad === "inference_mode";
}

/** What becomes of each key of the call, highest first: [key, fate]. */
function stops(state, table, order, ends) {
  const keys = new Set([...carried(state), ...included(state)]);
  let done = false;
  return order.filter((key) => keys.has(key)).map((key) => {
    const { kind, falls } = table[key] ?? { kind: "missing", falls: false };
    if (excluded(state, key)) return [key, "excluded"];
    if (done) return [key, "not reached"];
    if (falls) return [key, "falls through"];
    done = kind === "math kernel" || kind === "missing" || ends.includes(key);
    return [key, "runs"];
  });
}

const MARKS = { runs: "▶", "falls through": "│", excluded: "✕", "not reached": "" };

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

class Page {
  constructor(model, el) {
    this.model = model;
    this.way = h("ol", { class: "way", "aria-live": "polite" });
    this.says = h("p", { class: "says" });
    const { tables } = model.get("view");
    el.replaceChildren(h("div", { class: "ol-view ol-dispatch" },
      this.choice("op", say("operator"), Object.keys(tables)),
      this.group(say("the tensor"), TENSOR), this.group(say("the thread"), THREAD), this.way, this.says));
    this.redraw = () => this.refresh();
    model.on("change:view", this.redraw);
    this.refresh();
  }

  write(name, value) {
    this.model.set("view", { ...this.model.get("view"), [name]: value });
    this.model.save_changes();
    this.refresh();
  }

  group(title, names) {
    return h("fieldset", {}, h("legend", {}, title), ...names.map((name) => {
      const { label, options } = PARTS[name];
      return options ? this.choice(name, label, options) : this.box(name, label);
    }));
  }

  choice(name, label, options) {
    const select = h("select", { "data-part": name, onchange: () => this.write(name, select.value) },
      ...options.map((option) => h("option", { value: option }, say(option))));
    return h("label", {}, h("span", {}, label), select);
  }

  box(name, label) {
    const input = h("input", { type: "checkbox", "data-part": name,
      onchange: () => this.write(name, input.checked) });
    return h("label", {}, input, h("span", {}, label));
  }

  refresh() {
    const view = this.model.get("view");
    for (const input of this.way.parentElement.querySelectorAll("[data-part]")) {
      const value = view[input.dataset.part];
      if (input.type === "checkbox") input.checked = value;
      else input.value = value;
      input.disabled = input.dataset.part === "negative" && view.layout !== "strided";
    }
    const table = view.tables[view.op];
    const way = stops(view, table, view.order, view.ends);
    this.way.replaceChildren(...way.map(([key, fate]) => this.drawStop(key, fate, table[key], view)));
    this.says.textContent = this.sentence(way, table, view);
  }

  drawStop(key, fate, entry, { meaning }) {
    const why = fate === "runs" ? `${meaning[entry?.kind ?? "missing"]}${entry ? ` (${entry.where})` : ""}`
      : fate === "excluded" ? say("excluded in this thread") : say(fate);
    return h("li", { class: fate.replace(" ", "-") }, h("span", { class: "mark" }, MARKS[fate]),
      h("code", {}, key), h("span", { class: "why" }, why));
  }

  sentence(way, table, { op }) {
    const ran = way.filter(([, fate]) => fate === "runs").map(([key]) => key);
    const last = ran.at(-1);
    const kind = table[last]?.kind ?? "missing";
    if (kind === "missing") return say("{op} has no kernel for {key}: the call raises.", { op, key: last });
    if (kind === "math kernel") {
      return say("The way ends at {key}: {op} calls other operators, each with a way of its own.", { op, key: last });
    }
    return say("The way: {keys}.", { keys: ran.join(" → ") });
  }
}
