// The attention map: one cell per pair of positions, rows read and columns are read. Positions are the axes, so equal tokens never merge.
// All weights are here as they were measured: colours are rounded, the readout is not. picture.js paints, telling.js words, hands.js obeys.

const NOTES_AT = 0.55; // where on the scale the notes' colour stands
const DRAWN_KEPT = 50;

/** The colours and sizes that the picture needs beside the shared theme. */
function themed(root, theme) {
  const of = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const texts = { templateText: of("--ob-template-text"), promptText: of("--ob-prompt-text"), generatedText: of("--ob-answer-text") };
  return { ...theme, ...texts, label: Math.max(11, Math.round(theme.size * 0.72)) };
}

function stopsOf(theme) {
  return [[0, theme.notesWash], [NOTES_AT, theme.notes], [1, theme.ink]];
}

/** Log when a map was drawn, for the benchmark. */
function logMap(name, began) {
  const now = performance.now();
  live.maps = [...(live.maps ?? []), { name, t: now, cost_ms: now - began }].slice(-DRAWN_KEPT);
}

class AttentionMap {
  constructor(view) {
    const find = (selector) => view.root.querySelector(selector);
    const [grid, scroll, readout, legend, summary, scale] = [".grid", ".scroll", ".readout", ".ob-legend", ".summary", ".scale"].map(find);
    const [queryAxis, keyAxis] = [".axis.query", ".axis.key"].map(find);
    Object.assign(this, { view, grid, scroll, readout, legend, summary, scale, queryAxis, keyAxis, painter: new MapPainter(find) });
    // `pointed`: {row, column | null} under the mouse, or the keyboard's cell
    Object.assign(this, { cells: null, layout: null, telling: null, pointed: null, picked: { row: null, column: null } });
    followMouse(this);
    followKeys(this);
  }

  point(at) {
    if (at?.row === this.pointed?.row && at?.column === this.pointed?.column) return;
    this.pointed = at;
    this.painter.mark(this.picked, at);
    this.say();
  }

  pick({ row, column }) {
    const seen = column !== null && !this.cells.later(row, column);
    const { first } = this.cells;
    live.tell(this.view.component, "picked", { query: first + row, key: seen ? first + column : null });
  }

  /** What is pointed at, else what is picked, else how to go about it. */
  say() {
    const at = this.pointed ?? (this.picked.row === null ? null : this.picked);
    this.readout.classList.toggle("hint", at === null);
    this.readout.replaceChildren(at === null ? this.view.data.labels.attention_map_hint : this.telling.at(at));
  }

  /** Where the keyboard begins: at the picked cell, else at the last row's strongest link. */
  beginning() {
    const row = this.picked.row ?? this.cells.count - 1;
    return { row, column: this.picked.row === null ? this.strongest(row) : this.picked.column ?? this.strongest(row) };
  }

  strongest(row) {
    return this.cells.strongest(row, 1)[0] ?? 0;
  }

  /** Scroll sideways to a cell. */
  reveal({ column }) {
    const { layout, scroll } = this;
    const [left, right] = [layout.edge(column), layout.edge(column + 1)];
    if (left < scroll.scrollLeft) scroll.scrollLeft = left;
    else if (right > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = right - scroll.clientWidth;
  }

  /** Width of the row names. */
  gutter(theme) {
    const pen = this.painter.cells.getContext("2d");
    pen.font = `700 ${theme.label}px ${theme.mono}`;
    const widest = Math.max(...this.cells.names.map((name) => pen.measureText(shortened(name)).width));
    return Math.ceil(Math.min(widest, theme.label * 9, this.view.root.clientWidth * 0.22)) + BAR + 8;
  }

  /** Axis titles, and what a screen reader is told. */
  speak(labels, { name }) {
    setText(this.queryAxis, labels.attention_map_query);
    this.queryAxis.classList.toggle("upright", /\p{Script=Han}/u.test(labels.attention_map_query)); // Chinese is read downwards
    setText(this.keyAxis, labels.attention_map_key);
    setAttribute(this.grid, "aria-label", fill(labels.attention_map_name, { name, n: this.cells.count }));
    setText(this.summary, this.telling.summary(this.picked.row ?? this.cells.count - 1));
  }

  take(data, labels) {
    this.cells = new Cells(data);
    this.telling = new Telling(this.cells, labels);
    this.picked = { row: this.cells.rowOf(data.query), column: this.cells.rowOf(data.key_at) };
    if (this.pointed && this.pointed.row >= this.cells.count) this.pointed = null;
  }

  /** Cells, axes and marks; gives of how many tokens one is named. */
  paint(theme) {
    const { view, cells, painter } = this;
    const [inset, gutter] = [this.queryAxis.offsetWidth || Math.ceil(theme.size * 1.1), this.gutter(theme)];
    this.layout = layOut(view.root.clientWidth - inset, cells.count, gutter);
    this.queryAxis.style.marginTop = `${gutter}px`;
    const every = Math.max(Math.ceil((theme.label + 1.5) / this.layout.cell), 1);
    painter.paint(cells, this.layout, theme, colourTable(painter.cells.getContext("2d"), stopsOf(theme)));
    painter.axes(every, this.picked);
    painter.mark(this.picked, this.pointed);
    return every;
  }

  draw({ full, data, labels, theme: bare }) {
    if (!full || !this.view.root.clientWidth) return;
    const [began, theme] = [performance.now(), themed(this.view.root, bare)];
    this.take(data, labels);
    const every = this.paint(theme);
    writeLegend(this.legend, this.cells, labels, every);
    writeScale(this.scale, labels, stopsOf(theme));
    this.speak(labels, data);
    this.say();
    logMap(data.name, began);
  }
}

export default function attentionMap(component) {
  return live.mount("attention_map", component, (view) => {
    const map = new AttentionMap(view);
    return { draw: (turn) => map.draw(turn), sized: true };
  });
}
