// The timeline of a training step on several ranks: what each computes, sends and waits for.
//
// First the model, pure and tested against torch and a slow simulation. Then the page. No
// dependencies.
//
// A view is { way, ranks, layers, caps, parts, speed, latency, activation, slow, reshard, recorded,
// at }. way: "ddp", "fsdp", "gpipe", "1f1b" or "recorded". layers: for each its `time`, the ms of a
// forward of one rank's share of the batch, and the `bytes` of its parameters. caps: bytes of the
// first and of the other buckets. parts: micro-batches. speed: bytes per ms; latency: ms; activation:
// bytes between two layers for one rank's share. slow: a rank that takes half as long again, or -1.
// reshard: whether a gathered layer is dropped after its forward. recorded: bars that were measured.

const BACKWARD = 2; // forwards that a backward costs
const SLOW = 1.5;

/** How many ranks take part: a pipeline has no more than layers. */
export const ranksOf = ({ way, ranks, layers, recorded }) =>
  way === "recorded" ? 1 + Math.max(0, ...recorded.map(({ rank }) => rank))
    : way === "ddp" || way === "fsdp" ? ranks : Math.min(ranks, layers.length);

/** Gradients into buckets, in the order in which they are ready: a bucket is full when it has
 * reached its limit, so the one that crosses it is still in. caps: the first limit, then the others.
 */
export function buckets(sizes, [first, rest]) {
  const found = [];
  let [bucket, held, limit] = [[], 0, first];
  sizes.forEach((size, i) => {
    bucket.push(i);
    held += size;
    if (held >= limit || i === sizes.length - 1) {
      found.push(bucket);
      [bucket, held, limit] = [[], 0, rest];
    }
  });
  return found;
}

/** The layers of each stage, as even as can be, the longer ones first. */
export function stages(count, ranks) {
  let next = 0;
  return Array.from({ length: ranks }, (_, rank) => {
    const size = Math.floor(count / ranks) + (rank < count % ranks ? 1 : 0);
    return Array.from({ length: size }, () => next++);
  });
}

/** ["F", micro-batch] and ["B", micro-batch] in the order of one stage. */
export function order(way, rank, ranks, parts) {
  const ahead = way === "gpipe" ? parts : Math.min(ranks - 1 - rank, parts);
  const plan = Array.from({ length: ahead }, (_, i) => ["F", i]);
  for (let back = 0; back < parts; back++) {
    if (ahead + back < parts) plan.push(["F", ahead + back]);
    plan.push(["B", back]);
  }
  return plan;
}

/** What one rank sends for a collective of `bytes` if all stand in a ring. */
export const ring = (kind, bytes, ranks) => ((kind === "all-reduce" ? 2 : 1) * bytes * (ranks - 1)) / ranks;

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const pace = (view, rank) => (rank === view.slow ? SLOW : 1);
const sending = (view, bytes) => view.latency + bytes / view.speed;

/** A rank's work, in the order of its two lanes. needs: ids that must have ended before. id: for
 * those who need it. joint: all ranks begin a collective together. */
function rankOf(view, rank, ranks) {
  const tasks = [];
  const add = (lane, kind, name, time, needs, more) => tasks.push({ rank, lane, kind, name, time, needs, bytes: 0, ...more });
  const compute = (kind, layer, needs) => add("compute", kind, `${layer + 1}`, pace(view, rank) * view.layers[layer].time *
    (kind === "backward" ? BACKWARD : 1), needs.map((need) => `${rank} ${need}`), { id: `${rank} ${kind} ${layer}` });
  const collective = (kind, name, whole, needs, id) => {
    if (ranks === 1) return;
    const bytes = ring(kind, whole, ranks);
    add("network", kind, name, sending(view, bytes), needs.map((need) => `${rank} ${need}`), { bytes, id: `${rank} ${id}`, joint: id });
  };
  return { tasks, compute, collective };
}

function ddp(view, rank, ranks) {
  const { tasks, compute, collective } = rankOf(view, rank, ranks);
  const last = view.layers.length - 1;
  view.layers.forEach((_, i) => compute("forward", i, []));
  view.layers.forEach((_, i) => compute("backward", last - i, []));
  const sizes = view.layers.map((_, i) => view.layers[last - i].bytes);
  buckets(sizes, view.caps).forEach((bucket, k) => {
    const whole = sum(bucket.map((i) => sizes[i]));
    collective("all-reduce", `${k + 1}`, whole, [`backward ${last - bucket.at(-1)}`], `bucket ${k}`);
  });
  return tasks;
}

function fsdp(view, rank, ranks) {
  const { tasks, compute, collective } = rankOf(view, rank, ranks);
  const last = view.layers.length - 1;
  const gather = (id, i, needs) => i >= 0 && i <= last && collective("all-gather", `${i + 1}`, view.layers[i].bytes, needs, `${id} ${i}`);
  const held = (id) => (ranks > 1 ? [id] : []);
  gather("gather", 0, []);
  for (let i = 0; i <= last; i++) {
    compute("forward", i, held(`gather ${i}`));
    gather("gather", i + 1, i ? [`forward ${i - 1}`] : []); // issued when forward i begins
  }
  if (view.reshard) gather("again", last, [`forward ${last}`]);
  for (let i = last; i >= 0; i--) {
    const before = i === last ? `forward ${last}` : `backward ${i + 1}`;
    if (view.reshard) gather("again", i - 1, [before]); // issued when backward i begins
    compute("backward", i, view.reshard ? held(`again ${i}`) : []);
    collective("reduce-scatter", `${i + 1}`, view.layers[i].bytes, [`backward ${i}`], `scatter ${i}`);
  }
  return tasks;
}

function pipeline(view, rank, ranks) {
  const tasks = [];
  const forward = sum(stages(view.layers.length, ranks)[rank].map((i) => view.layers[i].time)) * (ranks / view.parts);
  const bytes = (view.activation * ranks) / view.parts;
  for (const [step, part] of order(view.way, rank, ranks, view.parts)) {
    const [kind, from, to] = step === "F" ? ["forward", rank - 1, rank + 1] : ["backward", rank + 1, rank - 1];
    const inside = (other) => other >= 0 && other < ranks;
    const needs = [...(inside(from) ? [`${from} send ${step}${part}`] : []), ...(step === "B" ? [`${rank} F${part}`] : [])];
    const time = pace(view, rank) * forward * (step === "B" ? BACKWARD : 1);
    tasks.push({ rank, lane: "compute", kind, name: `${part + 1}`, time, needs, bytes: 0, id: `${rank} ${step}${part}` });
    if (inside(to)) tasks.push({ rank, lane: "network", kind: "send", name: `${part + 1}`, time: sending(view, bytes), bytes,
      needs: [`${rank} ${step}${part}`], id: `${rank} send ${step}${part}` });
  }
  return tasks;
}

/** When each task begins: what stands first in its lane waits for what it needs, and a collective
 * for all of its ranks. */
function run(tasks) {
  const [lanes, free, ended, bars] = [new Map(), new Map(), new Map(), []];
  for (const task of tasks) {
    const lane = `${task.lane} ${task.rank}`;
    lanes.set(lane, [...(lanes.get(lane) ?? []), task]);
    free.set(lane, 0);
  }
  const members = (task) => tasks.filter(({ joint }) => joint !== undefined && joint === task.joint);
  const ready = (task) => lanes.get(`${task.lane} ${task.rank}`)[0] === task && task.needs.every((need) => ended.has(need));
  const begin = (task) => Math.max(free.get(`${task.lane} ${task.rank}`), ...task.needs.map((need) => ended.get(need)));
  for (let left = tasks.length; left; ) {
    const before = left;
    for (const queue of lanes.values()) {
      while (queue.length && ready(queue[0])) {
        const together = queue[0].joint === undefined ? [queue[0]] : members(queue[0]);
        if (!together.every(ready)) break;
        const start = Math.max(...together.map(begin));
        for (const task of together) {
          const { rank, lane, kind, name, bytes, time, id } = task;
          bars.push({ rank, lane, kind, name, bytes, start, end: start + time });
          lanes.get(`${lane} ${rank}`).shift();
          free.set(`${lane} ${rank}`, start + time);
          ended.set(id, start + time);
          left--;
        }
      }
    }
    if (left === before) throw new Error("every rank waits for another");
  }
  return bars;
}

const WAYS = { ddp, fsdp, gpipe: pipeline, "1f1b": pipeline };

/** { rank, lane, kind, name, bytes, start, end } of every bar; ms from the beginning of the step. */
export function bars(view) {
  if (view.way === "recorded") return view.recorded;
  const ranks = ranksOf(view);
  return run(Array.from({ length: ranks }, (_, rank) => WAYS[view.way](view, rank, ranks)).flat());
}

/** [start, end] pairs without overlaps, in order. */
export function union(pairs) {
  const joined = [];
  for (const [start, end] of [...pairs].sort((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  return joined;
}

const lengthOf = (pairs) => sum(pairs.map(([start, end]) => end - start));

/** The ms that lie in both of two unions. */
export function common(a, b) {
  return sum(a.flatMap(([start, end]) => b.map(([from, to]) => Math.max(0, Math.min(end, to) - Math.max(start, from)))));
}

/** span: ms of the step; idle: the share of all ranks' time without compute; network: ms on the
 * wire, of all ranks; hidden: the share of it that lies behind compute; sent: bytes of each rank. */
export function measure(view, drawn = bars(view)) {
  const ranks = ranksOf(view);
  const span = Math.max(0, ...drawn.map(({ end }) => end));
  const of = (lane, rank) => union(drawn.filter((bar) => bar.lane === lane && bar.rank === rank).map(({ start, end }) => [start, end]));
  const every = Array.from({ length: ranks }, (_, rank) => [of("compute", rank), of("network", rank)]);
  const network = sum(every.map(([, wire]) => lengthOf(wire)));
  const hidden = sum(every.map(([compute, wire]) => common(compute, wire)));
  const sent = every.map((_, rank) => sum(drawn.filter((bar) => bar.lane === "network" && bar.rank === rank).map(({ bytes }) => bytes)));
  return { span, sent, network, idle: span ? 1 - sum(every.map(([compute]) => lengthOf(compute))) / (span * ranks) : 0,
    hidden: network ? hidden / network : 0 };
}

/** Bytes of parameters that stay on each rank between two steps. */
export function parameters(view) {
  const ranks = ranksOf(view);
  const of = (layers) => sum(layers.map(({ bytes }) => bytes));
  if (view.way === "ddp") return Array(ranks).fill(of(view.layers));
  if (view.way === "fsdp") return Array(ranks).fill(of(view.layers) / ranks);
  return stages(view.layers.length, ranks).map((stage) => of(stage.map((i) => view.layers[i])));
}

/** The most micro-batches that each stage has forwarded and not yet taken back. */
export function inFlight({ way, parts }, ranks) {
  return Array.from({ length: ranks }, (_, rank) => {
    let [now, most] = [0, 0];
    for (const [step] of order(way, rank, ranks, parts)) most = Math.max(most, (now += step === "F" ? 1 : -1));
    return most;
  });
}

// ---- The page.

const MIB = 2 ** 20;
const CAPS = [1, 2, 4, 8, 16, 25, 50, 100, 1000];
const DEFAULT_CAP = 25; // MiB; torch's first bucket then closes at 1 MiB
const LABELS = { ddp: "DDP", fsdp: "FSDP", gpipe: "GPipe", "1f1b": "1F1B", recorded: say("recorded") };
const SAYS = {
  ddp: say("Each rank takes its own rows through all layers. A bucket leaves when its last gradient is there."),
  fsdp: say("Each rank keeps a slice of every layer: gathered before use, one layer ahead, and dropped again. Gradients leave as slices."),
  gpipe: say("Each rank keeps some layers. All micro-batches go forward through them, then all go back."),
  "1f1b": say("The same stages, but a rank takes a micro-batch back as soon as it can, so it keeps fewer."),
  recorded: say("What these ranks did. Between the bars Python ran, or another process had the core."),
};
const OF_LAYER = { forward: say("forward of layer {name}"), backward: say("backward of layer {name}"),
  "all-reduce": say("all-reduce of bucket {name}"), "all-gather": say("all-gather of layer {name}"),
  "reduce-scatter": say("reduce-scatter of layer {name}") };
const OF_PART = { forward: say("forward of micro-batch {name}"), backward: say("backward of micro-batch {name}"),
  send: say("sends micro-batch {name}") };

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const plainName = (kind) => kind.replaceAll("_", "-");
const percent = (share) => `${(100 * share).toFixed(0)} %`;
const ms = (time) => `${time.toLocaleString("en", { maximumFractionDigits: time < 10 ? 2 : 1 })} ms`;
const bytesOf = (n) => (n >= MIB ? `${(n / MIB).toLocaleString("en", { maximumFractionDigits: 1 })} MiB` : say("{n} bytes", { n: Math.round(n).toLocaleString("en") }));
const range = (numbers) => {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  return low === high ? bytesOf(low) : say("{low} to {high}", { low: bytesOf(low), high: bytesOf(high) });
};

/** What a bar is, in words. */
export function told({ kind, name, bytes }, way) {
  const modelled = way === "gpipe" || way === "1f1b" ? OF_PART : OF_LAYER;
  const seen = { wait: say("waits for {name}", { name: plainName(name) }), operators: name };
  const who = way === "recorded" ? seen[kind] ?? plainName(kind) : say(modelled[kind], { name });
  return bytes ? `${who}, ${bytesOf(bytes)}` : who;
}

class Page {
  constructor(model, el) {
    this.model = model;
    this.ways = Object.fromEntries(Object.entries(LABELS).map(([way, words]) => [way,
      h("button", { type: "button", onclick: () => this.write({ way, at: null }) }, words)]));
    this.steppers = {
      ranks: this.stepper(say("ranks"), say("rank"), (by) => ({ ranks: this.view.ranks + by })),
      layers: this.stepper(say("layers"), say("layer"), (by) => this.resized(by)),
      cap: this.stepper(say("bucket"), say("bucket size"), (by) => ({ caps: capped(CAPS[this.cap() + by]) })),
      parts: this.stepper(say("micro-batches"), say("micro-batch"), (by) => ({ parts: this.view.parts + by })),
      speed: this.stepper(say("network"), say("network speed"), (by) => ({ speed: this.view.speed * 2 ** by })),
    };
    this.slow = h("button", { type: "button", onclick: () => this.write({ slow: this.view.slow < 0 ? 1 : -1 }) }, say("rank 1 is slow"));
    this.reshard = h("button", { type: "button", onclick: () => this.write({ reshard: !this.view.reshard }) }, say("drop after forward"));
    this.says = h("p", { class: "says" });
    this.tracks = h("div", { class: "tracks", role: "img" });
    this.time = h("input", { type: "range", min: 0, max: 1000, "aria-label": say("time"), oninput: () => this.write({ at: Number(this.time.value) / 1000 }) });
    this.now = h("p", { class: "now", role: "status" });
    this.numbers = h("div", { class: "numbers" });
    const all = Object.values(this.steppers).map(({ label }) => label);
    this.controls = h("div", { class: "bar" }, ...all, this.reshard, this.slow);
    this.root = h("div", { class: "ol-view ol-timeline", role: "group", "aria-label": say("compute and communication over time") },
      h("div", { class: "bar ways" }, ...Object.values(this.ways)), this.says, this.controls,
      this.tracks, this.time, this.now, this.key = h("p", { class: "key" }), this.numbers);
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

  stepper(words, unit, change) {
    const press = (by, sign, name) => h("button", { type: "button", "aria-label": say(name, { unit }), onclick: () => this.write({ ...change(by), at: null }) }, sign);
    const [fewer, more] = [press(-1, "−", "less {unit}"), press(1, "+", "more {unit}")];
    const count = h("span", { class: "count", "data-of": words });
    return { fewer, more, count, label: h("span", { class: "stepper" }, words, fewer, count, more) };
  }

  /** One layer more, like the last, or less. */
  resized(by) {
    const { layers } = this.view;
    return { layers: by < 0 ? layers.slice(0, -1) : [...layers, layers.at(-1)] };
  }

  /** The place of the present bucket size among those to choose from. */
  cap() {
    const now = this.view.caps[1] / MIB;
    const place = CAPS.findIndex((cap) => cap >= now);
    return place < 0 ? CAPS.length - 1 : place;
  }

  refresh() {
    const { view } = this;
    const drawn = bars(view);
    const numbers = measure(view, drawn);
    const piped = view.way === "gpipe" || view.way === "1f1b";
    for (const [way, button] of Object.entries(this.ways)) {
      button.setAttribute("aria-pressed", String(way === view.way));
      button.hidden = way === "recorded" && !view.recorded.length;
    }
    this.controls.hidden = view.way === "recorded";
    const counts = { ranks: ranksOf(view), layers: view.layers.length, parts: view.parts, speed: `${bytesOf(view.speed)}/ms`,
      cap: CAPS[this.cap()] === CAPS.at(-1) ? say("all") : bytesOf(view.caps[1]) };
    const ends = { ranks: [view.ranks <= 1, view.ranks >= 8], layers: [view.layers.length <= 1, view.layers.length >= 16],
      parts: [view.parts <= 1, view.parts >= 16], speed: [view.speed <= MIB / 16, view.speed >= 64 * MIB], cap: [this.cap() <= 0, this.cap() >= CAPS.length - 1] };
    for (const [name, { fewer, more, count, label }] of Object.entries(this.steppers)) {
      count.textContent = counts[name];
      [fewer.disabled, more.disabled] = ends[name];
      label.hidden = (name === "cap" && view.way !== "ddp") || (name === "parts" && !piped);
    }
    this.reshard.hidden = view.way !== "fsdp";
    this.reshard.setAttribute("aria-pressed", String(view.reshard));
    this.slow.hidden = ranksOf(view) < 2;
    this.slow.setAttribute("aria-pressed", String(view.slow >= 0));
    this.says.textContent = SAYS[view.way];
    this.draw(drawn, numbers);
    this.tell(drawn, numbers);
    this.key.replaceChildren(...[["forward", say("forward")], ["backward", say("backward")],
      ["network", piped ? say("sends") : say("collectives")], ["wait", say("computes nothing")]]
      .filter(([kind]) => view.way !== "recorded" || kind === "network").concat(view.way === "recorded" ? [["compute", say("operators")], ["wait", say("Python waits")]] : [])
      .map(([kind, words]) => h("span", {}, h("i", { class: kind }), words)));
    this.count(numbers, piped);
  }

  draw(drawn, { span }) {
    const ranks = ranksOf(this.view);
    const at = (time) => `${(100 * time) / (span || 1)}%`;
    const bar = (one, place, all) => {
      const { kind, lane, name, start, end } = one;
      const [from, to] = uncovered(one, all.slice(place + 1));
      const style = `left:${at(start)};width:${at(end - start)};padding:0 ${at(end - to)} 0 ${at(from - start)}`;
      return h("span", { class: `${lane} ${kind}`, style }, plainName(name || kind));
    };
    this.tracks.setAttribute("aria-label", say("timeline of {n} ranks", { n: ranks }));
    this.tracks.replaceChildren(...Array.from({ length: ranks }, (_, rank) => {
      const mine = drawn.filter((one) => one.rank === rank);
      const idle = this.view.way === "recorded" ? [] : gaps(mine, span).map(([start, end]) => ({ kind: "wait", lane: "compute", name: "", start, end }));
      const waits = mine.filter(({ lane }) => lane === "wait");
      return h("div", { class: "rank" }, h("b", {}, `rank ${rank}`),
        h("div", { class: "lanes" }, ...[...idle, ...waits, ...mine.filter(({ lane }) => lane !== "wait")].map(bar)));
    }));
    if (this.view.at !== null) {
      for (const lanes of this.tracks.querySelectorAll(".lanes")) lanes.append(h("span", { class: "cursor", style: `left:${100 * this.view.at}%` }));
    }
  }

  tell(drawn, { span }) {
    const { at, way } = this.view;
    this.time.value = Math.round(1000 * (at ?? 0));
    if (at === null) return void (this.now.textContent = say("Move the slider to see what every rank does at one moment."));
    const time = at * span;
    const during = (rank) => drawn.filter((bar) => bar.rank === rank && bar.start <= time && time < bar.end).map((bar) => told(bar, way));
    const all = Array.from({ length: ranksOf(this.view) }, (_, rank) => `rank ${rank}: ${during(rank).join(" | ") || say("nothing")}`);
    this.now.replaceChildren(h("b", {}, ms(time)), ...all.map((words) => h("span", {}, words)));
  }

  count({ span, idle, hidden, network, sent }, piped) {
    const { view } = this;
    const ranks = ranksOf(view);
    const rows = [[say("one step"), ms(span)], [piped ? say("bubble: nothing computed") : say("nothing computed"), percent(idle)],
      [say("communication behind compute"), network ? percent(hidden) : say("none to hide")], [say("a rank sends"), range(sent)]];
    if (view.way !== "recorded") rows.push([say("a rank keeps of the parameters"), range(parameters(view))]);
    if (view.way === "ddp") rows.push([say("buckets"), buckets(view.layers.map(({ bytes }) => bytes).reverse(), view.caps).length]);
    if (piped) rows.push([say("bubble if sends took no time"), `${percent((ranks - 1) / (view.parts + ranks - 1))}`],
      [say("micro-batches kept by rank 0"), say("{n} of {all}", { n: inFlight(view, ranks)[0], all: view.parts })]);
    this.numbers.replaceChildren(...rows.map(([name, value]) => h("div", {}, h("span", {}, name), h("b", {}, value))));
  }
}

/** The limits that DDP takes from a `bucket_cap_mb`: at the default the first bucket is small. */
export const capped = (mib) => [(mib === DEFAULT_CAP ? 1 : mib) * MIB, mib * MIB];

/** [from, to]: what the bars drawn over a bar, in the same row, leave of it up to the first of them;
 * its label stands there. */
export function uncovered({ lane, start, end }, over) {
  let [from, to] = [start, end];
  for (const one of over) {
    if ((one.lane === "network") !== (lane === "network") || one.end <= from || one.start >= to) continue;
    if (one.start <= from) from = Math.min(one.end, to);
    else to = one.start;
  }
  return [from, to];
}

/** When a rank computes nothing, as [start, end] pairs. */
export function gaps(mine, span) {
  const busy = union(mine.filter(({ lane }) => lane === "compute").map(({ start, end }) => [start, end]));
  const [starts, ends] = [[0, ...busy.map(([, end]) => end)], [...busy.map(([start]) => start), span]];
  return starts.map((start, i) => [start, ends[i]]).filter(([start, end]) => end - start > 1e-9);
}
