// The attention map's picture: which cells there are, what they hold, and how they and their axes are painted.
// Knows weights, tokens and colours; knows no words and no reader.

const CELL_MAX = 30; // CSS pixels
const CELL_MIN = 1.6; // below it the map scrolls
const APART_FROM = 5; // cells of this size stand apart by a hairline
const LABEL_MAX = 14; // characters
const BAR = 5; // width of the role bars along both axes
const STEPS = 512; // of the colour scale

/** The weights of a lower triangle, row by row, from base64 of float32 (little-endian, as every browser's own). */
function readTriangle(text) {
  return new Float32Array(Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer);
}

/** Where a weight stands on the colour scale, 0 … 1: as its root, because most weights are small and their order should be seen. */
function onScale(weight) {
  return Math.sqrt(Math.min(Math.max(weight, 0), 1));
}

/** Paper to notes to ink as RGBA bytes, STEPS colours. */
function colourTable(pen, stops) {
  const parsed = stops.map(([at, colour]) => {
    pen.fillStyle = colour; // the canvas hands any CSS colour back as #rrggbb
    return [at, [1, 3, 5].map((start) => parseInt(pen.fillStyle.slice(start, start + 2), 16))];
  });
  return Array.from({ length: STEPS }, (_, step) => {
    const place = step / (STEPS - 1);
    const upper = Math.max(parsed.findIndex(([at]) => at >= place), 1);
    const [[from, low], [to, high]] = [parsed[upper - 1], parsed[upper]];
    return low.map((value, channel) => Math.round(value + ((high[channel] - value) * (place - from)) / (to - from)));
  });
}

function plain(token) {
  return tokenNodes(token).textContent;
}

function shortened(text) {
  const letters = [...text];
  return letters.length > LABEL_MAX ? `${letters.slice(0, LABEL_MAX - 1).join("")}…` : text;
}

/** Sizes for a width: the largest square cells that fit, on whole screen pixels where they stand apart. */
function layOut(width, count, gutter) {
  const density = Math.max(1, window.devicePixelRatio || 1);
  const room = Math.max(width - gutter - 2, 40);
  let cell = Math.min(room / count, CELL_MAX);
  if (cell >= APART_FROM) cell = Math.floor(cell * density) / density;
  if (cell < CELL_MIN) cell = CELL_MIN;
  const edge = (at) => Math.round(at * cell * density) / density;
  return { cell, count, gutter, edge, side: edge(count), gap: cell >= APART_FROM ? 1 / density : 0 };
}

/** The picture's numbers: which cells there are and what they hold. */
class Cells {
  constructor({ triangle, tokens, first, window, first_shown: firstShown }) {
    Object.assign(this, { weights: readTriangle(triangle), tokens, first, window, firstShown, count: tokens.length });
    this.names = tokens.map(plain);
  }

  weight(row, column) {
    return this.weights[(row * (row + 1)) / 2 + column];
  }

  later(row, column) {
    return column > row;
  }

  outside(row, column) {
    return this.window !== null && row - column >= this.window;
  }

  unshown(column) {
    return !this.firstShown && this.first + column === 0;
  }

  rowOf(position) {
    const row = position === null || position === undefined ? -1 : position - this.first;
    return row >= 0 && row < this.count ? row : null;
  }

  /** The columns that a row reads most, strongest first. */
  strongest(row, most) {
    const columns = Array.from({ length: row + 1 }, (_, column) => column).filter((column) => !this.unshown(column));
    return columns.sort((left, right) => this.weight(row, right) - this.weight(row, left)).slice(0, most);
  }
}

/** Paints cells and axes. */
class MapPainter {
  constructor(find) {
    Object.assign(this, { cells: find(".cells"), over: find(".over"), rows: find(".rows"), columns: find(".columns"), tile: document.createElement("canvas") });
  }

  paint(cells, layout, theme, table) {
    Object.assign(this, { map: cells, layout, theme });
    const { count, side } = layout;
    const pen = sizedContext(this.cells, side, side);
    const image = new ImageData(count, count);
    for (let row = 0; row < count; row += 1) {
      for (let column = 0; column <= row; column += 1) {
        if (cells.outside(row, column) || cells.unshown(column)) continue;
        const at = 4 * (row * count + column);
        image.data.set(table[Math.round(onScale(cells.weight(row, column)) * (STEPS - 1))], at);
        image.data[at + 3] = 255;
      }
    }
    Object.assign(this.tile, { width: count, height: count });
    this.tile.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(this.tile, 0, 0, side, side);
    if (layout.gap) this.separate(pen);
    this.veil(pen);
    this.frame(pen);
  }

  /** Hairlines between the cells. */
  separate(pen) {
    const { count, side, gap, edge } = this.layout;
    for (let at = 1; at <= count; at += 1) {
      pen.clearRect(edge(at) - gap, 0, gap, side);
      pen.clearRect(0, edge(at) - gap, side, gap);
    }
  }

  /** Cells outside the window are hatched; a column that is left out is dotted round. */
  veil(pen) {
    const { map, layout, theme } = this;
    const { count, edge, side } = layout;
    if (map.window !== null && map.window < count) {
      pen.fillStyle = hatch(pen, theme.templateTint);
      for (let row = map.window; row < count; row += 1) pen.fillRect(0, edge(row), edge(row - map.window + 1), edge(row + 1) - edge(row));
    }
    if (map.unshown(0)) {
      pen.strokeStyle = theme.muted;
      pen.setLineDash([1, 3]);
      pen.strokeRect(0.5, 0.5, Math.max(edge(1) - 1, 1), side - 1);
      pen.setLineDash([]);
    }
  }

  /** The stairs under which a token looks: nothing stands above them. */
  frame(pen) {
    const { layout, theme } = this;
    const { count, edge, side } = layout;
    pen.strokeStyle = theme.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(0, 0.5);
    for (let at = 0; at < count; at += 1) {
      pen.lineTo(edge(at + 1) - 0.5, edge(at) + 0.5);
      pen.lineTo(edge(at + 1) - 0.5, edge(at + 1) + 0.5);
    }
    pen.stroke();
    pen.strokeRect(0.5, 0.5, 0, side - 1);
    pen.strokeRect(0.5, side - 0.5, side - 1, 0);
  }

  font(bold) {
    return `${bold ? "700 " : ""}${this.theme.label}px ${this.theme.mono}`;
  }

  /** Names and roles along both axes; the picked row and column are bold and always named. */
  axes(every, picked) {
    const { layout, rows, columns } = this;
    const { gutter, side } = layout;
    const down = sizedContext(rows, gutter, gutter + side);
    down.translate(0, gutter);
    this.axis(down, every, picked.row, (y, draw) => draw(gutter - BAR - 5, y));
    this.bars(down, (from, to) => [gutter - BAR - 1, layout.edge(from), BAR, layout.edge(to) - layout.edge(from)]);
    const across = sizedContext(columns, side, gutter);
    this.bars(across, (from, to) => [layout.edge(from), gutter - BAR - 1, layout.edge(to) - layout.edge(from), BAR]);
    across.rotate(-Math.PI / 2);
    this.axis(across, every, picked.column, (y, draw) => draw(BAR + 5 - gutter, y, "left"));
  }

  axis(pen, every, picked, place) {
    const { map, theme } = this;
    pen.textBaseline = "middle";
    const middle = (at) => Math.min(Math.max((this.layout.edge(at) + this.layout.edge(at + 1)) / 2, theme.label * 0.6), this.layout.side - theme.label * 0.6);
    const near = (at) => picked !== null && at !== picked && Math.abs(at - picked) * this.layout.cell < theme.label + 1;
    for (let at = 0; at < map.count; at += 1) {
      if ((at % every && at !== picked) || near(at)) continue;
      const { kind } = map.tokens[at];
      pen.font = this.font(at === picked);
      pen.fillStyle = theme[`${kind}Text`];
      place(middle(at), (x, y, align = "right") => {
        pen.textAlign = align;
        pen.fillText(shortened(map.names[at]), x, y, this.layout.gutter - BAR - 6);
      });
    }
  }

  /** Template hollow, prompt solid, answer in two lines: told apart without colour too. */
  bars(pen, box) {
    const { map, theme } = this;
    for (let from = 0, to = 0; from < map.count; from = to) {
      const { kind } = map.tokens[from];
      while (to < map.count && map.tokens[to].kind === kind) to += 1;
      const [x, y, wide, tall] = box(from, to);
      const role = kind === "generated" ? "answer" : kind;
      pen.fillStyle = pen.strokeStyle = theme[role];
      if (kind === "prompt") pen.fillRect(x, y, wide, tall);
      else if (kind === "template") pen.strokeRect(x + 0.5, y + 0.5, wide - 1, tall - 1);
      else if (wide > tall) for (const shift of [0, BAR - 2]) pen.fillRect(x, y + shift, wide, 2);
      else for (const shift of [0, BAR - 2]) pen.fillRect(x + shift, y, 2, tall);
    }
  }

  /** What is picked and what is pointed at: outlines over the cells, which stay as they are. */
  mark(picked, pointed) {
    const { layout, theme, over } = this;
    const { side, edge } = layout;
    const pen = sizedContext(over, side, side);
    const outline = (row, column, tall, wide, colour, width) => {
      pen.strokeStyle = theme.paper;
      pen.lineWidth = width + 2;
      pen.strokeRect(edge(column), edge(row), edge(column + wide) - edge(column), edge(row + tall) - edge(row));
      pen.strokeStyle = colour;
      pen.lineWidth = width;
      pen.strokeRect(edge(column), edge(row), edge(column + wide) - edge(column), edge(row + tall) - edge(row));
    };
    if (picked.column !== null) outline(picked.column, picked.column, layout.count - picked.column, 1, theme.prompt, 1);
    if (picked.row !== null) outline(picked.row, 0, 1, picked.row + 1, theme.ink, 1.5);
    if (picked.row !== null && picked.column !== null) outline(picked.row, picked.column, 1, 1, theme.answer, 2);
    if (!pointed) return;
    pen.globalAlpha = 0.14;
    pen.fillStyle = theme.ink;
    pen.fillRect(0, edge(pointed.row), side, edge(pointed.row + 1) - edge(pointed.row));
    if (pointed.column !== null) pen.fillRect(edge(pointed.column), 0, edge(pointed.column + 1) - edge(pointed.column), side);
    pen.globalAlpha = 1;
    if (pointed.column !== null) outline(pointed.row, pointed.column, 1, 1, theme.ink, 2);
  }
}
