// What the notes say: their size beside the formula, what a step reads, what lies in a cell.
// Knows a run's store, words and numbers; knows no pointer and no picture.

/** The formula with this run's numbers, as "54 × 23,040 B" or, where layers have windows, a sum over the kinds of layers. `windows`: at rest. */
function formulaOf(windows, layerBytes, tokens) {
  const kinds = new Map();
  for (const window of windows) kinds.set(window ?? Infinity, (kinds.get(window ?? Infinity) ?? 0) + 1);
  const total = notesRead(windows, layerBytes, tokens);
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

/** What the step that wrote generated token `index` reads, as [total, parts] in words: weights once, and the notes that its attention reads,
    its own column included. The prompt's pass finds no notes. */
function readWords(store, index, { windows, layer_token_bytes: layerBytes, weights_read_bytes: weights }, labels) {
  if (index === 0) return [fill(labels.notes_pass, { total: bytesText(weights) }), fill(labels.notes_pass_parts, { n: grouped(store.tokens.length) })];
  const notes = notesRead(windows, layerBytes, generatedStep(store, index).kv_tokens);
  const parts = { weights: bytesText(weights), notes: bytesText(notes) };
  return [fill(labels.notes_step, { total: bytesText(weights + notes) }), fill(labels.notes_step_parts, parts)];
}

function kindAt(store, position) {
  return position < store.tokens.length ? store.tokens[position].kind : "generated";
}

function tokenNode(store, position) {
  const node = element("span", "token");
  node.append(tokenNodes(tokenAt(store, position)));
  return node;
}

/** What the light means, and how much of it falls on the first column; which columns are read most the step's own chain tells. */
function litWords(weights, labels) {
  if (weights.length < 2) return labels.notes_lit_one;
  const sink = weights[0] >= strongestWeight(weights) ? labels.notes_lit_sink : labels.notes_lit;
  return fill(sink, { share: percent(weights[0]) });
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
