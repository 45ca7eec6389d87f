// How the columns are lit by the attention of one step: a bar above each one, and light that falls on it.
// Knows weights and where columns lie; knows no run and no words.

const BAR_LEAST = 1;
const BREAK = 3; // the gap in a bar that is cut off
const LIGHT = 0.45; // of the strongest column: its own colour shows through

/** The strongest weight apart from the very first token's, which is often many times all others (a sink). */
function strongestWeight(weights) {
  let strongest = 0;
  for (let at = 1; at < weights.length; at += 1) if (weights[at] > strongest) strongest = weights[at];
  return strongest || weights[0] || 1;
}

class Glow {
  constructor(canvas, grid) {
    Object.assign(this, { canvas, grid, lit: null });
  }

  /** Light the columns by `weights`, one per position; null: none. Heights are roots, so that small weights can be seen. */
  show(weights, theme) {
    if (!weights && !this.lit) return;
    this.lit = weights;
    const { grid } = this;
    const pen = sizedContext(this.canvas, grid.width, LANE + grid.height);
    if (!weights) return;
    const strongest = strongestWeight(weights);
    const light = pen.createLinearGradient(0, LANE, 0, LANE + grid.height);
    light.addColorStop(0, theme.notes);
    light.addColorStop(1, theme.notesTint);
    const last = Math.min(weights.length, grid.end);
    for (let position = grid.first; position < last; position += 1) this.column(pen, position, weights[position] / strongest, theme, light);
    this.shade(pen);
  }

  /** No light falls on what a layer had dropped before it read. It then had one cell more than it keeps: what was read brings its own. */
  shade(pen) {
    const { grid, lit } = this;
    const { row } = grid.layout;
    for (const [from, to, window] of grid.spans) {
      const dropped = window === null ? 0 : grid.left(Math.max(lit.length - window - 1, grid.first));
      if (dropped > 0) pen.clearRect(0, LANE + from * row, dropped, (to - from) * row);
    }
  }

  column(pen, position, share, theme, light) {
    const { grid } = this;
    const x = grid.left(position);
    const wide = grid.left(position + 1) - x - grid.layout.gap;
    const root = Math.sqrt(Math.min(share, 1));
    const tall = Math.max(Math.round(root * (LANE - 3)), BAR_LEAST);
    pen.fillStyle = theme.notes;
    pen.fillRect(x, LANE - 1 - tall, wide, tall);
    if (share > 1) pen.clearRect(x, LANE - 1 - Math.round(tall / 2), wide, BREAK);
    pen.globalAlpha = root * LIGHT;
    pen.fillStyle = light;
    pen.fillRect(x, LANE, wide, grid.height);
    pen.globalAlpha = 1;
  }
}
