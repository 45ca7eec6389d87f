// One row per candidate, one column per stage: the score, then shares of which each stage adds up to 1; what a filter cut is struck out,
// and a line marks where it cut. Knows the stages of one choice; draws no ruler.

const SHARES = ["likely", "tempered", "after_top_k", "share"];
const FILTERS = { after_top_k: "tempered", share: "after_top_k" }; // a filter's column, and the one before it
const LIKELIEST = 12; // rows in order of likelihood; one after them only came along because it was, or would be, written

/** Whether a filter left something out at all; at temperature 0 nobody asks it. */
function isOn(name, { temperature, vocabulary, kept_top_k, kept_top_p }) {
  if (temperature === 0) return false;
  return name === "after_top_k" ? kept_top_k < vocabulary : kept_top_p < kept_top_k;
}

function keptBy(name, found) {
  return name === "after_top_k" ? found.kept_top_k : found.kept_top_p;
}

function headCell(title, setting, tag) {
  const cell = element("th");
  cell.scope = "col";
  cell.append(element("span", "title", title), element("span", "setting", setting));
  if (tag) cell.append(tag);
  return cell;
}

/** What temperature does to the shares, in a word. */
function heatWords(temperature, labels) {
  if (temperature === 0) return labels.stages_best;
  return temperature < 1 ? labels.stages_sharper : temperature > 1 ? labels.stages_flatter : labels.stages_same;
}

function filterWords(name, off, found, labels) {
  if (found.temperature === 0) return labels.stages_idle;
  return off ? labels.stages_off : fill(labels.stages_kept, { n: grouped(keptBy(name, found)) });
}

/** Where the settings are not the run's own, each stage says whether it was gone through or is only worked out. */
function headRow(found, own, labels) {
  const tag = (look, words) => (own ? null : element("span", `ob-tag ${look}`, words));
  const [measured, computed] = [() => tag("ob-measured", labels.live_measured), () => tag("ob-computed", labels.stages_computed)];
  const row = element("tr");
  row.append(
    headCell(labels.stages_candidate, "", null),
    headCell(labels.stages_logit, labels.stages_logit_gloss, measured()),
    headCell(labels.stages_likely, labels.stages_likely_gloss, measured()),
    headCell(fill(labels.stages_tempered, { n: found.temperature }), heatWords(found.temperature, labels), computed()),
    headCell(fill(labels.stages_top_k, { n: grouped(found.top_k) }), filterWords("after_top_k", found.top_k === 0, found, labels), computed()),
    headCell(fill(labels.stages_top_p, { n: found.top_p }), filterWords("share", found.top_p >= 1, found, labels), computed()),
  );
  return row;
}

/** A bar and its number; `cut`: a filter has just taken the token out, `gone`: it was taken out before. */
function shareCell(share, full, look) {
  const cell = element("td", `cell ${look}`);
  const [bar, number] = [element("span", "bar"), element("span", "number", look === "gone" ? "" : percent(share))];
  bar.style.setProperty("--long", `${((share / full) * 100).toFixed(2)}%`);
  bar.hidden = share === 0;
  cell.append(bar, number);
  return cell;
}

/** A score as a point between the lowest and the highest of those shown: scores have no zero to begin a bar at. */
function logitCell(row, [low, high]) {
  const cell = element("td", "cell logit");
  const dot = element("span", "dot");
  const there = row.logit !== null; // null: minus infinity, a score that no point of a line stands for
  dot.hidden = !there;
  if (there) dot.style.setProperty("--at", `${(high > low ? ((row.logit - low) / (high - low)) * 100 : 100).toFixed(2)}%`);
  cell.append(dot, element("span", "number", there ? row.logit.toFixed(2) : "−∞"));
  return cell;
}

/** What became of a token in a stage: nothing, just cut by this filter, or gone before. */
function lookOf(row, name) {
  const before = FILTERS[name];
  if (!before || row[name] > 0) return "";
  return row[before] > 0 ? "cut" : "gone";
}

function nameCell(row, found, labels) {
  const cell = element("th", "candidate");
  cell.scope = "row";
  const word = element("span", "word");
  word.append(tokenNodes(row));
  word.title = `${textOf(row) ?? ""}\n${fill(labels.stages_id, { id: row.id, bytes: hex(bytesOf(row)) })}`;
  cell.append(word);
  if (row.id === found.written_id) cell.append(element("span", "sign written", labels.stages_written));
  if (row.id === found.would_write_id && row.id !== found.written_id) cell.append(element("span", "sign would", labels.stages_would));
  return cell;
}

function candidateRow(row, at, found, full, range, labels) {
  const line = element("tr", row.id === found.would_write_id ? "would" : row.id === found.written_id ? "written" : "");
  line.classList.toggle("out", row.share === 0 && found.temperature > 0);
  line.classList.toggle("far", at >= LIKELIEST);
  line.append(nameCell(row, found, labels), logitCell(row, range));
  for (const name of SHARES) {
    const cell = shareCell(row[name], full, lookOf(row, name));
    cell.classList.add(name);
    line.append(cell);
  }
  return line;
}

/** All other tokens together. What a filter kept of them is told. */
function restRow(found, full, labels) {
  const line = element("tr", "rest");
  const name = element("th", "candidate", fill(labels.stages_others, { n: grouped(found.vocabulary - found.rows.length) }));
  name.scope = "row";
  line.append(name, element("td", "cell logit"));
  for (const stage of SHARES) {
    const cell = shareCell(found[`rest_${stage}`], full, "");
    cell.classList.add(stage);
    const kept = stage in FILTERS && isOn(stage, found) ? keptBy(stage, found) - found.rows.filter((row) => row[stage] > 0).length : null;
    if (kept) cell.append(element("span", "kept", fill(labels.stages_kept_there, { n: grouped(kept) })));
    line.append(cell);
  }
  return line;
}

/** Mark in each filter's column where it cut: below the last row that it kept, or somewhere among all the others. */
function markCuts(lines, found) {
  for (const name of Object.keys(FILTERS)) {
    if (!isOn(name, found)) continue;
    const last = found.rows.findLastIndex((row) => row[name] > 0);
    const among = last === found.rows.length - 1 && found.vocabulary > found.rows.length;
    const line = among ? lines.at(-1) : lines[Math.min(last + 1, lines.length - 1)];
    line.querySelector(`.${name}`).classList.add("line", among ? "among" : "above");
  }
}

/** The whole table, as its head row and its body rows. */
function tableOf(found, own, labels) {
  const shares = [...found.rows.flatMap((row) => SHARES.map((name) => row[name])), ...SHARES.map((name) => found[`rest_${name}`])];
  const scores = found.rows.map((row) => row.logit).filter((logit) => logit !== null);
  const range = [Math.min(...scores), Math.max(...scores)];
  const full = Math.max(...shares);
  const lines = found.rows.map((row, at) => candidateRow(row, at, found, full, range, labels));
  if (found.vocabulary > found.rows.length) lines.push(restRow(found, full, labels));
  markCuts(lines, found);
  return { head: headRow(found, own, labels), lines };
}
