// The sheet of one reading: columns are tokens, rows are layers, bars beside them the layers' times.
// Knows sizes and strokes; does not know when anything is drawn, nor why.

const GUTTER = 36;
const BARS = 150; // room at the right for the layers' times
const BARS_NARROW = 62;
const BARS_MAX = 380;
const NARROW = 520;
const TOP = 24; // the row of the first answer token
const TALL = 344; // of all layers together, aimed at
const ROW_MIN = 4;
const ROW_MAX = 20;
const CELL_MIN = 2;
const CELL_MAX = 40;
const NAMED_CELL = 13; // narrower columns have no room for their token's text
const NAME_TALL = 84;
const BAND = 8;

/** Sizes for a width: columns as wide as fit; where they would be thinner than CELL_MIN, one column stands for `per` tokens. */
function layOut(width, tokens, layers) {
  const least = width < NARROW ? BARS_NARROW : BARS;
  const room = Math.max(width - GUTTER - least, 60);
  const per = Math.max(Math.ceil((tokens * CELL_MIN) / room), 1);
  const columns = Math.max(Math.ceil(tokens / per), 1);
  const cell = Math.min(room / columns, CELL_MAX);
  const row = Math.min(Math.max(Math.floor(TALL / layers), ROW_MIN), ROW_MAX);
  const named = per === 1 && cell >= NAMED_CELL;
  const band = TOP + (layers + 1) * row + 8;
  const height = band + BAND + (named ? NAME_TALL : 4);
  const right = GUTTER + Math.round(columns * cell);
  const bars = Math.min(width - right, BARS_MAX);
  return { width, bars, worded: least === BARS, per, columns, cell, row, layers, named, band, height, right };
}

/** A token's text for a column's foot: white space visible, hex where its bytes are no characters. */
function shortName(token) {
  const text = textOf(token);
  if (text === null) return hex(bytesOf(token).subarray(0, 3));
  const marked = Array.from(text, (char) => (HIDDEN.test(char) ? markOf(char) : char));
  return marked.length > 9 ? `${marked.slice(0, 8).join("")}…` : marked.join("");
}

/** Paints the sheet: rows of cells, the layers' times beside them, the tokens at the foot. Row -1 is the embedding. */
class Sheet {
  constructor(canvas) {
    this.canvas = canvas;
  }

  start(layout, tokens, times, theme, labels) {
    Object.assign(this, { layout, theme, times, longest: Math.max(...times, 1e-9), states: new Map() });
    this.pen = sizedContext(this.canvas, layout.width, layout.height);
    this.kinds = Array.from({ length: layout.columns }, (_, at) => tokens[at * layout.per]?.kind ?? "prompt");
    this.ticks();
    this.foot(tokens);
    this.font(0.66);
    Object.assign(this.pen, { fillStyle: theme.muted, textAlign: "left", textBaseline: "middle" });
    this.pen.fillText(labels.reading_embedding, layout.right + 12, this.top(-1) + layout.row / 2, layout.bars - 14);
  }

  font(size, weight = 400, family = this.theme.sans) {
    this.pen.font = `${weight} ${Math.max(Math.round(this.theme.size * size), 9)}px ${family}`;
  }

  left(column) {
    return GUTTER + Math.round(column * this.layout.cell);
  }

  top(layer) {
    const { layers, row } = this.layout;
    return TOP + (layers - 1 - layer) * row + (layer < 0 ? 4 : 0);
  }

  ticks() {
    const { pen, theme, layout } = this;
    const every = Math.max(roundStep(layout.layers, Math.floor((layout.layers * layout.row) / 20)), 1);
    this.font(0.66, 400, theme.mono);
    Object.assign(pen, { fillStyle: theme.muted, textAlign: "right", textBaseline: "middle" });
    for (let layer = 0; layer < layout.layers; layer += every) pen.fillText(String(layer), GUTTER - 13, this.top(layer) + layout.row / 2);
  }

  /** Template and prompt told apart by colour and pattern, and each column's token where there is room. */
  foot(tokens) {
    const { pen, theme, layout } = this;
    const lines = hatch(pen, theme.template, theme.templateWash);
    this.kinds.forEach((kind, column) => {
      pen.fillStyle = kind === "template" ? lines : theme.prompt;
      const x = this.left(column);
      pen.fillRect(x, layout.band, Math.max(this.left(column + 1) - x - (layout.cell > 4 ? 1 : 0), 1), BAND);
    });
    if (!layout.named) return;
    this.font(0.72, 400, theme.mono);
    Object.assign(pen, { textAlign: "right", textBaseline: "middle" });
    tokens.forEach((token, column) => {
      pen.save();
      pen.translate((this.left(column) + this.left(column + 1) - 1) / 2, layout.band + BAND + 5);
      pen.rotate(-Math.PI / 2);
      pen.fillStyle = token.kind === "template" ? theme.muted : theme.ink;
      pen.fillText(shortName(token), 0, 0, NAME_TALL - 8);
      pen.restore();
    });
  }

  /** One row of cells as "blank", "busy" or "done", drawn only where that is new. */
  row(layer, state) {
    if (this.states.get(layer) === state) return;
    this.states.set(layer, state);
    const { pen, theme, layout } = this;
    const y = this.top(layer);
    const gap = layout.cell > 4 ? 1 : 0;
    const tall = layout.row - (layout.row > 4 ? 1 : 0.5);
    pen.clearRect(GUTTER - 11, y, layout.right - GUTTER + 11, layout.row);
    this.kinds.forEach((kind, column) => {
      const x = this.left(column);
      const wide = this.left(column + 1) - x - gap;
      pen.fillStyle = theme[kind + { blank: "Wash", busy: "", done: "Tint" }[state]];
      pen.fillRect(x, y, wide, tall);
      if (state !== "done" || kind !== "template" || wide < 4 || tall < 4) return;
      pen.fillStyle = theme.templateWash;
      pen.fillRect(x + 1, y + 1, wide - 2, tall - 2);
    });
    if (state === "busy") this.pointer(y + tall / 2);
  }

  /** ▸ in front of the layer at work. */
  pointer(y) {
    const { pen, theme } = this;
    pen.fillStyle = theme.prompt;
    pen.beginPath();
    pen.moveTo(GUTTER - 10, y - 4);
    pen.lineTo(GUTTER - 3, y);
    pen.lineTo(GUTTER - 10, y + 4);
    pen.fill();
  }

  /** The time of a layer, as much of it as has gone by (0 … 1). */
  bar(layer, share, labels) {
    const { pen, theme, layout, times } = this;
    const [x, y] = [layout.right + 12, this.top(layer)];
    const words = layout.worded && layout.row >= 9;
    const room = layout.bars - 16 - (words ? 52 : 0);
    const wide = (times[layer] / this.longest) * room;
    pen.clearRect(x - 2, y, layout.bars, layout.row);
    pen.fillStyle = theme.prompt;
    if (share > 0) pen.fillRect(x, y + layout.row * 0.2, wide * share, layout.row * 0.55);
    if (share < 1 || !words) return;
    this.font(0.64, 400, theme.mono);
    Object.assign(pen, { fillStyle: theme.muted, textAlign: "left", textBaseline: "middle" });
    pen.fillText(secondsText(times[layer], labels), x + wide + 5, y + layout.row / 2);
  }

  /** The one cell at the last position from which the first token is read off; `word`: its text, null before that. */
  first(word, labels) {
    const { pen, theme, layout } = this;
    pen.clearRect(0, 0, layout.width, TOP);
    const x = this.left(layout.columns - 1);
    const wide = Math.max(this.left(layout.columns) - x - (layout.cell > 4 ? 1 : 0), 4);
    pen.fillStyle = word === null ? theme.answerWash : theme.answer;
    pen.fillRect(x, 2, wide, TOP - 8);
    this.font(0.78, 600);
    const words = word === null ? labels.reading_first_wait : fill(labels.reading_first, { text: word });
    const fits = pen.measureText(words).width + 8 < x;
    Object.assign(pen, { fillStyle: word === null ? theme.muted : theme.ink, textAlign: fits ? "right" : "left", textBaseline: "middle" });
    pen.fillText(words, fits ? x - 6 : x + wide + 6, TOP / 2 - 1);
    this.font(0.66);
    Object.assign(pen, { fillStyle: theme.muted, textAlign: "left" });
    if (fits && layout.worded && this.times.length) pen.fillText(labels.reading_bars, layout.right + 12, TOP / 2 - 1);
  }
}
