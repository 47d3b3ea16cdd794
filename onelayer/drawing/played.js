
// What every view shares, behind its own source, which has the class Page.

function render({ model, el }) {
  const page = new Page(model, el);
  el.addEventListener("keydown", keepFromNotebook);
  return () => page.redraw && model.off("change:view", page.redraw);
}

/** JupyterLab would take arrows and letters for its own: they would choose, move and make cells. What
 * runs a cell, leaves the view or is pressed with Ctrl or Meta stays JupyterLab's. */
function keepFromNotebook(event) {
  const runs = event.key === "Enter" && event.shiftKey;
  if (!runs && event.key !== "Escape" && !event.ctrlKey && !event.metaKey) event.stopPropagation();
}

/** A text in the reader's language, with its fields: say("{n} floats", { n: 3 }). WORDS stands on top
 * of the script; what it lacks is said in English. */
function say(english, fields = {}) {
  return (WORDS[english] ?? english).replace(/\{(\w+)\}/g, (whole, name) => fields[name] ?? whole);
}

/** One text or the other, whichever fits n. `shown` is how n is written. */
function counted(n, one, many, shown = n) {
  return say(n === 1 ? one : many, { n: shown });
}

/** A model for a page without a kernel, with the few methods that a page uses. */
export function standalone(view) {
  const state = { view };
  const listeners = new Set();
  return {
    get: (name) => state[name],
    set: (name, value) => {
      state[name] = value;
      for (const listener of listeners) listener();
    },
    save_changes: () => {},
    on: (event, listener) => listeners.add(listener),
    off: (event, listener) => listeners.delete(listener),
  };
}

export default { render };
