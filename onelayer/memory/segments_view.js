// The allocator's segments over time: what is held after each step.
//
// First the arithmetic, pure and tested against the allocator. Then the page. No dependencies.
//
// A view is { before, steps, at }. before: the segments at the start, { address, bytes, stream,
// tensors }, tensors as [address, bytes]. steps: [kind, address, bytes, stream, phase], kind "grow"
// (cudaMalloc), "shrink" (cudaFree), "map" or "unmap" (pages of a segment that can grow), "alloc" or
// "free". at: how many steps have been played.

/** The segments after `at` steps, by address; each with its tensors by address. */
export function segmentsAt({ before, steps }, at) {
  const held = before.map((segment) => ({ ...segment, tensors: segment.tensors.map((t) => [...t]) }));
  const home = (address) => held.find((s) => s.address <= address && address < s.address + s.bytes);
  for (const [kind, address, bytes, stream] of steps.slice(0, at)) {
    if (kind === "grow") held.push({ address, bytes, stream, tensors: [] });
    else if (kind === "shrink") held.splice(held.findIndex((s) => s.address === address), 1);
    else if (kind === "map") {
      const below = held.find((s) => s.address + s.bytes === address && s.grows);
      if (below) below.bytes += bytes;
      else held.push({ address, bytes, stream, tensors: [], grows: true });
    } else if (kind === "unmap") {
      const whole = home(address);
      whole.bytes = address - whole.address;
      if (!whole.bytes) held.splice(held.indexOf(whole), 1);
    } else if (kind === "alloc") home(address)?.tensors.push([address, bytes]);
    else {
      const tensors = home(address)?.tensors ?? [];
      tensors.splice(tensors.findIndex(([a]) => a === address), 1);
    }
  }
  for (const { tensors } of held) tensors.sort(([a], [b]) => a - b);
  return held.sort((a, b) => a.address - b.address);
}

const total = (numbers) => numbers.reduce((sum, n) => sum + n, 0);

/** used: bytes that tensors asked for; reserved: of all segments; largest: the longest free stretch. */
export function sums(segments) {
  const gaps = segments.flatMap(({ address, bytes, tensors }) => {
    const ends = [address, ...tensors.map(([a, n]) => a + n)];
    const starts = [...tensors.map(([a]) => a), address + bytes];
    return starts.map((start, i) => start - ends[i]);
  });
  return { used: total(segments.flatMap(({ tensors }) => tensors.map(([, n]) => n))),
    reserved: total(segments.map(({ bytes }) => bytes)), largest: Math.max(0, ...gaps) };
}

/** Bytes reserved and in use after each number of steps, from 0 on. */
export function overTime({ before, steps }) {
  let { used, reserved } = sums(before);
  return [[used, reserved], ...steps.map(([kind, , bytes]) => {
    used += kind === "alloc" ? bytes : kind === "free" ? -bytes : 0;
    reserved += kind === "grow" || kind === "map" ? bytes : kind === "shrink" || kind === "unmap" ? -bytes : 0;
    return [used, reserved];
  })];
}

const DID = { grow: "cudaMalloc gives a segment of {n} bytes", shrink: "cudaFree takes back a segment of {n} bytes",
  map: "a segment grows by {n} bytes", unmap: "a segment gives back {n} bytes",
  alloc: "a tensor asks for {n} bytes", free: "a tensor gives back {n} bytes" };

/** What a step did, in words. */
export function sentence([kind, , bytes, stream, phase]) {
  const where = stream ? say(", stream {stream}", { stream }) : "";
  return `${say(DID[kind], { n: bytes.toLocaleString("en") })} (${phase}${where})`;
}

// ---- The page.

const CHART = { width: 720, height: 90, left: 8, right: 8, top: 18, bottom: 4 };

function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function s(tag, attributes = {}, ...children) {
  const example = document.createElement("template");
  example.innerHTML = "<svg></svg>"; // the page knows the namespace: no address needs to stand here
  return filled(document.createElementNS(example.content.firstChild.namespaceURI, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const mib = (n) => `${(n / 2 ** 20).toFixed(n < 2 ** 20 * 10 ? 2 : 1)} MiB`;

class Page {
  constructor(model, el) {
    this.model = model;
    const button = (words, press) => h("button", { type: "button", onclick: press }, words);
    this.back = button(say("one back"), () => this.go(this.view.at - 1));
    this.next = button(say("next step"), () => this.go(this.view.at + 1));
    this.fullest = button(say("most reserved"), () => this.go(this.peak()));
    this.slider = h("input", { type: "range", min: 0, step: 1, "aria-label": say("step"),
      oninput: () => this.go(Number(this.slider.value)) });
    this.says = h("p", { class: "says", role: "status" });
    this.numbers = h("div", { class: "numbers" });
    this.rows = h("ol", { class: "rows", "aria-label": say("segments") });
    this.chart = h("figure", { class: "chart" });
    this.root = h("div", { class: "ol-view ol-segments", role: "group", "aria-label": say("segments of the allocator, step by step") },
      h("div", { class: "bar" }, this.back, this.next, this.fullest), this.slider, this.says, this.numbers,
      h("p", { class: "legend" }, h("span", { class: "key used" }), say("a tensor "), h("span", { class: "key new" }),
        say("the one of this step "), h("span", { class: "key free" }), say("reserved and free. A row is what one cudaMalloc gave.")),
      this.rows, this.chart);
    el.append(this.root);
    this.redraw = () => this.refresh();
    model.on("change:view", this.redraw);
    this.refresh();
  }

  get view() {
    return this.model.get("view");
  }

  peak() {
    const reserved = overTime(this.view).map(([, n]) => n);
    return reserved.indexOf(Math.max(...reserved));
  }

  go(at) {
    this.model.set("view", { ...this.view, at: Math.min(Math.max(at, 0), this.view.steps.length) });
    this.model.save_changes();
    this.refresh();
  }

  refresh() {
    const { steps, at } = this.view;
    const segments = segmentsAt(this.view, at);
    this.back.disabled = at === 0;
    this.next.disabled = at === steps.length;
    this.slider.max = steps.length;
    this.slider.value = at;
    this.says.textContent = at === 0 ? say("{n} steps. Nothing was asked for yet.", { n: steps.length })
      : say("{at} of {n}: {what}", { at, n: steps.length, what: sentence(steps[at - 1]) });
    const { used, reserved, largest } = sums(segments);
    const rows = [[say("in use"), mib(used)], [say("reserved"), mib(reserved)], [say("free, in all"), mib(reserved - used)],
      [say("largest free stretch"), mib(largest)]];
    this.numbers.replaceChildren(...rows.map(([name, value]) => h("div", {}, h("span", {}, name), h("b", {}, value))));
    this.drawRows(segments, at ? steps[at - 1] : null);
    this.chart.replaceChildren(this.drawChart());
  }

  drawRows(segments, step) {
    const longest = Math.max(...segments.map(({ bytes }) => bytes), 1);
    const current = step && step[0] === "alloc" ? step[1] : null;
    const percent = (n, of) => `${(100 * n) / of}%`;
    this.rows.replaceChildren(...segments.map(({ address, bytes, stream, tensors }) => {
      const blocks = tensors.map(([at, n]) => h("span", { class: `tensor${at === current ? " new" : ""}`,
        title: say("{n} bytes", { n: n.toLocaleString("en") }),
        style: `left:${percent(at - address, bytes)};width:max(2px,${percent(n, bytes)})` }));
      const name = `${mib(bytes)}${stream ? say(", stream {stream}", { stream }) : ""}`;
      return h("li", {}, h("span", { class: "name" }, name),
        h("span", { class: "place" }, h("span", { class: "segment", style: `width:max(3%,${percent(bytes, longest)})`,
          role: "img", "aria-label": `${name}: ${counted(tensors.length, "{n} tensor", "{n} tensors")}` }, ...blocks)));
    }));
  }

  drawChart() {
    const times = overTime(this.view);
    const most = Math.max(...times.map(([, reserved]) => reserved), 1);
    const [wide, tall] = [CHART.width - CHART.left - CHART.right, CHART.height - CHART.top - CHART.bottom];
    const x = (i) => CHART.left + (wide * i) / Math.max(times.length - 1, 1);
    const y = (n) => CHART.top + tall - (tall * n) / most;
    const area = (k) => `M${x(0)} ${y(0)}${times.map((t, i) => `L${x(i)} ${y(t[k])}`).join("")}L${x(times.length - 1)} ${y(0)}Z`;
    return s("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img", "aria-label": say("bytes over the steps") },
      s("text", { x: CHART.left, y: 11 }, say("reserved (light) and in use (dark) after each step; at most {most} reserved", { most: mib(most) })),
      s("path", { class: "reserved", d: area(1) }), s("path", { class: "used", d: area(0) }),
      s("path", { class: "here", d: `M${x(this.view.at)} ${CHART.top}V${CHART.height - CHART.bottom}` }));
  }
}
