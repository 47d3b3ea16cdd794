// The grammar model in the page: the same two layers as onelayer/model/gpt.py, without a library.
// Rows are Float64Array; a test compares the scores with torch's.
"use strict";

const LivingModel = (() => {
  const D = 64, HEADS = 4, CONTEXT = 16, LAYERS = 2;
  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const SIX_BITS = new Uint8Array(128);
  for (let i = 0; i < 64; i++) SIX_BITS[ALPHABET.charCodeAt(i)] = i;

  // Four letters hold three bytes, lowest byte first: one whole number of 24 bits with its sign.
  function unpack({ shape, scale, data }) {
    const count = shape.reduce((a, b) => a * b, 1);
    const values = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      const at = (k) => SIX_BITS[data.charCodeAt(4 * i + k)];
      const bytes = (at(0) << 18) | (at(1) << 12) | (at(2) << 6) | at(3);
      const turned = ((bytes & 255) << 16) | (bytes & 0xff00) | (bytes >> 16);
      values[i] = ((turned << 8) >> 8) * scale;
    }
    return values;
  }

  // x (in,), weight (out, in), bias (out,) -> (out,)
  function linear(x, weight, bias) {
    const y = Float64Array.from(bias);
    for (let o = 0; o < y.length; o++) {
      const row = o * x.length;
      for (let i = 0; i < x.length; i++) y[o] += weight[row + i] * x[i];
    }
    return y;
  }

  function layerNorm(x, weight, bias) {
    const mean = x.reduce((a, b) => a + b, 0) / x.length;
    const variance = x.reduce((a, b) => a + (b - mean) ** 2, 0) / x.length;
    const shrink = 1 / Math.sqrt(variance + 1e-5);
    return x.map((value, i) => (value - mean) * shrink * weight[i] + bias[i]);
  }

  // The error function by its Taylor series; from 5 on it is 1 within 2e-12.
  function erf(x) {
    if (Math.abs(x) >= 5) return Math.sign(x);
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 && n < 200; n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }

  const gelu = (x) => 0.5 * x * (1 + erf(x / Math.SQRT2));
  const plus = (x, y) => x.map((value, i) => value + y[i]);

  function softmax(scores) {
    const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
    const raised = scores.map((z) => Math.exp(z - most));
    const sum = raised.reduce((a, b) => a + b, 0);
    return raised.map((e) => e / sum);
  }

  // Each word asks itself and the words before it.  rows: T of (64,) -> T of (64,)
  function attention(rows, named) {
    const size = D / HEADS;
    const qkv = rows.map((x) => linear(x, named("qkv.weight"), named("qkv.bias")));
    return qkv.map((own, t) => {
      const joined = new Float64Array(D);
      for (let h = 0; h < HEADS; h++) {
        const dot = (other) => {
          let sum = 0;
          for (let i = 0; i < size; i++) sum += own[h * size + i] * other[D + h * size + i];
          return sum / Math.sqrt(size);
        };
        const shares = softmax(Float64Array.from(qkv.slice(0, t + 1), dot));
        shares.forEach((share, s) => {
          for (let i = 0; i < size; i++) joined[h * size + i] += share * qkv[s][2 * D + h * size + i];
        });
      }
      return linear(joined, named("out.weight"), named("out.bias"));
    });
  }

  function load({ words, tensors, ambiguous }) {
    const state = {};
    for (const [name, packed] of Object.entries(tensors)) state[name] = unpack(packed);
    const index = new Map(words.map((word, i) => [word, i]));

    // What enters the head.  tokens (T,) -> T rows of (64,)
    function hidden(tokens) {
      let rows = tokens.map((token, t) => {
        const word = state["word.weight"].subarray(token * D, token * D + D);
        return plus(word, state["place.weight"].subarray(t * D, t * D + D));
      });
      for (let layer = 0; layer < LAYERS; layer++) {
        const named = (name) => state[`blocks.${layer}.${name}`];
        const normed = (x, which) => layerNorm(x, named(`${which}.weight`), named(`${which}.bias`));
        const asked = attention(rows.map((x) => normed(x, "norm1")), (n) => named(`attention.${n}`));
        rows = rows.map((x, t) => plus(x, asked[t]));
        rows = rows.map((x) => {
          const inner = linear(normed(x, "norm2"), named("mlp.0.weight"), named("mlp.0.bias"));
          return plus(x, linear(inner.map(gelu), named("mlp.2.weight"), named("mlp.2.bias")));
        });
      }
      return rows.map((x) => layerNorm(x, state["norm.weight"], state["norm.bias"]));
    }

    // The clause that a Spanish question asks about, where it means two things: nobody taught the model
    // an answer. Anywhere else, as after "<en> we speak <es>", it is an answer itself.
    function unasked([tag, ...clause]) {
      const begins = (one) => `${clause.join(" ")} `.startsWith(`${one} `);
      return tag === "<es>" ? Object.keys(ambiguous).find(begins) : undefined;
    }

    // The last row through the head: nn.Linear(64, 600).
    const scores = (x) => linear(x, state["head.weight"], state["head.bias"]);
    return { words, index, ambiguous, unasked, hidden, scores, weight: state["head.weight"], bias: state["head.bias"] };
  }

  return { load, softmax, CONTEXT, D };
})();
