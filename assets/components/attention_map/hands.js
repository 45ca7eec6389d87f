// The reader's hands on the map: the mouse over cells and row names, the keys that walk from cell to cell.
// Knows what a movement means; does not know what is drawn or said for it.

const PAGE = 10;
const PICKS = new Set(["Enter", " "]);
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-PAGE, 0], PageDown: [PAGE, 0], Home: [0, -Infinity], End: [0, Infinity] };

/** A mouse position as {row, column}; over the row names, `columns` false, there is no column. */
function cellUnder(map, event, columns) {
  const box = map.painter.cells.getBoundingClientRect();
  const index = (offset) => Math.min(Math.max(Math.floor(offset / map.layout.cell), 0), map.cells.count - 1);
  return { row: index(event.clientY - box.top), column: columns ? index(event.clientX - box.left) : null };
}

function followMouse(map) {
  const { cells, rows } = map.painter;
  cells.onpointermove = (event) => map.point(cellUnder(map, event, true));
  rows.onpointermove = (event) => map.point(cellUnder(map, event, false));
  cells.onpointerleave = rows.onpointerleave = () => map.point(null);
  cells.onclick = (event) => map.pick(cellUnder(map, event, true));
  rows.onclick = (event) => map.pick(cellUnder(map, event, false));
}

/** The cell that a key leads to: never above the diagonal. */
function moved({ count }, from, [down, right]) {
  const row = Math.min(Math.max(from.row + down, 0), count - 1);
  return { row, column: Math.min(Math.max((from.column ?? 0) + right, 0), row) };
}

function followKeys(map) {
  const { grid } = map;
  grid.onfocus = () => {
    if (map.cells && grid.matches(":focus-visible")) map.point(map.beginning());
  };
  grid.onblur = () => map.point(null);
  grid.onkeydown = (event) => {
    const ours = event.key in MOVES || PICKS.has(event.key) || event.key === "Escape";
    if (!map.cells || event.ctrlKey || event.altKey || event.metaKey || !ours) return;
    event.preventDefault();
    event.stopPropagation(); // the page's own arrow keys and Space move the run
    const from = map.pointed;
    if (event.key === "Escape") map.point(null);
    else if (PICKS.has(event.key)) map.pick(from ?? map.beginning());
    else map.point(from ? moved(map.cells, from, MOVES[event.key]) : map.beginning());
    if (map.pointed) map.reveal(map.pointed);
  };
}
