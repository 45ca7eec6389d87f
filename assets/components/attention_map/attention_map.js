// The attention map: one cell per pair of positions, rows read and columns are read. Positions are the axes, so equal tokens never merge.
// All weights are here as they were measured: colours are rounded, the readout is not.

const PAGE = 10;
const NOTES_AT = 0.55; // where on the scale the notes' colour stands
const TICKS = [0, 0.05, 0.25, 1];
const DRAWN_KEPT = 50;
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-PAGE, 0], PageDown: [PAGE, 0], Home: [0, -Infinity], End: [0, Infinity] };

/** A label as nodes: its places are filled with text, tokens in type of their own. */
function sentence(template, values) {
  const nodes = document.createDocumentFragment();
  for (const part of template.split(/(\{\w+\})/)) {
    const name = part.match(/^\{(\w+)\}$/)?.[1];
    const value = name && values[name];
    if (value === undefined || value === "") nodes.append(part);
    else nodes.append(value instanceof Node ? value : String(value));
  }
  return nodes;
}

function createAttentionMap(view) {
  const find = (selector) => view.root.querySelector(selector);
  const [grid, scroll, readout, legend, summary, words, bar, ticks] =
    [".grid", ".scroll", ".readout", ".ob-legend", ".summary", ".words", ".bar", ".ticks"].map(find);
  const [queryAxis, keyAxis] = [".axis.query", ".axis.key"].map(find);
  const painter = new MapPainter(find);
  let cells = null;
  let layout = null;
  let pointed = null; // {row, column | null}: under the mouse, or the keyboard's cell
  let picked = { row: null, column: null };

  const named = (at) => element("span", "token", cells.names[at]);
  const places = (row, column) => ({ query: named(row), q: cells.first + row, key: named(column), k: cells.first + column });
  const cellWords = (row, column) => {
    const { labels } = view.data;
    if (cells.later(row, column)) return sentence(labels.attention_map_later, places(row, column));
    if (cells.outside(row, column)) return sentence(labels.attention_map_outside, { ...places(row, column), n: cells.window });
    const weight = weightText(cells.weight(row, column));
    const label = cells.unshown(column) ? labels.attention_map_unshown : labels.attention_map_cell;
    return sentence(label, { ...places(row, column), weight });
  };
  const linksOf = (row) => {
    const { labels } = view.data;
    const text = (column) => fill(labels.attention_map_link, { key: cells.names[column], k: cells.first + column, weight: weightText(cells.weight(row, column)) });
    return cells.strongest(row, 5).map(text).join(" | ");
  };
  const rowWords = (row) => sentence(view.data.labels.attention_map_row, { query: named(row), q: cells.first + row, links: linksOf(row) });
  /** What is pointed at, else what is picked, else how to go about it. */
  const say = () => {
    const at = pointed ?? (picked.row === null ? null : picked);
    readout.classList.toggle("hint", at === null);
    readout.replaceChildren(at === null ? view.data.labels.attention_map_hint : at.column === null ? rowWords(at.row) : cellWords(at.row, at.column));
  };
  const point = (at) => {
    if (at?.row === pointed?.row && at?.column === pointed?.column) return;
    pointed = at;
    painter.mark(picked, pointed);
    say();
  };
  const pick = (at) => {
    if (!at) return;
    const column = at.column === null || cells.later(at.row, at.column) ? null : at.column;
    const key = column === null ? null : cells.first + column;
    view.component.setTriggerValue("picked", { query: cells.first + at.row, key });
  };

  const at = (event, columns) => {
    const box = painter.cells.getBoundingClientRect();
    const index = (offset) => Math.min(Math.max(Math.floor(offset / layout.cell), 0), cells.count - 1);
    return { row: index(event.clientY - box.top), column: columns ? index(event.clientX - box.left) : null };
  };
  painter.cells.onpointermove = (event) => point(at(event, true));
  painter.cells.onpointerleave = painter.rows.onpointerleave = () => point(null);
  painter.cells.onclick = (event) => pick(at(event, true));
  painter.rows.onpointermove = (event) => point(at(event, false));
  painter.rows.onclick = (event) => pick(at(event, false));

  /** Where the keyboard begins: at the picked cell, else at the last row's strongest link. */
  const begin = () => {
    const row = picked.row ?? cells.count - 1;
    return { row, column: picked.row !== null && picked.column !== null ? picked.column : cells.strongest(row, 1)[0] ?? 0 };
  };
  const move = (from, [down, right]) => {
    const row = Math.min(Math.max(from.row + down, 0), cells.count - 1);
    return { row, column: Math.min(Math.max((from.column ?? 0) + right, 0), row) };
  };
  const reveal = ({ column }) => {
    const [left, right] = [layout.edge(column), layout.edge(column + 1)];
    if (left < scroll.scrollLeft) scroll.scrollLeft = left;
    else if (right > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = right - scroll.clientWidth;
  };
  grid.onfocus = () => {
    if (cells && grid.matches(":focus-visible")) point(begin());
  };
  grid.onblur = () => point(null);
  grid.onkeydown = (event) => {
    if (!cells || event.ctrlKey || event.altKey || event.metaKey || !(event.key in MOVES || event.key === "Enter" || event.key === "Escape")) return;
    event.preventDefault();
    event.stopPropagation(); // the page's own arrow keys step the run
    if (event.key === "Escape") point(null);
    else if (event.key === "Enter") pick(pointed ?? begin());
    else point(pointed ? move(pointed, MOVES[event.key]) : begin());
    if (pointed) reveal(pointed);
  };

  const themed = (theme) => {
    const of = (name) => getComputedStyle(view.root).getPropertyValue(name).trim();
    const texts = { templateText: of("--ob-template-text"), promptText: of("--ob-prompt-text"), generatedText: of("--ob-answer-text") };
    return { ...theme, ...texts, label: Math.max(11, Math.round(theme.size * 0.72)) };
  };
  const stopsOf = (theme) => [[0, theme.notesWash], [NOTES_AT, theme.notes], [1, theme.ink]];
  const gutterOf = (theme) => {
    const pen = painter.cells.getContext("2d");
    pen.font = `700 ${theme.label}px ${theme.mono}`;
    const widest = Math.max(...cells.names.map((name) => pen.measureText(shortened(name)).width));
    return Math.ceil(Math.min(widest, theme.label * 9, view.root.clientWidth * 0.22)) + BAR + 8;
  };
  const writeLegend = (labels, every) => {
    const kinds = { template: labels.live_template, prompt: labels.live_prompt, generated: labels.live_answer };
    const entries = Object.entries(kinds).filter(([kind]) => cells.tokens.some((token) => token.kind === kind));
    if (cells.window !== null && cells.window < cells.count) entries.push(["window", fill(labels.attention_map_window, { n: cells.window })]);
    if (cells.unshown(0)) entries.push(["first", labels.attention_map_first]);
    const nodes = entries.map(([kind, text]) => {
      const entry = element("span");
      entry.append(element("i", `k-${kind}`), text);
      return entry;
    });
    if (every > 1) nodes.push(element("span", "", fill(labels.attention_map_thinned, { n: every })));
    legend.replaceChildren(...nodes);
  };
  const writeScale = (labels, theme) => {
    setText(words, labels.attention_map_scale);
    bar.style.background = `linear-gradient(90deg, ${stopsOf(theme).map(([place, colour]) => `${colour} ${place * 100}%`).join(", ")})`;
    ticks.replaceChildren(...TICKS.map((weight) => {
      const tick = element("span", "", String(weight));
      tick.style.left = `${onScale(weight) * 100}%`;
      return tick;
    }));
  };
  const speak = (labels, data) => {
    setText(queryAxis, labels.attention_map_query);
    queryAxis.classList.toggle("upright", /\p{Script=Han}/u.test(labels.attention_map_query)); // Chinese is read downwards
    setText(keyAxis, labels.attention_map_key);
    setAttribute(grid, "aria-label", fill(labels.attention_map_name, { name: data.name, n: cells.count }));
    const row = picked.row ?? cells.count - 1;
    setText(summary, fill(labels.attention_map_reads, { query: cells.names[row], q: cells.first + row, links: linksOf(row) }));
  };

  const draw = ({ full, data, labels, theme: bare }) => {
    if (!full || !view.root.clientWidth) return;
    const began = performance.now();
    const theme = themed(bare);
    cells = new Cells(data);
    picked = { row: cells.rowOf(data.query), column: cells.rowOf(data.key_at) };
    const [inset, gutter] = [queryAxis.offsetWidth || Math.ceil(theme.size * 1.1), gutterOf(theme)];
    layout = layOut(view.root.clientWidth - inset, cells.count, gutter);
    if (pointed && pointed.row >= cells.count) pointed = null;
    const every = Math.max(Math.ceil((theme.label + 1.5) / layout.cell), 1);
    queryAxis.style.marginTop = `${gutter}px`;
    painter.paint(cells, layout, theme, colourTable(painter.cells.getContext("2d"), stopsOf(theme)));
    painter.axes(every, picked);
    painter.mark(picked, pointed);
    writeLegend(labels, every);
    writeScale(labels, theme);
    speak(labels, data);
    say();
    const now = performance.now();
    live.maps = [...(live.maps ?? []), { name: data.name, t: now, cost_ms: now - began }].slice(-DRAWN_KEPT);
  };
  return { draw, sized: true };
}

export default function attentionMap(component) {
  return live.mount("attention_map", component, createAttentionMap);
}
