// The first page: a sentence in, 600 scores out, and the floors that the one call goes through.
// living_model.js computes, living_weights.js (written with the site) holds what it computes with. What
// is said stands in the page, in its language: book/front/en.toml and its like.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const root = document.getElementById("living");
  if (!root || !window.LIVING) return;
  const { softmax, load, CONTEXT, D } = LivingModel;
  const model = load(window.LIVING);
  const V = model.words.length;
  const PRESETS = [
    "<en> she has eaten <es> ella", "<es> yo canto <en>", "<en> <perfect> open <es> ella ha",
    "<en> we will speak <es> nosotros", "<es> ellas están durmiendo <en> they are",
  ];
  const find = (selector) => root.querySelector(selector);
  const input = find("#living-text"), said = find(".living-said"), top = find(".living-top");
  const scores = find(".living-scores"), ranks = find(".living-ranks input");
  const SENTENCES = JSON.parse(find(".living-sentences").textContent);
  let state = null, chosen = null; // what the last sentence gave; the word that is followed down

  const escape = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
  const percent = (p) => (p >= 0.0005 ? `${(100 * p).toFixed(1)} %` : "0 %");
  const bytes = (n) => n.toLocaleString("en-US");
  // A sentence with its facts. Of two forms, the first is for one.
  const say = (name, facts = {}) => {
    const form = SENTENCES[name];
    const sentence = Array.isArray(form) ? form[facts.n === 1 ? 0 : 1] : form;
    return sentence.replace(/\{(\w+)\}/g, (_, fact) => facts[fact]);
  };
  const word = (i) => `<b>${escape(model.words[i])}</b>`;
  const order = (values) => [...values.keys()].sort((a, b) => values[b] - values[a]);

  function floor(name, sentence, picture) {
    const place = find(`[data-floor="${name}"]`);
    place.querySelector("p").innerHTML = sentence;
    place.querySelector("div:last-child").innerHTML = picture;
  }

  const drawn = (width, height, inner, label) =>
    `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}">${inner}</svg>`;

  // Bars on a line in the middle, up for more than 0: `values` as they are, the largest full height.
  function bars(values, label, height = 44) {
    const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-30), wide = 600 / values.length;
    const one = (value, i) => {
      const tall = (Math.abs(value) / most) * (height / 2 - 1);
      const y = value > 0 ? height / 2 - tall : height / 2;
      return `<rect class="${value > 0 ? "up" : "down"}" x="${i * wide}" y="${y}" width="${wide * 0.8}" height="${tall}"/>`;
    };
    return drawn(600, height, [...values].map(one).join(""), label);
  }

  function python({ N, x }) {
    floor("python",
      say("python", { n: N, words: say("words", { n: N }) }), bars(x, say("entering")));
  }

  function dispatcher({ N }) {
    const step = (name, key, depth) =>
      `<div class="living-step" style="margin-left:${depth * 1.1}rem"><code>${name}</code> <span>${key}</span></div>`;
    floor("dispatcher",
      say("dispatcher", { flop: bytes(2 * N * V * D) }),
      step("aten::linear", say("linear"), 0) + step("aten::t", say("transposed"), 1) +
      step("aten::addmm", say("autograd_key"), 1) + step("aten::addmm", say("cpu_key", { n: N }), 2));
  }

  function autograd({ p }, i) {
    const gradient = Float64Array.from(p, (share, j) => share - (j === i ? 1 : 0));
    const most = order(gradient.map(Math.abs)).slice(0, 5);
    floor("autograd",
      say("autograd", { word: word(i), p: p[i].toPrecision(3), loss: (-Math.log(p[i])).toFixed(3) }),
      `<ul class="living-list">${most.map((j) => `<li>${word(j)} <code>${gradient[j].toExponential(2)}</code></li>`).join("")}</ul>`);
  }

  function kernel({ x, z }, i) {
    const sums = new Float64Array(D + 1);
    sums[0] = model.bias[i];
    for (let j = 0; j < D; j++) sums[j + 1] = sums[j] + x[j] * model.weight[i * D + j];
    const score = z[i].toFixed(3);
    floor("kernel",
      say("kernel", { word: word(i), bias: sums[0].toFixed(3), score }), bars(sums, say("running", { score })));
  }

  function memory({ N }, i) {
    const at = (600 * i) / V;
    const strip = `<rect class="all" width="600" height="16" y="4"/><rect class="up" x="${at}" y="0" width="2" height="24"/>`;
    floor("memory",
      say("memory", {
        bytes: bytes(4 * V * D), word: word(i), first: bytes(4 * D * i), last: bytes(4 * D * (i + 1) - 1),
        words: say("words", { n: N }), scores: bytes(4 * N * V),
      }),
      drawn(600, 24, strip, say("row", { row: i })));
  }

  const BLOCK = 64; // columns at a time; the last block has only 24, which a mask must know
  function compiler({ N, z }) {
    let most = -Infinity, sum = 0;
    const seen = [];
    for (let start = 0; start < V; start += BLOCK) {
      const part = z.subarray(start, start + BLOCK);
      const higher = part.reduce((a, b) => Math.max(a, b), most);
      sum = sum * Math.exp(most - higher) + part.reduce((a, b) => a + Math.exp(b - higher), 0);
      most = higher;
      seen.push(most + Math.log(sum));
    }
    floor("compiler",
      say("compiler", { block: BLOCK, bytes: bytes(4 * N * V), blocks: seen.length, left: V % BLOCK }),
      `<ul class="living-list">${seen.map((value) => `<li><code>${value.toFixed(4)}</code></li>`).join("")}</ul>`);
  }

  function perRank({ z }) {
    const count = Number(ranks.value), rows = Math.ceil(V / count);
    root.querySelector(".living-ranks output").textContent = count;
    const shards = Array.from({ length: count }, (_, r) => z.subarray(r * rows, Math.min(V, (r + 1) * rows)));
    const largest = shards.map((shard) => shard.reduce((a, b) => Math.max(a, b), -Infinity));
    const most = Math.max(...largest);
    const sums = shards.map((shard) => shard.reduce((a, b) => a + Math.exp(b - most), 0));
    const all = sums.reduce((a, b) => a + b, 0);
    const row = (r) => `<tr><th scope="row">${r}</th><td>${shards[r].length}</td><td>${largest[r].toFixed(3)}</td><td>${percent(sums[r] / all)}</td></tr>`;
    const heads = ["rank", "rows", "largest", "part"].map((name) => `<th scope="col">${say(name)}</th>`);
    floor("ranks",
      say("ranks", { n: count, loss: (most + Math.log(all)).toFixed(4) }),
      `<table><thead><tr>${heads.join("")}</tr></thead><tbody>${shards.map((_, r) => row(r)).join("")}</tbody></table>`);
  }

  const ACROSS = 50, SIDE = 600 / ACROSS, TALL = 15;
  function draw() {
    const { p, z } = state, first = order(p).slice(0, 5), i = chosen ?? first[0];
    const least = Math.min(...z), range = Math.max(...z) - least;
    scores.innerHTML = [...z].map((score, j) => {
      const x = (j % ACROSS) * SIDE, y = Math.floor(j / ACROSS) * TALL;
      return `<rect data-row="${j}" class="${j === i ? "chosen" : "score"}" style="--p:${((score - least) / range).toFixed(3)}" x="${x}" y="${y}" width="${SIDE - 1}" height="${TALL - 1}"><title>${say("score", { word: escape(model.words[j]), score: score.toFixed(2), share: percent(p[j]) })}</title></rect>`;
    }).join("");
    top.innerHTML = first.map((j) => `<li><button type="button" data-row="${j}" aria-pressed="${j === i}"><span>${escape(model.words[j])}</span><span>${percent(p[j])}</span><i style="width:${100 * p[j]}%"></i></button></li>`).join("");
    python(state); dispatcher(state); autograd(state, i); kernel(state, i);
    memory(state, i); compiler(state); perRank(state);
  }

  function ask() {
    const words = input.value.normalize("NFC").trim().split(/\s+/).filter(Boolean);
    const strange = words.find((one) => !model.index.has(one));
    if (strange !== undefined) { said.textContent = say("strange", { word: strange }); return; }
    if (words.length === 0) { said.textContent = say("begin"); return; }
    if (words.length > CONTEXT) { said.textContent = say("too_long", { most: CONTEXT }); return; }
    const clause = model.unasked(words);
    if (clause !== undefined) {
      const [one, other] = model.ambiguous[clause];
      said.textContent = say("ambiguous", { clause, one, other });
      return;
    }
    const rows = model.hidden(words.map((one) => model.index.get(one)));
    const x = rows[rows.length - 1], z = model.scores(x), p = softmax(z);
    state = { N: words.length, x, z, p };
    chosen = null;
    const best = order(p)[0];
    said.textContent = say("next", { word: model.words[best], share: percent(p[best]) });
    draw();
  }

  function follow({ target }) {
    const row = target.closest("[data-row]");
    if (!row || !state) return;
    chosen = Number(row.dataset.row);
    draw();
    top.querySelector('[aria-pressed="true"]')?.focus();
  }

  find("#living-words").innerHTML = model.words.map((one) => `<option value="${escape(one)}">`).join("");
  find(".living-presets").innerHTML = PRESETS.map((text) => `<button type="button">${escape(text)}</button>`).join("");
  find(".living-presets").addEventListener("click", ({ target }) => {
    if (target.tagName !== "BUTTON") return;
    input.value = target.textContent;
    ask();
  });
  input.addEventListener("input", ask);
  ranks.addEventListener("input", () => state && perRank(state));
  scores.addEventListener("click", follow);
  top.addEventListener("click", follow);
  window.livingScores = () => [...state.z]; // what the test compares with torch's
  ask();
});
