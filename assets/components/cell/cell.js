// One cell of the notes: for every set of notes (KV head) its key and its value, each as a row of bars that stand on a zero line.
// Up is positive, down is negative, blue and mustard say the same once more. Knows numbers; knows no run.

const TALL_FEW = 48; // CSS pixels of a row
const TALL_MANY = 26;
const FEW = 8; // rows
const SIDE_BY_SIDE = 128; // numbers of a vector, at most, where two rows share a line
const VALUE = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4, useGrouping: false });
const HAND = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };

/** Least, greatest and length (L2) of a vector. */
function figuresOf(vector) {
  let [least, most, squares] = [Infinity, -Infinity, 0];
  for (const value of vector) {
    if (value < least) least = value;
    if (value > most) most = value;
    squares += value * value;
  }
  return { least, most, norm: Math.sqrt(squares) };
}

/** A number with a true minus sign. */
function signed(value) {
  return VALUE.format(value).replace("-", "−");
}

/** Rows in the order in which they are drawn: head by head, its key before its value. `numbers`: [2, heads, width]. */
function rowsOf(numbers, heads, width) {
  const rows = [];
  for (let head = 0; head < heads; head += 1) {
    for (let part = 0; part < 2; part += 1) {
      const start = (part * heads + head) * width;
      rows.push({ part, head, vector: numbers.subarray(start, start + width) });
    }
  }
  return rows;
}

/** Bars of one vector. `scale`: the size that reaches the edge. */
function paintRow(canvas, vector, scale, wide, tall, theme) {
  const pen = sizedContext(canvas, wide, tall);
  const middle = tall / 2;
  const edge = (at) => Math.round((at * wide) / vector.length);
  const gap = wide / vector.length > 4 ? 1 : 0;
  pen.fillStyle = theme.line;
  pen.fillRect(0, Math.floor(middle), wide, 1);
  vector.forEach((value, at) => {
    const high = scale ? (Math.abs(value) / scale) * (middle - 1) : 0;
    pen.fillStyle = value < 0 ? theme.notes : theme.prompt;
    pen.fillRect(edge(at), value < 0 ? middle : middle - high, Math.max(edge(at + 1) - edge(at) - gap, 1), Math.max(high, value === 0 ? 0 : 0.75));
  });
}

class Cell {
  constructor(view) {
    const find = (selector) => view.root.querySelector(selector);
    Object.assign(this, { view, box: find(".rows"), readout: find(".readout"), legend: find(".ob-legend"), rows: [], at: null, drawn: null });
    this.box.onpointermove = (event) => this.point(this.under(event));
    this.box.onclick = (event) => this.point(this.under(event));
    this.box.onpointerleave = () => this.point(null);
    this.box.onblur = () => this.point(null);
    this.box.onfocus = () => this.box.matches(":focus-visible") && this.rows.length && this.point({ row: 0, at: 0 });
    this.box.onkeydown = (event) => this.obey(event);
  }

  under(event) {
    const row = this.rows.findIndex(({ strip }) => strip.contains(event.target));
    if (row < 0) return null;
    const [box, count] = [this.rows[row].strip.getBoundingClientRect(), this.rows[row].vector.length];
    return { row, at: Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * count), 0), count - 1) };
  }

  obey(event) {
    if (!(event.key in HAND) || event.ctrlKey || event.altKey || event.metaKey || !this.rows.length) return;
    event.preventDefault();
    event.stopPropagation(); // the page's own arrow keys move the run
    const [down, right] = HAND[event.key];
    const from = this.at ?? { row: 0, at: 0 };
    const row = Math.min(Math.max(from.row + down, 0), this.rows.length - 1);
    this.point({ row, at: Math.min(Math.max(from.at + right, 0), this.rows[row].vector.length - 1) });
    this.rows[row].strip.scrollIntoView({ block: "nearest" });
  }

  point(at) {
    if (at?.row === this.at?.row && at?.at === this.at?.at) return;
    if (this.at) this.rows[this.at.row].mark.hidden = true;
    this.at = at;
    if (at) {
      const { mark, vector } = this.rows[at.row];
      mark.hidden = false;
      mark.style.left = `calc(${(at.at / vector.length) * 100}% - 2px)`;
      mark.style.width = `calc(${100 / vector.length}% + 3px)`;
    }
    this.tell();
  }

  name({ part, head }) {
    const { labels } = this.view.data;
    return fill(part ? labels.cell_value : labels.cell_key, { n: head });
  }

  tell() {
    const { labels } = this.view.data;
    this.readout.classList.toggle("hint", !this.at);
    if (!this.at) {
      setText(this.readout, labels.cell_hint);
      return;
    }
    const row = this.rows[this.at.row];
    const places = { name: this.name(row), n: this.at.at, count: row.vector.length, value: signed(row.vector[this.at.at]) };
    setText(this.readout, fill(labels.cell_number, places));
  }

  build({ numbers, heads, width }, labels) {
    this.at = null;
    this.rows = rowsOf(floatsOf(numbers), heads, width).map((row) => {
      const strip = element("div", "strip");
      const mark = element("div", "at");
      mark.hidden = true;
      const canvas = element("canvas");
      strip.append(canvas, mark);
      const figures = figuresOf(row.vector);
      const said = fill(labels.cell_figures, { least: signed(figures.least), most: signed(figures.most), norm: signed(figures.norm) });
      return { ...row, ...figures, strip, mark, canvas, said };
    });
    this.view.root.classList.toggle("pairs", width <= SIDE_BY_SIDE);
    this.box.replaceChildren(...this.rows.map((row) => this.frame(row)));
  }

  /** A row's words above its bars. */
  frame(row) {
    const [frame, says] = [element("div", "row"), element("div", "says")];
    says.append(element("span", "name", this.name(row)), element("span", "figures", row.said));
    frame.append(says, row.strip);
    return frame;
  }

  draw({ full, data, labels, theme }) {
    if (!full || !this.view.root.clientWidth) return;
    const known = `${data.numbers} ${labels.cell_hint}`;
    if (known !== this.drawn) this.build(data, labels);
    this.drawn = known;
    const scales = [0, 1].map((part) => Math.max(...this.rows.filter((row) => row.part === part).map((row) => Math.max(row.most, -row.least))));
    const tall = this.rows.length > FEW ? TALL_MANY : TALL_FEW;
    for (const row of this.rows) row.strip.style.height = `${tall}px`;
    const widths = this.rows.map((row) => row.strip.clientWidth);
    this.rows.forEach((row, at) => paintRow(row.canvas, row.vector, scales[row.part], widths[at], tall, theme));
    this.describe(labels, data.name, scales);
    this.tell();
  }

  describe(labels, name, scales) {
    const [key, value] = scales.map((scale) => signed(scale));
    const kinds = { up: labels.cell_up, down: labels.cell_down };
    const entries = Object.entries(kinds).map(([kind, words]) => {
      const entry = element("span");
      entry.append(element("i", `k-${kind}`), words);
      return entry;
    });
    this.legend.replaceChildren(...entries, element("span", "", fill(labels.cell_scale, { key, value })));
    setAttribute(this.box, "aria-label", `${name}. ${this.rows.map((row) => `${this.name(row)}: ${row.said}`).join(". ")}. ${labels.cell_hint}`);
  }
}

export default function cell(component) {
  return live.mount("cell", component, (view) => {
    const own = new Cell(view);
    return { draw: (now) => own.draw(now), sized: true };
  });
}
