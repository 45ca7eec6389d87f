// How one token was chosen, or would be: candidates by stages as a table, and the ruler of the draw.
// Knows what the page gives it; knows no run.

function createStages(view) {
  const [head, body, ruler, pin, number, pieces, marks, note] = ["thead", "tbody", ".ruler", ".pin", ".pin .number", ".pieces", ".ticks", ".note"].map(
    (selector) => view.root.querySelector(selector),
  );

  const draw = ({ full, data, labels }) => {
    if (!full) return;
    const { found, own } = data;
    const table = tableOf(found, own, labels);
    setAttribute(view.root.querySelector("table"), "aria-label", fill(labels.stages_name, { n: found.rows.length }));
    head.replaceChildren(table.head);
    body.replaceChildren(...table.lines);

    const idle = found.temperature === 0;
    const drawn = found.drawn.toFixed(4);
    ruler.classList.toggle("idle", idle);
    pin.style.setProperty("--at", `${(found.drawn * 100).toFixed(3)}%`);
    setText(number, fill(idle ? labels.stages_unused : labels.stages_pin, { n: drawn }));
    pieces.replaceChildren(...piecesOf(found, view.width || view.root.clientWidth || 800, labels));
    if (!marks.firstChild) marks.append(...ticks());
    const fell = found.rows.find((row) => row.id === found.would_write_id);
    setAttribute(ruler, "aria-label", fell ? fill(labels.stages_ruler, { n: drawn, token: tokenNodes(fell).textContent, share: percent(fell.share) }) : "");
    setText(note, idle ? labels.stages_note_idle : labels.stages_note);
  };
  return { draw, sized: true };
}

export default function stages(component) {
  return live.mount("stages", component, createStages);
}
