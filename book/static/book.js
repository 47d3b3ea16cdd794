// What is said here, in the language of the site.
const WORDS = window.OL_WORDS;
const said = (guess) => WORDS.said.replace("{}", guess);

// Names for what the theme leaves without one, so that a screen reader can say them.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll("nav summary")) {
    const above = summary.closest("li")?.querySelector("a");
    summary.setAttribute("aria-label", WORDS.pages_below.replace("{}", above ? above.textContent.trim() : "this"));
  }
  const home = document.querySelector(".navbar-brand")?.parentElement;
  home?.setAttribute("role", "navigation");
  home?.setAttribute("aria-label", WORDS.home);
});

// A table that a phone cannot hold becomes a list of its rows, each value with the name of its column.
// Letters that draw (a box, columns) keep their lines, which a phone would wrap.
document.addEventListener("DOMContentLoaded", () => {
  for (const pre of document.querySelectorAll("article .highlight-text pre")) {
    if (/[\u2500-\u257f]|\S {5,}\S/.test(pre.textContent)) pre.classList.add("ol-drawn");
  }
  // So does a table of numbers that a cell printed (four columns of them), or a schedule of dots and digits.
  const isRow = (line) => (line.match(/\S {2,}(?=[-\d])/g) ?? []).length > 3 || /(?: [.\d]){12}/.test(line);
  for (const pre of document.querySelectorAll("article .cell_output pre")) {
    const rows = pre.textContent.split("\n").filter(isRow);
    if (rows.length < 3) continue;
    pre.classList.add("ol-drawn");
    pre.tabIndex = 0;
  }
  const tables = [...document.querySelectorAll("article .pst-scrollable-table-container table")];
  for (const table of tables) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, place) => {
        cell.dataset.head = heads[place] ?? "";
        const value = document.createElement("div");
        value.append(...cell.childNodes);
        cell.append(value);
      });
    }
  }
  // A long name may break where its words end; on a phone a table with one is a list, and it need not.
  for (const name of document.querySelectorAll(".pst-scrollable-table-container td :is(.pre, a), .ol-card th code")) {
    if (name.children.length || name.textContent.length < (name.closest(".ol-card") ? 10 : 24)) continue;
    const parts = name.textContent.split(/(?<=[_\/])(?=\w)/);
    name.replaceChildren(...parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
  }
  // A table that fits only with a column of one word in each line is no better than one that does not.
  const isPressed = (cell) => cell.clientWidth < 90 && cell.clientHeight > 120;
  const fit = () => {
    for (const picture of document.querySelectorAll(".onelayer-sketch")) {
      const isShrunk = (one) => one.clientWidth && one.clientWidth < 0.9 * one.getAttribute("width");
      picture.classList.toggle("ol-shrunk", [...picture.querySelectorAll("img")].some(isShrunk));
    }
    for (const table of tables) {
      table.classList.remove("ol-rows");
      const isWide = table.scrollWidth > table.parentElement.clientWidth;
      const isTight = isWide || [...table.querySelectorAll("tbody td")].some(isPressed);
      table.classList.toggle("ol-rows", innerWidth <= 600 && isTight);
    }
  };
  fit();
  addEventListener("load", fit); // pictures have their sizes
  addEventListener("resize", fit);
});

// "--" above "lab" is read as two words, and "6e-" above "8" as a difference: both stay whole.
document.addEventListener("DOMContentLoaded", () => {
  const whole = /((?<![\w-])--?[a-z][\w-]{1,30}|\d(?:\.\d+)?e-\d+)/;
  const walk = document.createTreeWalker(document.querySelector("article") ?? document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walk.nextNode()) {
    const { data, parentElement } = walk.currentNode;
    if (whole.test(data) && !parentElement.closest("svg, script, style, textarea")) found.push(walk.currentNode);
  }
  for (const text of found) {
    const parts = text.data.split(whole).map((part, place) => {
      if (place % 2 === 0) return part; // what stands between
      const word = document.createElement("span");
      word.className = "ol-whole";
      word.textContent = part;
      return word;
    });
    text.replaceWith(...parts);
  }
});

// A guess where no kernel listens: the choices become buttons, the answer says what was guessed, and
// what follows in the section stays closed until then. The browser keeps the guess.
document.addEventListener("DOMContentLoaded", () => {
  const answers = [...document.querySelectorAll(".ol-answer")];
  for (const answer of answers) {
    answer.textContent = answer.textContent.split(` ${WORDS.unguessed}`)[0];
  }
  for (const list of document.querySelectorAll(".ol-choices")) {
    const how = list.nextElementSibling; // how to keep a guess in a notebook, with its key
    const place = `guess ${how?.textContent.match(/predict\("([^"]+)"/)?.[1]}`;
    const status = document.createElement("p");
    status.setAttribute("role", "status");
    how?.remove();
    list.previousElementSibling.textContent = WORDS.before;
    const buttons = [...list.children].map((item) => withButton(item, item.textContent));
    const show = withButton(list.appendChild(document.createElement("li")), WORDS.show);
    show.className = "ol-show";
    list.after(status);
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
      status.textContent = `${said(guess)} ${WORDS.below}`;
      if (!answer) return;
      answer.textContent = `${said(guess)} ${answer.textContent}`;
      for (const line of answer.closest(".ol-card").querySelectorAll(".ol-line")) {
        line.hidden = line.dataset.guess !== guess; // what is behind a tempting wrong one
      }
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

// Each page of code can be copied.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll(".cell_input div.highlight, .bd-article > section div.highlight")) {
    if (block.closest(".cell_output") || block.querySelector(".ol-copy")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "ol-copy";
    button.textContent = WORDS.copy;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.querySelector("pre").innerText);
        button.textContent = WORDS.copied;
      } catch {
        button.textContent = WORDS.not_allowed; // a browser may forbid it to a file
      }
      setTimeout(() => { button.textContent = WORDS.copy; }, 1500);
    });
    block.append(button);
  }
});

// What the reader of a unit has done: the guesses that this browser keeps, and a lab's tick.
document.addEventListener("DOMContentLoaded", () => {
  for (const link of document.querySelectorAll(".bd-sidenav li.toctree-l2 > a")) {
    if (/^Lab \d/.test(link.textContent.trim())) link.parentElement.classList.add("ol-lab");
  }
  for (const line of document.querySelectorAll(".ol-done")) {
    const asked = line.dataset.guesses.split(" ").filter(Boolean);
    const made = asked.filter((key) => kept(`guess ${key}`) !== null).length;
    const tick = document.createElement("input");
    const place = `lab ${line.dataset.unit}`;
    tick.type = "checkbox";
    tick.checked = kept(place) === "solved";
    tick.addEventListener("change", () => keep(place, tick.checked ? "solved" : ""));
    const label = document.createElement("label");
    label.append(tick, ` I have solved lab ${line.dataset.unit}`);
    line.append(`${made} of ${asked.length} guesses made. `, label);
  }
});

// Whoever prints a chapter, or reads it again, opens every answer at once.
document.addEventListener("DOMContentLoaded", () => {
  const title = document.querySelector("article h1");
  if (!title || !document.querySelector(".ol-rest[hidden]")) return;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "ol-open-all";
  button.textContent = WORDS.open_all;
  button.addEventListener("click", () => {
    document.querySelectorAll(".ol-rest[hidden]").forEach((box) => box.removeAttribute("hidden"));
    button.remove();
  });
  (title.nextElementSibling ?? title).after(button);
});

function withButton(item, text) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  item.replaceChildren(button);
  return button;
}

// The cells of a guess's answer, which book/pages.py marks, in a closed box that "find in page" still
// looks into. Their prose is behind a line of its own in the notebook, which one box makes needless.
function closed(cell) {
  const rest = document.createElement("div");
  rest.className = "ol-rest";
  rest.setAttribute("hidden", "until-found");
  const isAnswer = (node) => node && (node.nodeType !== Node.ELEMENT_NODE || node.matches(".tag_ol-answered, .ol-answered"));
  while (isAnswer(cell.nextSibling)) rest.append(cell.nextSibling);
  for (const fold of rest.querySelectorAll("details.ol-answered")) {
    fold.firstElementChild.remove();
    fold.replaceWith(...fold.childNodes);
  }
  cell.dataset.closed = WORDS.closed; // what paper has in its place
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

// The door to the same page in another language leads to the same section of it.
document.addEventListener("DOMContentLoaded", () => {
  const sections = () => [...document.querySelectorAll("article section")];
  const place = /^#section-(\d+)$/.exec(location.hash)?.[1];
  if (place) sections()[place]?.scrollIntoView();
  const doors = [...document.querySelectorAll(".ol-door")];
  // Whose browser speaks one of the other languages comes to that front page first, once.
  const { lang, dataset } = document.documentElement;
  const isFront = lang === "en" && dataset.content_root === "./" && /(\/|index\.html)$/.test(location.pathname);
  const asked = doors.find((way) => navigator.language?.startsWith(way.hreflang));
  if (isFront && asked && kept("language") === null) {
    keep("language", asked.hreflang);
    location.replace(asked.href);
  }
  for (const way of doors) {
    way.addEventListener("click", () => {
      keep("language", way.hreflang);
      const here = sections().findLastIndex((one) => one.getBoundingClientRect().top < 160);
      way.hash = here > 0 ? `section-${here}` : "";
    });
  }
});

// The theme keeps how far the side bar was scrolled: on the next page its own line may be out of sight.
window.addEventListener("load", () => {
  const bar = document.querySelector(".bd-sidebar-primary");
  const line = [...(bar?.querySelectorAll("li.current > a") ?? [])].at(-1);
  if (!line) return;
  const [seen, own] = [bar.getBoundingClientRect(), line.getBoundingClientRect()];
  const isSeen = own.top >= seen.top && own.bottom <= Math.min(seen.bottom, innerHeight);
  if (!isSeen) bar.scrollTop += own.top - seen.top - bar.clientHeight / 3;
});
