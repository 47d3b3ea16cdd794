// The path of one call: six stops on a staircase from Python down to the kernel and back. What
// each stop says came from torch; here it is only chosen and shown. No dependencies.

/** How deep each layer lies under Python. */
export const DEPTH = { python: 0, binding: 1, "dispatcher": 2, autograd: 3, kernel: 4 };

/** Which of PyTorch's four rooms a file belongs to, and what the room is for. */
export function roomOf(file) {
  if (file.startsWith("torch/csrc/")) return ["torch/csrc", say("C++ behind Python")];
  if (file.startsWith("torch/")) return ["torch", say("the Python you import")];
  if (file.startsWith("c10/")) return ["c10", say("the core: tensors, storages, keys")];
  return ["aten", say("operators and kernels")];
}

/** The stops of the chosen device and mode. */
export const routeOf = (view, at) => view.routes[`${at.device}, ${at.mode}`];

/** The stop `by` further along, within the route; a stop that the call does not make is shown too. */
export function moved(view, at, by) {
  const last = routeOf(view, at).length - 1;
  return { ...at, stop: Math.min(Math.max(at.stop + by, 0), last) };
}

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

class Page {
  constructor(model, el) {
    const view = this.view = model.get("view");
    this.at = { stop: 0, device: view.devices[0], mode: view.modes[0] };
    this.stairs = h("ol", { class: "stairs" });
    this.told = h("div", { class: "told", role: "status" });
    this.back = h("button", { type: "button", onclick: () => this.go(-1) }, say("back"));
    this.next = h("button", { type: "button", class: "next", onclick: () => this.go(1) }, say("next stop"));
    this.switches = h("div", { class: "switches" });
    el.append(h("div", { class: "ol-view ol-call", role: "group", "aria-label": say("the path of one call") },
      this.switches, h("div", { class: "stage" }, this.stairs, this.told),
      h("div", { class: "bar" }, this.back, this.next)));
    this.refresh();
  }

  go(by) {
    this.at = moved(this.view, this.at, by);
    this.refresh();
  }

  choose(change) {
    this.at = { ...this.at, ...change };
    this.refresh();
  }

  refresh() {
    const route = routeOf(this.view, this.at);
    this.switches.replaceChildren(
      this.choice("device", say("device"), this.view.devices),
      this.choice("mode", say("mode"), this.view.modes));
    this.stairs.replaceChildren(...route.map((stop, k) => this.stair(stop, k)));
    this.told.replaceChildren(...this.details(route[this.at.stop]));
    this.back.disabled = this.at.stop === 0;
    this.next.disabled = this.at.stop === route.length - 1;
  }

  choice(key, label, options) {
    const button = (option) => h("button", { type: "button", "aria-pressed": option === this.at[key],
      onclick: () => {
        this.choose({ [key]: option });
        this.switches.querySelector(`[data-option="${option}"]`).focus();
      }, "data-option": option }, option);
    return h("div", { class: "choice", role: "group", "aria-label": label },
      h("span", {}, label), ...options.map(button));
  }

  stair(stop, k) {
    const now = k === this.at.stop;
    const button = h("button", { type: "button", "aria-current": now ? "step" : null,
      class: stop.skipped ? "stop skipped" : "stop", onclick: () => this.choose({ stop: k }),
      onkeydown: (event) => this.walk(event) },
      h("span", { class: "layer" }, say(stop.layer)), h("code", {}, stop.name),
      stop.skipped ? h("span", { class: "layer" }, say("not visited")) : null);
    return h("li", { style: `--depth: ${DEPTH[stop.layer]}` }, button);
  }

  walk(event) {
    const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    this.go(by);
    this.stairs.querySelector("[aria-current]").focus();
  }

  details(stop) {
    const [room, what] = roomOf(stop.file);
    return [
      h("div", { class: "name" }, h("code", {}, stop.name)),
      h("p", {}, stop.says),
      h("p", { class: "where" }, h("b", {}, room), ` ${what}`, h("br"), h("code", {}, stop.file)),
      h("pre", { tabindex: 0, "aria-label": say("what this torch reports") }, stop.seen.join("\n")),
    ];
  }
}
