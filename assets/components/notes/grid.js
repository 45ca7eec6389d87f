// The grid of notes: how large its cells are, where they lie, and how columns are painted.
// Knows layers, positions and colours; knows no run, no words and no reader.

const TALL = 228; // the grid's height aimed at
const LANE = 24; // above it, where the reading of the columns is drawn
const GUTTER = 30;
const CELL_MAX = 16;
const CELL_MIN = 2;
const WIDEST = 8000; // of the drawing, in CSS pixels; older columns are left out beyond it
const FADED = 0.22;
const HOLLOW_FROM = 4; // cells of this size show the pattern of their kind

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

/** Neighbouring layers with the same window, as [from, to, window]. */
function layerSpans(windows) {
  const spans = [];
  windows.forEach((window, layer) => {
    const last = spans.at(-1);
    if (last && last[2] === window) last[1] = layer + 1;
    else spans.push([layer, layer + 1, window]);
  });
  return spans;
}

/** Paints columns. `kind` gives the colour and a pattern of its own: template hollow, prompt solid, answer with a line through it.
    `painted` counts the columns that have been painted, for whoever wants to know what a step costs. */
class Grid {
  constructor(canvas) {
    Object.assign(this, { canvas, painted: 0, first: 0, layout: null, windows: [] });
  }

  /** `windows`: per layer, how many tokens it keeps (null: all); `first`: the position of the first column drawn. */
  start(layout, windows, theme, first) {
    Object.assign(this, { layout, windows, theme, first, spans: layerSpans(windows) });
    this.pen = sizedContext(this.canvas, this.width, this.height);
  }

  get width() {
    return Math.round(this.layout.columns * this.layout.cell);
  }

  get height() {
    return this.layout.layers * this.layout.row;
  }

  /** The position behind the last column. */
  get end() {
    return this.first + this.layout.columns;
  }

  /** Where the column of a position begins, in whole CSS pixels. */
  left(position) {
    return Math.round((position - this.first) * this.layout.cell);
  }

  /** The position whose column lies at `x`; at the edges, the outermost one. */
  positionAt(x) {
    const near = this.first + Math.floor(x / this.layout.cell); // off by one at most: columns begin at whole pixels
    const position = x < this.left(near) ? near - 1 : x >= this.left(near + 1) ? near + 1 : near;
    return Math.min(Math.max(position, this.first), this.end - 1);
  }

  layerAt(y) {
    return Math.min(Math.max(Math.floor(y / this.layout.row), 0), this.layout.layers - 1);
  }

  /** One column, in all layers. */
  column(position, kind, newest, tokens) {
    if (position < this.first) return;
    this.painted += 1;
    const x = this.left(position);
    const cell = this.left(position + 1) - x;
    this.pen.clearRect(x, 0, cell, this.height);
    for (const [from, to, window] of this.spans) {
      this.pen.globalAlpha = window !== null && position < tokens - window ? FADED : 1;
      this.cells(x, from, to, cell - this.layout.gap, kind, newest);
    }
    this.pen.globalAlpha = 1;
  }

  /** The newest column's cells in some layers: it is being written. */
  piece(position, kind, from, to) {
    const { row, gap } = this.layout;
    const x = this.left(position);
    const cell = this.left(position + 1) - x;
    this.pen.clearRect(x, from * row, cell, (to - from) * row);
    this.cells(x, from, to, cell - gap, kind, true);
  }

  /** Neighbouring columns of one kind at once: what column() draws for each, in a few strokes. */
  stretch(from, to, kind, tokens) {
    const { pen, layout } = this;
    if (kind === "template" && layout.cell - layout.gap > HOLLOW_FROM - 1) {
      for (let position = from; position < to; position += 1) this.column(position, kind, false, tokens);
      return;
    }
    this.painted += to - from;
    const [x, end] = [this.left(from), this.left(to)];
    pen.clearRect(x, 0, end - x, this.height);
    for (const [top, bottom, window] of this.spans) {
      const edge = window === null ? from : Math.min(Math.max(tokens - window, from), to);
      const split = this.left(edge) - x;
      pen.globalAlpha = FADED;
      if (edge > from) this.cells(x, top, bottom, split - layout.gap, kind, false);
      pen.globalAlpha = 1;
      if (edge < to) this.cells(x + split, top, bottom, end - x - split - layout.gap, kind, false);
    }
    if (layout.gap) for (let at = from + 1; at < to; at += 1) pen.clearRect(this.left(at) - 1, 0, 1, this.height);
  }

  cells(x, from, to, wide, kind, newest) {
    const { pen, theme } = this;
    const { row, rowGap } = this.layout;
    const role = kind === "generated" ? "answer" : kind;
    const tall = row - rowGap;
    const hollow = kind === "template" && wide > HOLLOW_FROM - 1 && tall > 3;
    pen.fillStyle = newest ? theme[role] : theme[`${role}Tint`];
    for (let layer = from; layer < to; layer += 1) pen.fillRect(x, layer * row, wide, tall);
    if (newest || this.layout.cell < HOLLOW_FROM || tall < 4) return;
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
      else if (cell > 3 || position % 2 === 0) pen.strokeRect(x + 0.5, 0.5, 0, this.height - 1);
    }
    pen.setLineDash([]);
  }
}

/** The numbers of the layers, beside the rows. */
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
