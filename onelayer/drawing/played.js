
// What every view shares, behind its own source, which has the class Page.

function render({ model, el }) {
  const page = new Page(model, el);
  return () => page.redraw && model.off("change:view", page.redraw);
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
