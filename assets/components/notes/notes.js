// The notes (KV cache): one cell per layer and token. A new column is inked in when its token has been read by all layers.

const TALL = 228; // the grid's height aimed at
const GUTTER = 30;
const CELL_MAX = 16;
const CELL_MIN = 2;
const WIDEST = 8000; // of the drawing, in CSS pixels; older columns are left out beyond it
const FADED = 0.22;
const SCROLL_EVERY = 16;

/** Cell sizes for a width: all columns to come if they fit at 4 px, else as large as what is written allows, else scrolling. */
function layOut(width, layers, written, total) {
  const room = Math.max(width - GUTTER, 60);
  let cell = Math.min(room / total, CELL_MAX); // columns begin at whole pixels (Grid.left), so that their mean width may be any
  if (cell < 4) cell = Math.max(cell, [4, 3].find((size) => written + 4 <= Math.floor(room / size)) ?? CELL_MIN);
  const fitting = Math.floor(room / cell + 1e-6);
  const columns = Math.min(fitting > written + 3 ? fitting : Math.ceil(written * 1.25) + 64, total, Math.floor(WIDEST / cell));
  const row = Math.min(Math.max(Math.floor(TALL / layers), 3), CELL_MAX);
  return { cell, row, columns, layers, gap: cell > 3 ? 1 : 0, rowGap: row > 3 ? 1 : 0.5, scrolls: columns > fitting };
}

/** Paints columns. `kind` gives the colour and a pattern of its own: template hollow, prompt solid, answer with a line through it. */
class Grid {
  constructor(canvas) {
    this.canvas = canvas;
  }

  start(layout, windows, theme, first) {
    Object.assign(this, { layout, windows, theme, first });
    const { cell, row, columns, layers } = layout;
    this.pen = sizedContext(this.canvas, Math.round(columns * cell), layers * row);
    this.spans = this.layerSpans();
  }

  /** Neighbouring layers with the same window, as [from, to, window]. */
  layerSpans() {
    const spans = [];
    this.windows.forEach((window, layer) => {
      const last = spans.at(-1);
      if (last && last[2] === window) last[1] = layer + 1;
      else spans.push([layer, layer + 1, window]);
    });
    return spans;
  }

  /** Where the column of a position begins, in whole CSS pixels. */
  left(position) {
    return Math.round((position - this.first) * this.layout.cell);
  }

  column(position, kind, newest, tokens) {
    const { row, layers, gap } = this.layout;
    const x = this.left(position);
    if (x < 0) return;
    const cell = this.left(position + 1) - x;
    this.pen.clearRect(x, 0, cell, layers * row);
    for (const [from, to, window] of this.spans) {
      this.pen.globalAlpha = window !== null && position < tokens - window ? FADED : 1;
      this.cells(x, from, to, cell - gap, kind, newest);
    }
    this.pen.globalAlpha = 1;
  }

  /** Neighbouring columns of one kind at once: what column() draws for each, in a few strokes. */
  stretch(from, to, kind, tokens) {
    const { pen, layout } = this;
    if (kind === "template") {
      for (let position = from; position < to; position += 1) this.column(position, kind, false, tokens);
      return;
    }
    const [x, end] = [this.left(from), this.left(to)];
    for (const [top, bottom, window] of this.spans) {
      const edge = window === null ? from : Math.min(Math.max(tokens - window, from), to);
      const split = this.left(edge) - x;
      pen.globalAlpha = FADED;
      if (edge > from) this.cells(x, top, bottom, split - layout.gap, kind, false);
      pen.globalAlpha = 1;
      if (edge < to) this.cells(x + split, top, bottom, end - x - split - layout.gap, kind, false);
    }
    if (layout.gap) for (let at = from + 1; at < to; at += 1) pen.clearRect(this.left(at) - 1, 0, 1, layout.layers * layout.row);
  }

  cells(x, from, to, wide, kind, newest) {
    const { pen, theme } = this;
    const { row, rowGap } = this.layout;
    const role = kind === "generated" ? "answer" : kind;
    const tall = row - rowGap;
    const hollow = kind === "template" && wide > 3 && tall > 3 && !newest;
    pen.fillStyle = newest ? theme[role] : theme[`${role}Tint`];
    for (let layer = from; layer < to; layer += 1) pen.fillRect(x, layer * row, wide, tall);
    if (newest || this.layout.cell < 4 || tall < 4) return;
    pen.fillStyle = theme.notesWash;
    const line = Math.max(Math.round(tall * 0.22), 1);
    for (let layer = from; layer < to; layer += 1) {
      if (hollow) pen.fillRect(x + 1, layer * row + 1, wide - 2, tall - 2);
      else if (kind === "generated") pen.fillRect(x, layer * row + Math.round(tall * 0.38), wide, line);
    }
  }

  /** Columns still to be written: dashed. */
  future(from, to) {
    const { pen, theme } = this;
    const { cell, row, layers, gap } = this.layout;
    pen.strokeStyle = theme.notesTint;
    pen.lineWidth = 1;
    pen.setLineDash([2, 2]);
    for (let position = from; position < to; position += 1) {
      const x = this.left(position);
      const wide = this.left(position + 1) - x - gap - 1;
      if (cell > 5 && row > 5) for (let layer = 0; layer < layers; layer += 1) pen.strokeRect(x + 0.5, layer * row + 0.5, wide, row - 2);
      else if (cell > 3 || position % 2 === 0) pen.strokeRect(x + 0.5, 0.5, 0, layers * row - 1);
    }
    pen.setLineDash([]);
  }
}

function drawLayerTicks(canvas, layout, theme) {
  const { layers, row } = layout;
  const pen = sizedContext(canvas, GUTTER, layers * row);
  const every = roundStep(layers, Math.floor((layers * row) / 18));
  pen.font = `${Math.max(10, Math.round(theme.size * 0.66))}px ${theme.mono}`;
  pen.fillStyle = theme.muted;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const lowest = Math.ceil(theme.size * 0.4); // the first label would be cut by the picture's upper edge
  for (let layer = 0; layer < layers; layer += Math.max(every, 1)) pen.fillText(String(layer), GUTTER - 8, Math.max((layer + 0.5) * row, lowest));
}

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

function createNotes(view) {
  const find = (selector) => view.root.querySelector(selector);
  const [size, picture, ticks, scroll, count, bytes, formula, verdict] =
    [".size", ".grid", ".layers", ".scroll", ".count", ".bytes", ".formula", ".verdict"].map(find);
  const [tag, legend] = [".ob-tag", ".ob-legend"].map(find);
  const grid = new Grid(find(".cells"));
  let written = 0;
  let hidden = 0;

  const kindAt = (store, position) => (position < store.tokens.length ? store.tokens[position].kind : "generated");
  const windowsOf = ({ data, store }) => data.windows ?? store.model?.shape.layer_windows ?? [];
  const totalOf = (store) => Math.max(store.tokens.length + store.max_new_tokens - 1, store.tokens.length, 1);

  const writeLegend = (labels, fades) => {
    const kinds = { template: labels.live_template, prompt: labels.live_prompt, generated: labels.live_answer, newest: labels.notes_newest, future: labels.notes_future };
    if (fades) kinds.faded = labels.notes_faded;
    legend.replaceChildren(...Object.entries(kinds).map(([kind, words]) => {
      const entry = element("span");
      entry.append(element("i", `k-${kind}`), words);
      return entry;
    }));
  };
  const redraw = (now, tokens) => {
    const { store, theme, labels } = now;
    const windows = windowsOf(now);
    const inner = parseFloat(getComputedStyle(view.root).paddingLeft) * 2;
    const layout = layOut(view.root.clientWidth - inner - 2, Math.max(windows.length, 1), tokens, totalOf(store));
    hidden = Math.max(tokens + 8 - layout.columns, 0);
    hidden = totalOf(store) > layout.columns && layout.columns * layout.cell >= WIDEST - layout.cell ? hidden : 0;
    grid.start(layout, windows, theme, hidden);
    drawLayerTicks(ticks, layout, theme);
    for (let from = hidden, to = hidden; from < tokens; from = to) {
      while (to < tokens && kindAt(store, to) === kindAt(store, from)) to += 1;
      grid.stretch(from, to, kindAt(store, from), tokens);
    }
    grid.future(tokens, hidden + layout.columns);
    writeLegend(labels, windows.some((window) => window !== null));
    written = tokens;
  };
  /** Ink what is new; fade what has left a window. */
  const ink = (now, tokens) => {
    const { store } = now;
    if (written > 0) grid.column(written - 1, kindAt(store, written - 1), false, tokens);
    for (; written < tokens - 1; written += 1) grid.column(written, kindAt(store, written), false, tokens);
    written = tokens;
    for (const window of new Set(grid.windows)) {
      const gone = window === null ? -1 : tokens - window - 1;
      if (gone >= 0) grid.column(gone, kindAt(store, gone), false, tokens);
    }
    grid.column(tokens - 1, kindAt(store, tokens - 1), now.shown > 1, tokens);
  };
  const say = ({ store, data, labels, shown }, step) => {
    const windows = windowsOf({ store, data });
    setText(tag, labels.live_measured);
    view.root.classList.toggle("uncounted", !step);
    view.root.classList.toggle("blank", !store.model);
    const columns = step ? step.kv_tokens : 0;
    const factors = factorsOf(store.model);
    const words = fill(labels.notes_size, { layers: windows.length, tokens: grouped(columns), formula: factors });
    setText(size, store.model ? (hidden ? `${words} · ${fill(labels.notes_hidden, { n: grouped(hidden) })}` : words) : labels.notes_none);
    if (!step) return;
    setText(bytes, `${grouped(step.kv_bytes)} B`);
    const known = data.layer_token_bytes && windows.length;
    const { total, text } = known ? formulaOf(windows, data.layer_token_bytes, columns) : { total: step.kv_bytes, text: "" };
    count.classList.toggle("equal", Boolean(known) && total === step.kv_bytes);
    count.classList.toggle("differs", total !== step.kv_bytes);
    setText(formula, known ? `${total === step.kv_bytes ? "=" : "≠"} ${text}` : "");
    setText(verdict, !known ? "" : total === step.kv_bytes ? "✓" : fill(labels.notes_differs, { bytes: grouped(total) }));
    if (store.status === "running" && shown > 1 && picture.hasAttribute("aria-label")) return; // said at pauses, not at every step
    picture.setAttribute("aria-label", fill(labels.notes_alt, { layers: windows.length, tokens: columns, bytes: grouped(step.kv_bytes) }));
  };

  const draw = (now) => {
    const { store, shown, full } = now;
    const step = shown ? generatedStep(store, shown - 1) : null;
    const tokens = step ? step.kv_tokens : 0;
    const grown = written > 0 && tokens - hidden > grid.layout.columns - (grid.layout.columns < totalOf(store) - hidden ? 1 : 0);
    if (full || grown || tokens < written || windowsOf(now).length !== grid.windows.length) redraw(now, tokens);
    if (tokens) ink(now, tokens);
    say(now, step);
    if (grid.layout.scrolls && (full || tokens % SCROLL_EVERY === 0)) scroll.scrollLeft = tokens * grid.layout.cell - scroll.clientWidth / 2;
  };
  return { draw, sized: true };
}

export default function notes(component) {
  return live.mount("notes", component, createNotes);
}
