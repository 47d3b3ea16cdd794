// Names for what the theme leaves without one, so that a screen reader can say them.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll("nav summary")) {
    const above = summary.closest("li")?.querySelector("a");
    summary.setAttribute("aria-label", `Pages below ${above ? above.textContent.trim() : "this"}`);
  }
  const home = document.querySelector(".navbar-brand")?.parentElement;
  home?.setAttribute("role", "navigation");
  home?.setAttribute("aria-label", "Home");
});

// A guess where no kernel listens: the choices become buttons, and the answer says what was guessed.
document.addEventListener("DOMContentLoaded", () => {
  const answers = [...document.querySelectorAll(".ol-answer")];
  for (const list of document.querySelectorAll(".ol-choices")) {
    const below = (node) => list.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING;
    const answer = answers.find(below);
    const said = document.createElement("p");
    said.setAttribute("role", "status");
    list.nextElementSibling?.remove(); // how to keep a guess in a notebook
    list.after(said);
    const buttons = [...list.children].map((item) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = item.textContent;
      item.replaceChildren(button);
      return button;
    });
    list.addEventListener("click", ({ target }) => {
      if (!buttons.includes(target)) return;
      for (const button of buttons) {
        button.setAttribute("aria-pressed", button === target);
        button.disabled = true; // the first guess counts
      }
      said.textContent = `You said ${target.textContent}. The answer comes below.`;
      const told = answer?.textContent.replace(/ No guess yet.*/, "");
      if (answer) answer.textContent = `You said ${target.textContent}. ${told}`;
    });
  }
});
