// The ten most likely tokens of the step at the cursor, and the drawn one where it is none of them: the model's own probability and,
// when sampling, the share drawn from. Where the reader may, another one can be chosen. rows.js draws one row.

const ROWS = 11;

/** The step whose rows lie under the reader's pointer or focus: rows that move by themselves stand still so long, for what is clicked has
    to be what was seen. */
class Hold {
  constructor(view) {
    Object.assign(this, { view, store: null, epoch: -1, index: 0, shown: 0 });
  }

  grasp() {
    const { store, data } = this.view;
    if (!data.choosable || !this.shown || !moves(store) || this.of(store)) return;
    Object.assign(this, { store, epoch: store.epoch, index: this.shown - 1 });
    this.view.redraw();
  }

  of(store) {
    return this.store === store && this.epoch === store.epoch;
  }

  let() {
    if (!this.store) return;
    this.store = null;
    this.view.redraw();
  }

  /** Tokens shown, the held ones first. */
  count(store, shown) {
    if (this.store && (!this.of(store) || !moves(store))) this.store = null;
    this.shown = this.store ? this.index + 1 : shown;
    return this.shown;
  }
}

/** Who chose the token that was written, and how, as keys of the words. */
function waysOf(sampling) {
  return {
    sampler: sampling ? "candidates_sampled" : "candidates_greedy",
    reader: sampling ? "candidates_reader_drawn" : "candidates_reader",
    forced: "candidates_forced",
  };
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

/** Pointer, focus and keys of the list. Keys that it takes do not reach the page, whose own Space plays the run. */
function wireChoice(view, list, rows, hold) {
  const able = () => rows.filter(({ row, write }) => !row.matches(".vacant") && !write.hidden);
  list.onpointermove = list.onpointerdown = () => hold.grasp();
  list.onpointerleave = () => hold.let();
  list.onfocusin = (event) => {
    if (event.target.matches(":focus-visible")) hold.grasp();
  };
  list.onfocusout = (event) => {
    if (!list.contains(event.relatedTarget)) hold.let();
  };
  list.onkeydown = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by || event.key === " " || event.key === "Enter") event.stopPropagation();
    if (!by) return;
    event.preventDefault();
    const open = able();
    const at = open.findIndex(({ write }) => write === event.target);
    open[Math.min(Math.max(at + by, 0), open.length - 1)]?.write.focus();
  };
  for (const parts of rows) parts.row.onclick = () => choose(view, parts, hold);
}

/** Tell Python which token is to be written instead, and at which step: the one in the picture that was clicked. */
function choose(view, parts, hold) {
  const { store, data } = view;
  if (!data.choosable || parts.write.hidden || !parts.candidate) return;
  live.tell(view.component, "chosen", { run: store.runId, index: hold.shown - 1, id: parts.candidate.id });
}

function createCandidates(view) {
  const [head, list, foot] = [".head", ".rows", ".foot"].map((selector) => view.root.querySelector(selector));
  const rows = Array.from({ length: ROWS }, buildRow);
  const { box, entries } = legend();
  const [says, hint] = [element("div", "says"), element("div", "hint")];
  const hold = new Hold(view);
  list.append(...rows.map((parts) => parts.row));
  for (const parts of rows) parts.word.onpointerenter = () => explain(parts, view.data.labels);
  wireChoice(view, list, rows, hold);
  foot.append(box, says, hint);

  const tell = (chosen, chosenBy, sampling, labels) => {
    box.hidden = !sampling;
    setText(entries[0], labels.candidates_model);
    setText(entries[1], labels.candidates_drawn);
    const values = { model: percent(chosen?.probability ?? 0), drawn: percent(chosen?.drawn_from ?? 0) };
    setText(says, fill(labels[waysOf(sampling)[chosenBy ?? "sampler"]], values));
  };
  const draw = ({ store, shown: reached, full, data, labels, theme }) => {
    const shown = hold.count(store, reached);
    if (full) view.root.classList.toggle("narrow", view.root.clientWidth < theme.size * 19);
    view.root.classList.toggle("choosable", Boolean(data.choosable));
    setAttribute(list, "aria-label", labels.candidates_name);
    list.hidden = foot.hidden = shown === 0;
    if (!shown) {
      setText(head, labels.candidates_none);
      return;
    }
    const token = generatedToken(store, shown - 1);
    const { candidates, chosen_by } = generatedStep(store, shown - 1);
    const sampling = candidates.some((candidate) => candidate.drawn_from > 0 && candidate.drawn_from < 1);
    const left = store.origin?.index === shown - 1 ? store.origin.instead_of.id : null;
    setText(head, fill(labels.candidates_head, { n: grouped(shown), position: grouped(token.position) }));
    rows.forEach((parts, at) => drawRow(parts, candidates[at], { picked: candidates[at]?.id === token.id, left, sampling }, data, labels));
    list.classList.toggle("sampling", sampling);
    const chosen = candidates.find((candidate) => candidate.id === token.id);
    tell(chosen, chosen_by, sampling, labels);
    hint.hidden = !data.choosable && left === null;
    const words = hold.store ? fill(labels.candidates_held, { n: grouped(shown) }) : data.choosable ? labels.candidates_hint : "";
    setText(hint, left === null || hold.store ? words : `▷ ${labels.candidates_other} ${words}`);
  };
  return { draw, sized: true };
}

export default function candidates(component) {
  return live.mount("candidates", component, createCandidates);
}
