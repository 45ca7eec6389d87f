// The newest column on its way onto the paper: layer by layer where there is time to watch, at once where there is none.
// Knows one column of a grid and the clock of the page; knows no run.

const WATCHED_MS = 140; // tokens that follow each other faster than this are not watched one by one
const ALONE_MS = 600; // and after so long a pause a token is, whatever the pace
const STROKE_MAX_MS = 420;
const STROKE_SHARE = 0.6; // of the time since the last token

class Pen {
  constructor(grid) {
    Object.assign(this, { grid, frame: 0, column: null, last: performance.now(), still: matchMedia("(prefers-reduced-motion: reduce)") });
  }

  /** How long the token that has just come may take to be drawn; `slowly`: in slow motion. */
  patience(slowly) {
    const [now, before] = [performance.now(), this.last];
    this.last = now;
    const since = now - before;
    if (this.still.matches || document.hidden || since < (slowly ? WATCHED_MS : ALONE_MS)) return 0;
    return Math.min(since * STROKE_SHARE, STROKE_MAX_MS);
  }

  /** Write a column in `ms` milliseconds. */
  begin(position, kind, ms) {
    this.column = { position, kind, ms, from: performance.now(), done: 0 };
    this.go();
  }

  go() {
    const { column, grid } = this;
    const { layers } = grid.layout;
    const due = Math.min(Math.ceil(((performance.now() - column.from) / column.ms) * layers), layers);
    if (due > column.done) grid.piece(column.position, column.kind, column.done, due);
    column.done = Math.max(due, column.done);
    if (column.done >= layers) this.column = null;
    else this.frame = requestAnimationFrame(() => this.go());
  }

  /** Leave a column as it is: whoever calls paints it anew. */
  drop() {
    cancelAnimationFrame(this.frame);
    this.column = null;
  }
}
