// What there is to say about one step: what went in, how much was read, how long each part took, where the model looked.
// Knows the run's store and arithmetic; knows no element of the page.

const LOOKS = 3;

/** A token as a sentence names it: white space visible, bytes in hex where they are no characters. */
function seenText(token) {
  return tokenNodes(token).textContent;
}

/** Bytes of notes that a step reads with so many tokens before its eyes, the one that came in included. `windows`: tokens that each layer
    holds at rest, one less than its window; null: all of them. */
function notesRead({ windows, layer_token_bytes }, context) {
  if (!windows) return null;
  return windows.reduce((sum, held) => sum + layer_token_bytes * (held === null ? context : Math.min(context, held + 1)), 0);
}

/** The parts of a step's time in the order of the chain, as [name, seconds]; they add up to `total`. */
function timesOf(store, index) {
  const step = generatedStep(store, index);
  if (index === 0) return { total: step.prefill_s + step.sample_s, parts: [["prefill", step.prefill_s], ["sample", step.sample_s]], split: true };
  const { parts, forward_s, sample_s, busy_s } = step;
  const total = Math.max(busy_s, forward_s + sample_s);
  const before = parts ? [["weights", parts.weights_s], ["read", parts.read_s], ["append", parts.append_s], ["head", parts.head_s]] : [["forward", forward_s]];
  return { total, parts: [...before, ["sample", sample_s], ["rest", total - forward_s - sample_s]], split: Boolean(parts) };
}

/** The strongest looks but for the first token, on which many heads park theirs: [[position, weight], …], strongest first. */
function strongestLooks(weights) {
  const best = [];
  for (let position = 1; position < weights.length; position += 1) {
    if (best.length === LOOKS && weights[position] <= best[LOOKS - 1][1]) continue;
    const at = best.findIndex(([, weight]) => weights[position] > weight);
    best.splice(at < 0 ? best.length : at, 0, [position, weights[position]]);
    best.length = Math.min(best.length, LOOKS);
  }
  return best;
}

/** How the step that wrote token `index` read the notes, or null: told by the page at rest, by the channel in slow motion. */
function looksOf(store, index, glance) {
  if (glance?.index === index) return glance.weights;
  return store.glance?.index === index ? store.glance.weights : null;
}

/** The token at a position of the whole text. */
function tokenAt(store, position) {
  return position < store.tokens.length ? store.tokens[position] : generatedToken(store, position - store.tokens.length);
}
