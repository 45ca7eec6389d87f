// The ten most likely tokens of the step at the cursor, and the drawn one where it is none of them: the model's own probability and,
// when sampling, the share drawn from.

const ROWS = 11;

function buildRow() {
  const row = element("div", "row");
  row.setAttribute("role", "listitem");
  const parts = { row, mark: element("span", "mark"), word: element("span", "word"), model: element("div", "bar"), drawn: element("div", "bar drawn") };
  const bars = element("div", "bars");
  const share = element("span", "share");
  Object.assign(parts, { modelShare: element("b"), drawnShare: element("i") });
  bars.append(parts.model, parts.drawn);
  share.append(parts.modelShare, parts.drawnShare);
  row.append(parts.mark, parts.word, bars, share);
  return parts;
}

function drawRow(parts, candidate, picked, sampling, labels) {
  const { row, mark, word, model, drawn, modelShare, drawnShare } = parts;
  row.classList.toggle("vacant", !candidate);
  if (!candidate) return;
  row.classList.toggle("picked", picked);
  setText(mark, picked ? "▶" : "");
  if (parts.candidate?.id !== candidate.id) word.replaceChildren(tokenNodes(candidate));
  parts.candidate = candidate;
  model.style.transform = `scaleX(${candidate.probability})`;
  drawn.style.transform = `scaleX(${candidate.drawn_from})`;
  drawn.hidden = drawnShare.hidden = !sampling;
  setText(modelShare, percent(candidate.probability));
  setText(drawnShare, sampling ? percent(candidate.drawn_from) : "");
}

/** What a row's tooltip says, made only when it is wanted. */
function explain(parts, labels) {
  const { id } = parts.candidate;
  parts.word.title = `${textOf(parts.candidate) ?? ""}\n${fill(labels.candidates_id, { id, bytes: hex(bytesOf(parts.candidate)) })}`;
}

function legend() {
  const box = element("div", "ob-legend");
  const entries = ["swatch-model", "swatch-drawn"].map((name) => {
    const entry = element("span");
    const words = element("span");
    entry.append(element("i", name), words);
    box.append(entry);
    return words;
  });
  return { box, entries };
}

function createCandidates(view) {
  const [head, list, foot] = [".head", ".rows", ".foot"].map((selector) => view.root.querySelector(selector));
  const rows = Array.from({ length: ROWS }, buildRow);
  const { box, entries } = legend();
  const says = element("div", "says");
  list.append(...rows.map((parts) => parts.row));
  for (const parts of rows) parts.word.onpointerenter = () => explain(parts, view.data.labels);
  foot.append(box, says);

  const draw = ({ store, shown, full, labels, theme }) => {
    if (full) view.root.classList.toggle("narrow", view.root.clientWidth < theme.size * 19);
    setAttribute(list, "aria-label", labels.candidates_name);
    list.hidden = foot.hidden = shown === 0;
    if (!shown) {
      setText(head, labels.candidates_none);
      return;
    }
    const token = generatedToken(store, shown - 1);
    const { candidates } = generatedStep(store, shown - 1);
    const chosen = candidates.find((candidate) => candidate.id === token.id);
    const sampling = candidates.some((candidate) => candidate.drawn_from > 0 && candidate.drawn_from < 1);
    setText(head, fill(labels.candidates_head, { n: grouped(shown), position: grouped(token.position) }));
    rows.forEach((parts, at) => drawRow(parts, candidates[at], candidates[at]?.id === token.id, sampling, labels));
    list.classList.toggle("sampling", sampling);
    box.hidden = !sampling;
    setText(entries[0], labels.candidates_model);
    setText(entries[1], labels.candidates_drawn);
    const values = { model: percent(chosen?.probability ?? 0), drawn: percent(chosen?.drawn_from ?? 0) };
    setText(says, fill(sampling ? labels.candidates_sampled : labels.candidates_greedy, values));
  };
  return { draw, sized: true };
}

export default function candidates(component) {
  return live.mount("candidates", component, createCandidates);
}
