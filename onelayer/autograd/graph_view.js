// The autograd graph: boxes for nodes, what each saved, and the engine's order step by step.
//
// First the arithmetic, pure and tested against torch. Then the page. No dependencies.
//
// A view is { nodes, ran, picked }: nodes as graph.py writes them, the root first; how many nodes
// have run; which one is looked at.

/** How many gradients will arrive at each node. */
export function arrivals(nodes) {
  const count = nodes.map(() => 0);
  for (const node of nodes) for (const after of node.next) if (after !== null) count[after] += 1;
  return count;
}

/** The nodes in the order in which the engine runs them. A node is ready when all its gradients have
 * arrived; of the ready ones the highest sequence goes first, and a leaf's counts as infinite. */
export function order(nodes) {
  const waiting = arrivals(nodes);
  const rank = (k) => nodes[k].sequence ?? Infinity;
  const ready = [0];
  const ran = [];
  while (ready.length) {
    const next = ready.reduce((best, k) => (rank(k) > rank(best) ? k : best));
    ready.splice(ready.indexOf(next), 1);
    ran.push(next);
    for (const after of nodes[next].next) {
      if (after !== null && --waiting[after] === 0) ready.push(after);
    }
  }
  return ran;
}

/** On which level each node is drawn: below everything that hands it a gradient. */
export function levels(nodes) {
  const level = nodes.map(() => 0);
  for (const k of order(nodes)) {
    for (const after of nodes[k].next) {
      if (after !== null) level[after] = Math.max(level[after], level[k] + 1);
    }
  }
  return level;
}

// ---- The page.

const BOX = { width: 190, height: 46, across: 22, down: 34, bend: 10 };

/** Rows of items, top to bottom: nodes, and a bend wherever an edge passes a row. Each item knows
 * its parents in the row above, with the slot that leads to it. */
function rowsOf(nodes) {
  const level = levels(nodes);
  const item = new Map(order(nodes).map((k) => [k, { k, width: BOX.width, parents: [] }]));
  const rows = [];
  for (const [k, own] of item) (rows[level[k]] ??= []).push(own);
  for (const [k, own] of item) {
    nodes[k].next.forEach((after, slot) => {
      if (after === null) return;
      let above = { parent: own, slot: slot / nodes[k].next.length };
      for (let y = level[k] + 1; y < level[after]; y++) {
        const bend = { edge: `${k}.${slot}`, width: BOX.bend, parents: [above] };
        rows[y].push(bend);
        above = { parent: bend, slot: 0 };
      }
      item.get(after).parents.push(above);
    });
  }
  return rows;
}

/** Where each node is drawn, and through which points the long edges go. */
export function places(nodes) {
  const rows = rowsOf(nodes);
  const wide = (row) => row.reduce((sum, { width }) => sum + width + BOX.across, -BOX.across);
  const width = Math.max(...rows.map(wide));
  const [at, bends] = [[], {}];
  rows.forEach((row, y) => {
    const wish = ({ parents }) => parents.reduce((sum, { parent, slot }) =>
      sum + parent.x + slot * parent.width, 0) / Math.max(parents.length, 1);
    const wishes = new Map(row.map((item) => [item, wish(item)]));
    row.sort((a, b) => wishes.get(a) - wishes.get(b));
    let x = (width - wide(row)) / 2;
    for (const item of row) {
      item.x = x;
      const top = y * (BOX.height + BOX.down);
      if (item.k !== undefined) at[item.k] = { x, y: top };
      else (bends[item.edge] ??= []).push([x + item.width / 2, top], [x + item.width / 2, top + BOX.height]);
      x += item.width + BOX.across;
    }
  });
  return { at, bends, width, height: rows.length * (BOX.height + BOX.down) - BOX.down };
}

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

/** A name that a box can hold; its middle is left out, and the details give all of it. */
export const short = (name) => (name.length > 26 ? `${name.slice(0, 12)}…${name.slice(-13)}` : name);

const title = (node) => [node.name, node.leaf].filter(Boolean).join(" ");
const shape = (sizes) => `(${sizes.join(", ")}${sizes.length === 1 ? "," : ""})`;

/** What a node says in its box, under its name. */
export function summary(node) {
  if (node.leaf) return say("adds to the .grad of {leaf}", { leaf: node.leaf });
  const shown = node.saved.filter((t) => t.shape !== null);
  if (shown.length < node.saved.length) return say("saved tensors: gone or changed");
  if (!shown.length) return say("saved nothing");
  const total = shown.filter((t) => t.fresh).reduce((sum, t) => sum + t.nbytes, 0);
  return say("saved {n} · {bytes}", { n: shown.length, bytes: total ? bytes(total) : say("no bytes of its own") });
}

export function sentence(t) {
  if (t.shape === null) return `${t.name}: ${t.note}`;
  const cost = t.shares ? say("in the storage of {name}, costs nothing", { name: t.shares })
    : t.fresh ? say("{bytes} kept for backward", { bytes: bytes(t.nbytes) }) : say("in a storage that another node keeps too");
  return `${t.name} ${shape(t.shape)}: ${cost}`;
}

class Page {
  constructor(model, el) {
    this.model = model;
    const { nodes } = model.get("view");
    this.nodes = nodes;
    this.run = order(nodes);
    this.buttons = {
      next: h("button", { type: "button", onclick: () => this.go(1) }, say("run the next node")),
      back: h("button", { type: "button", onclick: () => this.go(-1) }, say("one back")),
      start: h("button", { type: "button", onclick: () => this.go(-Infinity) }, say("start again")),
    };
    this.says = h("p", { class: "says", role: "status" });
    this.details = h("div", { class: "details" });
    const { next, back, start } = this.buttons;
    this.root = h("div", { class: "ol-view ol-graph", role: "group", "aria-label": say("autograd graph") },
      h("div", { class: "bar" }, next, back, start, this.says),
      h("div", { class: "stage" }, this.picture()), this.details);
    el.append(this.root);
    this.redraw = () => this.refresh();
    model.on("change:view", this.redraw);
    this.refresh();
  }

  write(changes) {
    this.model.set("view", { ...this.model.get("view"), ...changes });
    this.model.save_changes();
    this.refresh();
  }

  go(by) {
    const ran = Math.min(Math.max(this.model.get("view").ran + by, 0), this.run.length);
    this.write({ ran, picked: this.run[Math.max(ran - 1, 0)] });
  }

  picture() {
    const { at, bends, width, height } = places(this.nodes);
    const edges = this.nodes.flatMap((node, k) =>
      node.next.map((after, slot) => this.edge(at, bends[`${k}.${slot}`] ?? [], k, after, slot, node.next.length)));
    this.boxes = this.nodes.map((node, k) => this.box(node, k, at[k]));
    return s("svg", { viewBox: `-4 -4 ${width + 8} ${height + 8}`, width: width + 8,
      height: height + 8, role: "group" }, ...edges, ...this.boxes);
  }

  edge(at, through, k, after, slot, slots) {
    const x = at[k].x + (BOX.width * (slot + 1)) / (slots + 1);
    const y = at[k].y + BOX.height;
    if (after === null) {
      return s("g", { class: "none" }, s("path", { d: `M${x} ${y}v8` }),
        s("text", { x, y: y + 19, "text-anchor": "middle" }, "None"));
    }
    const points = [...through, [at[after].x + BOX.width / 2, at[after].y]];
    let [path, from] = [`M${x} ${y}`, y];
    points.forEach(([px, py], i) => {
      const half = (from + py) / 2;
      const last = i ? points[i - 1][0] : x;
      path += i % 2 ? `L${px} ${py}` : `C${last} ${half} ${px} ${half} ${px} ${py}`;
      from = py;
    });
    return s("path", { class: "edge", d: path });
  }

  box(node, k, { x, y }) {
    const pick = () => this.write({ picked: k });
    return s("g", { class: node.leaf ? "node leaf" : "node", tabindex: 0, role: "button",
      "aria-label": title(node), transform: `translate(${x} ${y})`, onclick: pick,
      onkeydown: (event) => { if (["Enter", " "].includes(event.key)) { event.preventDefault(); pick(); } } },
      s("rect", { width: BOX.width, height: BOX.height, rx: 7 }),
      s("text", { x: 10, y: 19, class: "name", lengthAdjust: "spacingAndGlyphs",
        textLength: node.name.length > 20 ? BOX.width - 36 : null }, short(node.name)),
      s("text", { x: 10, y: 36, class: "small" }, summary(node)),
      s("text", { x: BOX.width - 8, y: 19, class: "turn", "text-anchor": "end" }, ""));
  }

  refresh() {
    const { ran, picked } = this.model.get("view");
    this.boxes.forEach((box, k) => {
      const turn = this.run.indexOf(k);
      box.classList.toggle("ran", turn < ran);
      box.classList.toggle("picked", k === picked);
      box.setAttribute("aria-pressed", String(k === picked));
      box.querySelector(".turn").textContent = turn < ran ? String(turn + 1) : "";
    });
    this.buttons.next.disabled = ran === this.run.length;
    this.buttons.back.disabled = this.buttons.start.disabled = ran === 0;
    this.says.textContent = this.told(ran);
    const node = this.nodes[picked];
    const lines = node.saved.map((t) => h("li", { class: t.fresh ? "fresh" : null }, sentence(t)));
    this.details.replaceChildren(h("div", { class: "name" }, title(node)), h("ul", {},
      ...(lines.length ? lines : [h("li", {}, node.leaf ? say("a leaf's node saves nothing") : say("saved nothing"))])));
  }

  told(ran) {
    if (ran === 0) return say("backward has not begun: the seed waits at the top");
    const node = this.nodes[this.run[ran - 1]];
    const after = node.next.filter((k) => k !== null).map((k) => title(this.nodes[k]));
    const what = node.leaf ? say("adds its gradient to {leaf}.grad", { leaf: node.leaf })
      : say("hands on to {nodes}", { nodes: after.join(", ") });
    return `${ran}. ${node.name} ${what}${ran === this.run.length ? say(". All have run.") : ""}`;
  }
}
