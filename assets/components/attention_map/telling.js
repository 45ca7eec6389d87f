// What the map says: of a cell, of a row, of its colours and marks.
// Knows words, weights and positions; knows no pointer and no picture.

const TOLD = 5; // links of a row that are named
const TICKS = [0, 0.05, 0.25, 1];

/** Sentences about cells and rows. */
class Telling {
  constructor(cells, labels) {
    Object.assign(this, { cells, labels });
  }

  token(at) {
    return element("span", "token", this.cells.names[at]);
  }

  /** Of what is pointed at or picked: a cell, or a row where there is no column. */
  at({ row, column }) {
    return column === null ? this.row(row) : this.cell(row, column);
  }

  cell(row, column) {
    const { cells, labels } = this;
    const places = { query: this.token(row), q: cells.first + row, key: this.token(column), k: cells.first + column };
    if (cells.later(row, column)) return sentence(labels.attention_map_later, places);
    if (cells.outside(row, column)) return sentence(labels.attention_map_outside, { ...places, n: cells.window });
    const label = cells.unshown(column) ? labels.attention_map_unshown : labels.attention_map_cell;
    return sentence(label, { ...places, weight: weightText(cells.weight(row, column)) });
  }

  row(row) {
    return sentence(this.labels.attention_map_row, { query: this.token(row), q: this.cells.first + row, links: this.links(row) });
  }

  links(row) {
    const { cells, labels } = this;
    const text = (column) => fill(labels.attention_map_link, { key: cells.names[column], k: cells.first + column, weight: weightText(cells.weight(row, column)) });
    return cells.strongest(row, TOLD).map(text).join(" | ");
  }

  /** A row for readers who do not see the picture. */
  summary(row) {
    const { cells, labels } = this;
    return fill(labels.attention_map_reads, { query: cells.names[row], q: cells.first + row, links: this.links(row) });
  }
}

/** What the marks along the axes and on the cells mean; `every`: of how many tokens one is named. */
function writeLegend(box, cells, labels, every) {
  const kinds = { template: labels.live_template, prompt: labels.live_prompt, generated: labels.live_answer };
  const entries = Object.entries(kinds).filter(([kind]) => cells.tokens.some((token) => token.kind === kind));
  if (cells.window !== null && cells.window < cells.count) entries.push(["window", fill(labels.attention_map_window, { n: cells.window })]);
  if (cells.unshown(0)) entries.push(["first", labels.attention_map_first]);
  const nodes = entries.map(([kind, text]) => {
    const entry = element("span");
    entry.append(element("i", `k-${kind}`), text);
    return entry;
  });
  if (every > 1) nodes.push(element("span", "", fill(labels.attention_map_thinned, { n: every })));
  box.replaceChildren(...nodes);
}

/** The colour scale with its ticks, at the places where the weights stand on it. */
function writeScale(box, labels, stops) {
  setText(box.querySelector(".words"), labels.attention_map_scale);
  const places = stops.map(([place, colour]) => `${colour} ${place * 100}%`);
  box.querySelector(".bar").style.background = `linear-gradient(90deg, ${places.join(", ")})`;
  box.querySelector(".ticks").replaceChildren(...TICKS.map((weight) => {
    const tick = element("span", "", String(weight));
    tick.style.left = `${onScale(weight) * 100}%`;
    return tick;
  }));
}
