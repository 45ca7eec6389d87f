// The ruler from 0 to 1 on which the drawn number falls: a piece per token, as wide as its share, in the order of ids.
// Knows the stages of one choice; draws no table.

const NARROWEST_PX = 3; // a narrower piece is one of the others, unless the number fell on it or it was written
const NAMED_PX = 30;
const TICKS = 5;

function pieceOf(row, found, width, labels) {
  const piece = element("span", "piece");
  const marked = row.id === found.would_write_id ? "would" : row.id === found.written_id ? "written" : "";
  if (marked) piece.classList.add(marked);
  piece.style.left = `${(row.begins * 100).toFixed(4)}%`;
  piece.style.width = `${(row.share * 100).toFixed(4)}%`;
  const until = Math.min(row.begins + row.share, 1);
  piece.title = fill(labels.stages_piece, { token: tokenNodes(row).textContent, share: percent(row.share), from: row.begins.toFixed(4), to: until.toFixed(4) });
  if (row.share * width >= NAMED_PX) piece.append(tokenNodes(row));
  return piece;
}

function piecesOf(found, width, labels) {
  const wide = found.rows.filter((row) => row.share > 0 && (row.share * width >= NARROWEST_PX || row.id === found.would_write_id || row.id === found.written_id));
  return wide.sort((left, right) => left.begins - right.begins).map((row) => pieceOf(row, found, width, labels));
}

function ticks() {
  return Array.from({ length: TICKS }, (_, at) => {
    const tick = element("span", "tick", String(at / (TICKS - 1)));
    tick.style.left = `${(at / (TICKS - 1)) * 100}%`;
    return tick;
  });
}
