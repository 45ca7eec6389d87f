// The notes (KV cache): one cell per layer and token. A new column is inked in when its token has been read by all layers, and columns are
// lit by how the step on screen reads them. grid.js paints, pen.js writes the newest column, glow.js lights, hands.js obeys, telling.js words.

const SCROLL_EVERY = 16;
const SINGLE = 8; // more new columns than these are painted as stretches
const INKED_KEPT = 256;
const SPOT_LEAST = 5; // an outline that can be seen

/** Log what a picture cost: columns painted and milliseconds, for tests and benchmarks. */
function logInk(index, columns, full, began) {
  live.inked ??= [];
  live.inked.push({ index, columns, full, cost_ms: performance.now() - began });
  if (live.inked.length > INKED_KEPT) live.inked.shift();
}

class Notes {
  constructor(view) {
    const find = (selector) => view.root.querySelector(selector);
    const [picture, ticks, scroll, sheet, lit, readout, count, legend] =
      [".grid", ".layers", ".scroll", ".sheet", ".lit", ".readout", ".count", ".ob-legend"].map(find);
    const [size, bytes, formula, verdict, measured] = [".size", ".bytes", ".formula", ".verdict", ".ob-measured"].map(find);
    const [total, parts, computed, openedSpot, pointedSpot] = [".total", ".parts", ".ob-computed", ".spot.opened", ".spot.pointed"].map(find);
    Object.assign(this, { view, picture, ticks, scroll, sheet, lit, readout, count, legend, size, bytes, formula, verdict, measured });
    Object.assign(this, { total, parts, computed, openedSpot, pointedSpot });
    this.grid = new Grid(find(".cells"));
    this.pen = new Pen(this.grid);
    this.glow = new Glow(find(".glow"), this.grid);
    // `tokens`: columns written; `hidden`: older ones that are not drawn; `seen`: the weights that Python sent; `said`: what the lit line
    // says; `last`: of which step it last spoke; `drawnOn`: see ground()
    Object.assign(this, { now: null, tokens: 0, hidden: 0, pointed: null, seen: null, said: "", last: null, room: 0, drawnOn: null });
    view.root.style.setProperty("--lane", `${LANE}px`);
    followMouse(this);
    followKeys(this);
  }

  /** Per layer, how many tokens it keeps between two steps (null: all). */
  get windows() {
    const { data, store } = this.now;
    return windowsAtRest(data.windows ?? store.model?.shape.layer_windows ?? []);
  }

  /** All columns that there will be if the answer takes its full length. */
  get most() {
    const { store } = this.now;
    return Math.max(store.tokens.length + store.max_new_tokens - 1, store.tokens.length, 1);
  }

  /** What the picture depends on beside its columns: while this is the same, what is painted stays. */
  ground() {
    const { view, windows, most, now: { store, theme, labels, data } } = this;
    const parts = [store.runId, store.epoch, theme.key, view.root.clientWidth, window.devicePixelRatio, most, Boolean(data.opens), labels.notes_size];
    return [...parts, ...windows].join("|");
  }

  redraw(tokens) {
    const { grid, windows, most, now: { store, theme, labels, data } } = this;
    const inner = parseFloat(getComputedStyle(this.view.root).paddingLeft) * 2;
    const layout = layOut(this.view.root.clientWidth - inner - 2, Math.max(windows.length, 1), tokens, most);
    const over = Math.max(tokens + 8 - layout.columns, 0);
    this.hidden = most > layout.columns && layout.columns * layout.cell >= WIDEST - layout.cell ? over : 0;
    this.pen.drop();
    grid.start(layout, windows, theme, this.hidden);
    drawLayerTicks(this.ticks, layout, theme);
    this.stretches(this.hidden, tokens);
    if (tokens && this.now.shown > 1) grid.column(tokens - 1, kindAt(store, tokens - 1), true, tokens);
    grid.future(tokens, grid.end);
    writeLegend(this.legend, labels, windows.some((window) => window !== null), data.opens);
    this.room = this.scroll.clientWidth;
    this.tokens = tokens;
  }

  stretches(start, tokens) {
    const { grid, now: { store } } = this;
    for (let from = start, to = start; from < tokens; from = to) {
      while (to < tokens && kindAt(store, to) === kindAt(store, from)) to += 1;
      grid.stretch(from, to, kindAt(store, from), tokens);
    }
  }

  /** Ink what is new; fade what has left a window. */
  ink(tokens) {
    const { grid, pen, tokens: before, now: { store, shown, data } } = this;
    const ms = pen.patience((data.pace_s ?? 0) > 0);
    pen.drop();
    if (tokens - before > SINGLE) this.stretches(Math.max(before - 1, this.hidden), tokens);
    else for (let at = Math.max(before - 1, this.hidden); at < tokens - 1; at += 1) grid.column(at, kindAt(store, at), false, tokens);
    for (const window of new Set(grid.windows)) {
      if (window === null) continue;
      for (let at = Math.max(before - window, this.hidden); at < tokens - window; at += 1) grid.column(at, kindAt(store, at), false, tokens);
    }
    if (shown > 1 && ms && tokens === before + 1) pen.begin(tokens - 1, kindAt(store, tokens - 1), ms);
    else grid.column(tokens - 1, kindAt(store, tokens - 1), shown > 1, tokens);
    this.tokens = tokens;
  }

  /** The size of the notes, measured, beside the formula. */
  say(step) {
    const { labels, store, shown, data } = this.now;
    const [windows, columns] = [this.windows, step ? step.kv_tokens : 0];
    setText(this.measured, labels.live_measured);
    this.view.root.classList.toggle("uncounted", !step);
    this.view.root.classList.toggle("blank", !store.model);
    const words = fill(labels.notes_size, { layers: windows.length, tokens: grouped(columns), formula: factorsOf(store.model) });
    const hidden = this.hidden ? ` · ${fill(labels.notes_hidden, { n: grouped(this.hidden) })}` : "";
    setText(this.size, store.model ? words + hidden : labels.notes_none);
    if (!step) return;
    setText(this.bytes, `${grouped(step.kv_bytes)} B`);
    const known = data.layer_token_bytes && windows.length;
    const { total, text } = known ? formulaOf(windows, data.layer_token_bytes, columns) : { total: step.kv_bytes, text: "" };
    this.count.classList.toggle("equal", Boolean(known) && total === step.kv_bytes);
    this.count.classList.toggle("differs", total !== step.kv_bytes);
    setText(this.formula, known ? `${total === step.kv_bytes ? "=" : "≠"} ${text}` : "");
    setText(this.verdict, !known ? "" : total === step.kv_bytes ? "✓" : fill(labels.notes_differs, { bytes: grouped(total) }));
    if (data.opens) this.sayReads();
    const named = data.opens ? this.sheet : this.picture;
    if (store.status === "running" && shown > 1 && named.hasAttribute("aria-label")) return; // said at pauses, not at every step
    const alt = fill(labels.notes_alt, { layers: windows.length, tokens: columns, bytes: grouped(step.kv_bytes) });
    setAttribute(named, "aria-label", data.opens ? `${alt} ${labels.notes_hint}` : alt);
  }

  sayReads() {
    const { store, shown, data, labels } = this.now;
    this.view.root.classList.toggle("unweighed", !data.weights_read_bytes); // until Python knows the model
    if (!data.weights_read_bytes) return;
    const [total, parts] = readWords(store, shown - 1, data, labels);
    setText(this.total, total);
    setText(this.parts, parts);
    setText(this.computed, labels.notes_computed);
  }

  /** How the step on screen read the notes: told live in slow motion, or by Python at rest; null where nobody has said. */
  weights() {
    const { store, data: { glance }, shown } = this.now;
    if (glance && this.seen?.text !== glance.weights) this.seen = { text: glance.weights, weights: floatsOf(glance.weights) };
    return looksOf(store, shown - 1, glance && { index: glance.index, weights: this.seen.weights });
  }

  /** Whether words about another step may wait, in grey, for those about this one: in slow motion for the next, at rest for Python's. */
  lightComes() {
    const { store, data, shown } = this.now;
    if (this.last?.run !== store.runId || !this.tokens) return false;
    return store.status === "running" ? this.last.index === shown - 2 : !data.unlit;
  }

  /** Light the columns, and say what the light means. */
  light(redrawn) {
    const { store, data, shown, labels, theme } = this.now;
    if (!data.opens) return;
    const weights = this.weights();
    if (redrawn || weights !== this.glow.lit) this.glow.show(weights, theme);
    const waits = !weights && this.lightComes();
    if (weights) this.last = { run: store.runId, index: shown - 1 };
    this.lit.classList.toggle("stale", waits);
    const told = weights ? `${shown} ${weights.length}` : this.tokens === 0 ? "none" : store.status !== "running" && data.unlit ? data.unlit : "all";
    const key = `${told} ${labels.notes_lit}`;
    if (waits || key === this.said) return;
    this.said = key;
    setText(this.lit, weights ? litWords(weights, labels) : told === "all" ? labels.notes_lit_all : told === "none" ? "" : told);
  }

  /** Outline a cell; null: none. */
  spot(node, at) {
    const { grid } = this;
    node.hidden = !at || !grid.layout || at.position < grid.first || at.position >= grid.end;
    if (node.hidden) return;
    const { row } = grid.layout;
    const [x, y] = [grid.left(at.position), LANE + at.layer * row];
    const [wide, tall] = [Math.max(grid.left(at.position + 1) - x, SPOT_LEAST), Math.max(row, SPOT_LEAST)];
    Object.assign(node.style, { left: `${x - 1}px`, top: `${y - 1}px`, width: `${wide + 1}px`, height: `${tall + 1}px` });
  }

  point(at) {
    const able = this.now?.data.opens && this.grid.layout && this.now.store.model;
    const cell = able ? at : null;
    if (cell?.layer === this.pointed?.layer && cell?.position === this.pointed?.position) return;
    this.pointed = cell;
    this.spot(this.pointedSpot, cell);
    this.tell();
  }

  /** What is pointed at, else how to go about it. */
  tell() {
    const { now, pointed, readout } = this;
    readout.classList.toggle("hint", !pointed);
    readout.replaceChildren(pointed ? cellWords(now, pointed, this.tokens, this.weights()) : this.tokens ? now.labels.notes_hint : "");
  }

  /** Where the keyboard begins: at the opened cell, else at the newest column. */
  beginning() {
    const { opened } = this.now.data;
    return opened && opened.position >= this.grid.first && opened.position < this.grid.end ? opened : { layer: 0, position: this.tokens - 1 };
  }

  open(at) {
    if (!this.now?.data.opens || !this.now.store.model) return;
    live.tell(this.view.component, "opened", { run: this.now.store.runId, ...at });
  }

  /** Scroll sideways to a cell. */
  reveal({ position }) {
    const { grid, scroll } = this;
    const [left, right] = [grid.left(position), grid.left(position + 1)];
    if (left < scroll.scrollLeft) scroll.scrollLeft = left;
    else if (right > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = right - scroll.clientWidth;
  }

  /** Keep the newest column in sight, unless the reader is looking at another one. */
  follow(before, redrawn) {
    const { grid, tokens } = this;
    if (!grid.layout.scrolls || tokens === before || this.pointed || (!redrawn && tokens % SCROLL_EVERY)) return;
    this.scroll.scrollLeft = grid.left(tokens) - this.room / 2;
  }

  /** What does not change from step to step. */
  dress() {
    const { view, picture, sheet, now: { data } } = this;
    view.root.classList.toggle("opens", Boolean(data.opens));
    if (data.opens) picture.removeAttribute("role");
    for (const [name, value] of Object.entries({ role: "application", tabindex: "0" })) {
      if (data.opens) setAttribute(sheet, name, value);
      else sheet.removeAttribute(name);
    }
  }

  /** Whether so many columns need a picture of their own. */
  outgrown({ full }, tokens) {
    const { grid, hidden, most, drawnOn } = this;
    if (full) this.drawnOn = this.ground();
    if (!grid.layout || drawnOn !== this.drawnOn || tokens < this.tokens) return true;
    const { columns } = grid.layout;
    return tokens - hidden > columns - (columns < most - hidden ? 1 : 0);
  }

  draw(now) {
    const [began, painted, before] = [performance.now(), this.grid.painted, this.tokens];
    this.now = now;
    const step = now.shown ? generatedStep(now.store, now.shown - 1) : null;
    const tokens = step ? step.kv_tokens : 0;
    if (now.full) this.dress();
    const redrawn = this.outgrown(now, tokens);
    if (redrawn) this.redraw(tokens);
    else if (tokens > before) this.ink(tokens);
    this.say(step);
    this.light(redrawn);
    if (redrawn || now.full || !before) this.mark();
    this.follow(before, redrawn);
    logInk(now.shown - 1, this.grid.painted - painted, redrawn, began);
  }

  mark() {
    this.spot(this.openedSpot, this.now.data.opens ? this.now.data.opened : null);
    this.spot(this.pointedSpot, this.pointed);
    this.tell();
  }
}

export default function notes(component) {
  return live.mount("notes", component, (view) => {
    const own = new Notes(view);
    return { draw: (now) => own.draw(now), sized: true, leave: () => own.pen.drop() };
  });
}
