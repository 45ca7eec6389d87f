// One row: a possible next token, its bars and shares, and the button that writes it instead. Knows one candidate; knows no run.

function buildRow() {
  const row = element("div", "row");
  row.setAttribute("role", "listitem");
  const parts = { row, mark: element("span", "mark"), word: element("span", "word"), model: element("div", "bar"), drawn: element("div", "bar drawn") };
  const bars = element("div", "bars");
  const share = element("span", "share");
  Object.assign(parts, { modelShare: element("b"), drawnShare: element("i"), write: element("button", "write", "✎") });
  parts.write.type = "button";
  bars.append(parts.model, parts.drawn);
  share.append(parts.modelShare, parts.drawnShare);
  row.append(parts.mark, parts.word, bars, share, parts.write);
  return parts;
}

/** `picked`: it is what was written; `left`: id of the token that another branch wrote here; `sampling`: shares are told. */
function drawRow(parts, candidate, { picked, left, sampling }, data, labels) {
  const { row, mark, word, model, drawn, modelShare, drawnShare, write } = parts;
  row.classList.toggle("vacant", !candidate);
  if (!candidate) return;
  row.classList.toggle("picked", picked);
  write.hidden = picked || !data.choosable;
  setText(mark, picked ? "▶" : candidate.id === left ? "▷" : "");
  if (parts.candidate?.id !== candidate.id || parts.labels !== labels) {
    word.replaceChildren(tokenNodes(candidate));
    write.title = labels.candidates_write;
    write.setAttribute("aria-label", `${labels.candidates_write} ${textOf(candidate) ?? hex(bytesOf(candidate))}`);
  }
  Object.assign(parts, { candidate, labels });
  model.style.transform = `scaleX(${candidate.probability})`;
  drawn.style.transform = `scaleX(${candidate.drawn_from})`;
  drawn.hidden = drawnShare.hidden = !sampling;
  setText(modelShare, percent(candidate.probability));
  setText(drawnShare, sampling ? percent(candidate.drawn_from) : "");
}

/** What a row's tooltip says, made only when it is wanted. */
function explain(parts, labels) {
  const { id } = parts.candidate;
  parts.word.title = `${textOf(parts.candidate) ?? labels.candidates_partial}\n${fill(labels.candidates_id, { id, bytes: hex(bytesOf(parts.candidate)) })}`;
}
