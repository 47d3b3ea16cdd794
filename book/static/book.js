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

// A guess where no kernel listens: the choices become buttons, the answer says what was guessed, and
// what follows in the section stays closed until then. The browser keeps the guess.
document.addEventListener("DOMContentLoaded", () => {
  const answers = [...document.querySelectorAll(".ol-answer")];
  for (const answer of answers) {
    answer.textContent = answer.textContent.replace(/ No guess yet.*/, "");
  }
  for (const list of document.querySelectorAll(".ol-choices")) {
    const how = list.nextElementSibling; // how to keep a guess in a notebook, with its key
    const place = `guess ${how?.textContent.match(/predict\("([^"]+)"/)?.[1]}`;
    const said = document.createElement("p");
    said.setAttribute("role", "status");
    how?.remove();
    list.previousElementSibling.textContent = "Your guess, before you read on:";
    const buttons = [...list.children].map((item) => withButton(item, item.textContent));
    const show = withButton(list.appendChild(document.createElement("li")), "Show me");
    show.className = "ol-show";
    list.after(said);
    const rest = closed(list.closest(".cell"));
    const below = (node) => list.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING;
    const answer = answers.find(below);

    const commit = (guess) => {
      for (const button of [...buttons, show]) {
        button.setAttribute("aria-pressed", button.textContent === guess);
        button.disabled = true; // the first guess counts
      }
      show.hidden = true;
      rest.removeAttribute("hidden");
      if (guess === show.textContent) return;
      said.textContent = `You said ${guess}. The answer comes below.`;
      if (answer) answer.textContent = `You said ${guess}. ${answer.textContent}`;
    };
    list.addEventListener("click", ({ target }) => {
      if (!buttons.includes(target) && target !== show) return;
      keep(place, target.textContent);
      commit(target.textContent);
    });
    const before = kept(place);
    if ([...buttons, show].some((button) => button.textContent === before)) commit(before);
  }
  openAt(location.hash);
  addEventListener("hashchange", () => openAt(location.hash));
});

function withButton(item, text) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  item.replaceChildren(button);
  return button;
}

// What follows a cell, up to the next heading, in a closed box that "find in page" still looks into.
function closed(cell) {
  const rest = document.createElement("div");
  rest.className = "ol-rest";
  rest.setAttribute("hidden", "until-found");
  while (cell.nextSibling && cell.nextSibling.nodeName !== "SECTION") rest.append(cell.nextSibling);
  cell.after(rest);
  return rest;
}

function openAt(hash) {
  let box = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
  while ((box = box && box.closest(".ol-rest[hidden]"))) box.removeAttribute("hidden");
}

// A browser may forbid to keep anything; then a guess lasts as long as the page.
function keep(place, text) {
  try { localStorage.setItem(place, text); } catch {}
}

function kept(place) {
  try { return localStorage.getItem(place); } catch { return null; }
}
