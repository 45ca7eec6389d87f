// One step opened up: the chain, its measured time to scale, and a sentence on where the model looked.
// Knows the run's store and what the page adds to it; at full speed it changes a few short texts and nothing that would be laid out anew.

const SLOW_MS = 400; // pictures further apart than this are watched one by one: the chain lights up part after part
const THINNEST = 0.003; // of the bar: a part is at least a hair
const SEGMENTS = ["prefill", "forward", "weights", "read", "head", "sample", "append", "rest"];

/** The bar and its legend: one segment and one entry per part, moved by transforms alone. */
class Times {
  constructor(bar, legend) {
    Object.assign(this, { bar, parts: {} });
    for (const name of SEGMENTS) {
      const [segment, entry, word, value] = [element("i", `segment ${name}`), element("span", "entry"), element("span", "word"), element("b", "value")];
      entry.append(element("i", `swatch ${name}`), word, value);
      bar.append(segment);
      legend.append(entry);
      this.parts[name] = { segment, entry, word, value };
    }
  }

  draw({ total, parts }, labels) {
    const words = {
      prefill: labels.step_part_prefill, weights: labels.step_part_weights, read: labels.step_part_read, append: labels.step_part_append,
      head: labels.step_part_head, forward: labels.step_part_forward, sample: labels.step_part_sample, rest: labels.step_part_rest,
    };
    const seconds = Object.fromEntries(parts);
    let from = 0;
    for (const [name, { segment, entry, word, value }] of Object.entries(this.parts)) {
      const there = name in seconds;
      if (segment.hidden === there) segment.hidden = entry.hidden = !there;
      if (!there) continue;
      const share = total > 0 ? seconds[name] / total : 0;
      segment.style.transform = `translateX(${(from * 100).toFixed(2)}%) scaleX(${Math.max(share, THINNEST).toFixed(4)})`;
      from += share;
      setText(word, words[name]);
      setText(value, `${secondsText(seconds[name], labels)} · ${percent(share)}`);
    }
    const spoken = () => parts.map(([name, part]) => `${words[name]} ${secondsText(part, labels)}`).join(", ");
    this.spoken = () => fill(labels.step_bar, { total: secondsText(total, labels), parts: spoken() });
  }
}

/** All that the chain shows of generated token `index`. */
function factsOf(store, index, data) {
  const step = generatedStep(store, index);
  const past = index === 0 ? { kv_tokens: 0, kv_bytes: 0 } : generatedStep(store, index - 1);
  return {
    store, step,
    token: generatedToken(store, index),
    input: tokenAt(store, store.tokens.length + index - 1),
    prompt: index === 0 ? store.tokens.length : 0,
    context: step.kv_tokens,
    before: past.kv_tokens,
    after: step.kv_tokens,
    added: step.kv_bytes - past.kv_bytes,
    notes: data.weights_read_bytes ? notesRead(data.windows, data.layer_token_bytes, step.kv_tokens) : null,
    weights: data.weights_read_bytes ?? null,
    looks: looksOf(store, index, data.glance),
    sees: data.sees,
    greedy: data.greedy,
    chosenBy: step.chosen_by,
    times: timesOf(store, index),
  };
}

/** “While writing …”; nothing where it is not known. */
function lookedWords({ store, looks, token }, labels) {
  if (!looks || looks.length < 2) return "";
  const one = ([position, weight]) => fill(labels.step_looked_at, { token: seenText(tokenAt(store, position)), share: percent(weight) });
  const found = strongestLooks(looks, LOOKS).map(one).join(labels.step_between);
  return fill(labels.step_looked, { token: seenText(token), looks: found, sink: percent(looks[0]) });
}

function createStep(view) {
  const [empty, whole, head, list, bar, legend, why, looked] = [".ob-empty", ".whole", ".heading", ".chain", ".bar", ".ob-legend", ".why", ".looked"].map(
    (selector) => view.root.querySelector(selector),
  );
  const [chain, times] = [new Chain(list), new Times(bar, legend)];
  let [lastIndex, lastAt, beat] = [-1, 0, 0];
  bar.onpointerenter = () => setAttribute(bar, "title", times.spoken());

  /** A step that is watched by itself lights up part after part. */
  const light = (index) => {
    const now = performance.now();
    if (index === lastIndex + 1 && now - lastAt > SLOW_MS) {
      beat = 1 - beat;
      list.classList.toggle("lit-a", beat === 1);
      list.classList.toggle("lit-b", beat === 0);
    }
    if (index !== lastIndex) lastAt = now;
    lastIndex = index;
  };

  const draw = ({ store, shown, full, data, labels }) => {
    empty.hidden = shown > 0;
    whole.hidden = shown === 0;
    setText(empty, labels.step_none);
    if (!shown) return;
    const index = shown - 1;
    const facts = factsOf(store, index, data);
    setAttribute(list, "aria-label", labels.step_name);
    setText(head, fill(index ? labels.step_head : labels.step_head_first, { n: grouped(shown), time: secondsText(facts.times.total, labels) }));
    chain.draw(facts, labels);
    times.draw(facts.times, labels);
    if (full || store.status !== "running") setAttribute(bar, "aria-label", times.spoken());
    setText(why, index === 0 ? labels.step_first : facts.times.split ? labels.step_own : `${labels.step_unsplit} ${labels.step_own}`);
    setText(looked, lookedWords(facts, labels));
    light(index);
  };
  return { draw };
}

export default function step(component) {
  return live.mount("step", component, createStep);
}
