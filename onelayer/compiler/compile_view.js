// One function at every station of torch.compile: what belongs to the same captured call lights up
// in every column. The links came from torch; here they are only followed. No dependencies.
//
// A view is { title, ops, columns, picked, entry }: the captured calls in order; a column is
// { name, entries } and an entry { text, ops, side, small, full }; the calls that are lit; which
// entry is shown in full, as [column, place], or null.

/** For each column, the places of the entries that belong to a picked call. */
export function lit(view, picked) {
  return view.columns.map(({ entries }) =>
    entries.flatMap((entry, k) => (entry.ops.some((op) => picked.includes(op)) ? [k] : [])));
}

/** The view after a step of `by` calls, from the first that is picked; it stops at either end. */
export function stepped(view, by) {
  const from = view.ops.findIndex((op) => view.picked.includes(op));
  const at = Math.min(Math.max(from + by, 0), view.ops.length - 1);
  return { ...view, picked: view.ops.slice(at, at + 1), entry: null };
}

/** The view after a click on an entry: its calls are picked, and it is shown in full. */
export function clicked(view, column, place) {
  const { ops } = view.columns[column].entries[place];
  return { ...view, picked: ops.length ? ops : view.picked, entry: [column, place] };
}

/** What a step says: the picked calls, and how many entries each station has for them. */
export function told(view) {
  const found = lit(view, view.picked);
  const counts = view.columns.map(({ name }, k) => say("{n} in {column}", { n: found[k].length, column: name }));
  return `${view.picked.join(", ") || say("nothing picked")}: ${counts.join(", ")}`;
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
    this.model = model;
    const view = model.get("view");
    this.entries = view.columns.map((column, k) => column.entries.map((e, place) => this.entry(e, k, place)));
    this.back = h("button", { type: "button", onclick: () => this.write(stepped(this.view, -1)) }, say("call before"));
    this.next = h("button", { type: "button", onclick: () => this.write(stepped(this.view, 1)) }, say("next call"));
    this.says = h("p", { class: "says", role: "status" });
    this.full = h("pre", { class: "full", tabindex: 0, "aria-label": say("the entry in full") });
    const columns = view.columns.map((column, k) => h("section", { class: `column ${column.name}` },
      h("div", { class: "name" }, column.name), h("ol", { "aria-label": column.name }, ...this.entries[k].map((b) => h("li", {}, b)))));
    el.append(h("div", { class: "ol-view ol-compile", role: "group", "aria-label": view.title },
      h("div", { class: "bar" }, this.back, this.next, this.says),
      columns[0], h("div", { class: "stations" }, ...columns.slice(1)), this.full));
    this.redraw = () => this.refresh();
    model.on("change:view", this.redraw);
    this.refresh();
  }

  get view() { return this.model.get("view"); }

  write(view) {
    this.model.set("view", view);
    this.model.save_changes();
    this.refresh();
  }

  entry(entry, column, place) {
    const light = (picked) => this.light(picked, "near");
    return h("button", { type: "button", class: `entry ${entry.side}`,
      onclick: () => this.write(clicked(this.view, column, place)),
      onmouseenter: () => light(entry.ops), onmouseleave: () => light([]) },
      h("code", {}, entry.text), entry.small ? h("span", { class: "small" }, entry.small) : null,
      entry.side === "backward" ? h("span", { class: "tag" }, say("backward")) : null);
  }

  light(picked, kind) {
    const found = lit(this.view, picked);
    this.entries.forEach((column, k) => column.forEach((button, place) =>
      button.classList.toggle(kind, found[k].includes(place))));
  }

  refresh() {
    const view = this.view;
    this.light(view.picked, "lit");
    const found = lit(view, view.picked);
    this.entries.forEach((column, k) => {
      column.forEach((button, place) => {
        button.setAttribute("aria-pressed", String(found[k].includes(place)));
        button.classList.toggle("shown", view.entry?.[0] === k && view.entry[1] === place);
      });
      const list = column[0]?.closest("ol"); // scrolls its own column, and never the page
      if (list && found[k].length && k > 0 && view.entry?.[0] !== k) {
        const first = column[found[k][0]];
        list.scrollTop += first.getBoundingClientRect().top - list.getBoundingClientRect().top - 8;
      }
    });
    this.says.textContent = told(view);
    const at = view.ops.findIndex((op) => view.picked.includes(op));
    this.back.disabled = at <= 0;
    this.next.disabled = at === view.ops.length - 1;
    const shown = view.entry && view.columns[view.entry[0]].entries[view.entry[1]];
    this.full.textContent = shown ? shown.full.trim() : "";
    this.full.hidden = !shown;
  }
}
