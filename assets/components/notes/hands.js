// The reader's hands on the notes: the mouse over cells, the keys that walk from cell to cell.
// Knows what a movement means; does not know what is drawn or said for it.

const PAGE = 10;
const OPENS = new Set(["Enter", " "]);
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [0, -PAGE], PageDown: [0, PAGE], Home: [0, -Infinity], End: [0, Infinity] };

/** A mouse position as {layer, position}. */
function cellUnder({ sheet, grid }, event) {
  const box = sheet.getBoundingClientRect();
  return { layer: grid.layerAt(event.clientY - box.top - LANE), position: grid.positionAt(event.clientX - box.left) };
}

function followMouse(notes) {
  const { sheet } = notes;
  sheet.onpointermove = (event) => notes.point(cellUnder(notes, event));
  sheet.onpointerleave = () => notes.point(null);
  sheet.onclick = (event) => notes.open(cellUnder(notes, event));
}

/** The cell that a key leads to: among the written ones, and one column beyond. */
function moved({ grid, tokens }, from, [down, right]) {
  const last = Math.min(tokens, grid.end - 1);
  const layer = Math.min(Math.max(from.layer + down, 0), grid.layout.layers - 1);
  const position = right === Infinity ? tokens - 1 : Math.min(Math.max(from.position + right, grid.first), last);
  return { layer, position };
}

function followKeys(notes) {
  const { sheet } = notes;
  sheet.onfocus = () => {
    if (notes.tokens && sheet.matches(":focus-visible")) notes.point(notes.beginning());
  };
  sheet.onblur = () => notes.point(null);
  sheet.onkeydown = (event) => {
    const ours = event.key in MOVES || OPENS.has(event.key) || event.key === "Escape";
    if (!notes.tokens || event.ctrlKey || event.altKey || event.metaKey || !ours) return;
    const from = notes.pointed;
    if (event.key === "Escape") {
      notes.point(null); // and the page, which hears of it too, closes the opened cell
      return;
    }
    event.preventDefault();
    event.stopPropagation(); // the page's own arrow keys and Space move the run
    if (!OPENS.has(event.key)) notes.point(from ? moved(notes, from, MOVES[event.key]) : notes.beginning());
    else if (!event.repeat) notes.open(from ?? notes.beginning());
    if (notes.pointed) notes.reveal(notes.pointed);
  };
}
