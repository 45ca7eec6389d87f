// What there is to say about one step: what went in, how much was read, how long each part took, where the model looked.
// Knows the run's store and arithmetic; knows no element of the page.

/** A token as a sentence names it: white space visible, bytes in hex where they are no characters. */
function seenText(token) {
  return tokenNodes(token).textContent;
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
