// What the notes say: their size beside the formula, what a step reads, what lies in a cell.
// Knows a run's store, words and numbers; knows no pointer and no picture.

const LINKS_TOLD = 3; // columns that are named

/** The formula with this run's numbers, as "54 × 23,040 B" or, where layers have windows, a sum over the kinds of layers. */
function formulaOf(windows, layerBytes, tokens) {
  const kinds = new Map();
  for (const window of windows) kinds.set(window ?? Infinity, (kinds.get(window ?? Infinity) ?? 0) + 1);
  const total = windows.reduce((sum, window) => sum + Math.min(tokens, window ?? tokens), 0) * layerBytes;
  if ([...kinds.keys()].every((window) => tokens <= window)) {
    return { total, text: `${grouped(tokens)} × ${grouped(windows.length * layerBytes)} B` };
  }
  const terms = [...kinds].map(([window, count]) => `${count} × ${grouped(Math.min(tokens, window))}`);
  return { total, text: `(${terms.join(" + ")}) × ${grouped(layerBytes)} B` };
}

function factorsOf(model) {
  const shape = model?.shape;
  if (!shape) return "";
  const layers = shape.layer_windows.length;
  if (shape.kv_lora_rank) return `${layers} × (${shape.kv_lora_rank} + ${shape.qk_rope_head_dim}) × ${model.dtype_bytes}\u00a0B`;
  return `2 × ${layers} × ${shape.num_key_value_heads} × ${shape.head_dim} × ${model.dtype_bytes}\u00a0B`;
}

/** Bytes of the weights that every step reads once: tables in which a token is only looked up are left out, where they were counted. */
function weightsRead({ body_parameters: body, head_parameters: head, dtype_bytes: each, weight_bytes: all }) {
  return body ? (body + head) * each : all;
}

/** What the step that wrote generated token `index` read: weights, and notes as they were before it. The prompt's pass finds none. */
function bytesRead(store, index) {
  return { weights: weightsRead(store.model), notes: index === 0 ? 0 : generatedStep(store, index - 1).kv_bytes };
}

/** The two figures of what is read, as [total, parts]. */
function readWords(store, index, labels) {
  const { weights, notes } = bytesRead(store, index);
  if (index === 0) return [fill(labels.notes_pass, { total: bytesText(weights) }), fill(labels.notes_pass_parts, { n: grouped(store.tokens.length) })];
  const parts = { weights: bytesText(weights), notes: bytesText(notes) };
  return [fill(labels.notes_step, { total: bytesText(weights + notes) }), fill(labels.notes_step_parts, parts)];
}

function kindAt(store, position) {
  return position < store.tokens.length ? store.tokens[position].kind : "generated";
}

function tokenAt(store, position) {
  return position < store.tokens.length ? store.tokens[position] : generatedToken(store, position - store.tokens.length);
}

/** A label as nodes: its places are filled with text, tokens in type of their own. */
function sentence(template, values) {
  const nodes = document.createDocumentFragment();
  for (const part of template.split(/(\{\w+\})/)) {
    const name = part.match(/^\{(\w+)\}$/)?.[1];
    const value = name && values[name];
    if (value === undefined || value === "") nodes.append(part);
    else nodes.append(value instanceof Node ? value : String(value));
  }
  return nodes;
}

function tokenNode(store, position) {
  const node = element("span", "token");
  node.append(tokenNodes(tokenAt(store, position)));
  return node;
}

/** How this step read the columns, as nodes. */
function litWords(store, weights, labels) {
  const links = document.createDocumentFragment();
  for (const position of mostRead(weights, LINKS_TOLD)) {
    const link = element("span", "link");
    link.append(sentence(labels.notes_link, { token: tokenNode(store, position), position, share: percent(weights[position]) }));
    links.append(link);
  }
  const sink = weights[0] >= strongestWeight(weights) ? labels.notes_lit_sink : labels.notes_lit;
  return sentence(weights.length > 1 ? sink : labels.notes_lit_one, { share: percent(weights[0]), links });
}

/** One cell in a line. `tokens`: columns written; `weights`: how the step on screen read them, or null. */
function cellWords({ store, labels }, { layer, position }, tokens, weights) {
  if (position >= tokens) return sentence(labels.notes_cell_blank, { layer, position });
  const places = { layer, position, token: tokenNode(store, position), kind: kindText(tokenAt(store, position), labels) };
  const line = sentence(labels.notes_cell, places);
  const window = store.model.shape.layer_windows[layer];
  if (window !== null && position < tokens - window + 1) line.append(" · ", fill(labels.notes_cell_gone, { n: grouped(window) }));
  else if (weights) line.append(" · ", fill(labels.notes_cell_read, { share: percent(weights[position]) }));
  return line;
}

function writeLegend(box, labels, fades, lights) {
  const kinds = { template: labels.live_template, prompt: labels.live_prompt, generated: labels.live_answer, newest: labels.notes_newest, future: labels.notes_future };
  if (fades) kinds.faded = labels.notes_faded;
  if (lights) kinds.lit = labels.notes_light;
  box.replaceChildren(...Object.entries(kinds).map(([kind, words]) => {
    const entry = element("span");
    entry.append(element("i", `k-${kind}`), words);
    return entry;
  }));
}
