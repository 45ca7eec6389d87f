// Station 4: each generated token from id to bytes to text. A character whose bytes are not all there waits.

const KEPT = 200; // rows in the page; earlier ones on request
const KEPT_PLAYING = 60; // fewer while the run plays: the page is painted at every step
const BATCH = 200;

function buildRow(token, index) {
  const row = element("div", `row${token.special ? " special" : ""}`);
  const raw = element("span", "raw");
  raw.append(...Array.from(bytesOf(token), (byte) => element("span", "", hex([byte]))));
  const cells = [element("span", "number", String(index + 1)), element("span", "id", String(token.id)), raw, element("span", "out")];
  row.setAttribute("role", "row");
  for (const cell of cells) cell.setAttribute("role", "cell");
  row.append(...cells);
  return row;
}

function writeSpecial(row, group, data, labels) {
  row.classList.toggle("dropped", !data.show_special);
  row.lastChild.replaceChildren(element("span", "", group.text ?? ""));
  if (!data.show_special) row.lastChild.append(element("i", "note", labels.bytes_view_dropped));
}

/** A group that is not text throughout: its whole characters, and one U+FFFD for each stretch of bytes that is none, as in the finished text. */
function brokenNodes(group, labels) {
  const { pieces, rest } = scan(group.bytes);
  if (rest.length) pieces.push({ bytes: rest });
  return [...pieces.map((piece) => (piece.bytes ? "\ufffd" : visible(piece.text))), element("i", "note", labels.bytes_view_broken)];
}

/** Write what a group's rows come to: text, a wait, or bytes that are no text. */
function writeGroup(rows, group, data, labels, waiting) {
  if (group.special) {
    writeSpecial(rows[0], group, data, labels);
    return;
  }
  rows.forEach((row, at) => {
    const last = at === rows.length - 1;
    const out = row.lastChild;
    row.classList.toggle("waiting", waiting);
    row.classList.toggle("joined", !waiting && rows.length > 1);
    out.classList.toggle("part", !waiting && !last);
    if (waiting) setText(out, last ? labels.bytes_view_waiting : "…");
    else if (!last) setText(out, "↓");
    else if (group.text === null) out.replaceChildren(...brokenNodes(group, labels));
    else out.replaceChildren(rows.length > 1 && !/^[\p{C}\p{Z}]*$/u.test(group.text) ? group.text.trim() : visible(group.text));
  });
}

/** The rows of the page: the newest ones, and as many before them as were asked for. */
class Table {
  constructor(body) {
    Object.assign(this, { body, grouper: new Grouper(), rows: [], first: 0, asked: 0 });
  }

  clear() {
    this.body.replaceChildren();
    Object.assign(this, { grouper: new Grouper(), rows: [], first: 0 });
  }

  push(token, data, labels) {
    const row = buildRow(token, this.rows.length);
    this.rows.push(row);
    const before = this.grouper.groups.at(-1);
    const group = this.grouper.push(token);
    if (before && before !== group && before.text === null) this.write(before, 1, data, labels, false);
    this.write(group, 0, data, labels, group.text === null && this.grouper.waiting > 0);
    this.body.append(row);
  }

  /** `after`: rows that stand after the group's own. */
  write(group, after, data, labels, waiting) {
    const end = this.rows.length - after;
    writeGroup(this.rows.slice(end - group.tokens.length, end), group, data, labels, waiting);
  }

  fit(kept) {
    const from = Math.max(this.rows.length - kept - this.asked, 0);
    for (; this.first < from; this.first += 1) this.rows[this.first].remove();
    if (from < this.first) this.body.prepend(...this.rows.slice(from, this.first));
    this.first = from;
  }
}

function createBytesView(view) {
  const find = (selector) => view.root.querySelector(selector);
  const [scroll, box, earlier, empty, waits] = [".scroll", ".table", ".earlier", ".ob-empty", ".waits"].map(find);
  const headings = view.root.querySelectorAll(".headings > span");
  const table = new Table(find(".rows"));

  const sayEarlier = () => {
    earlier.hidden = table.first === 0;
    setText(earlier, fill(view.data.labels.bytes_view_earlier, { n: grouped(table.first) }));
  };
  earlier.onclick = () => {
    table.asked += BATCH;
    fit();
  };
  const fit = () => {
    table.fit(view.store.status === "running" ? KEPT_PLAYING : KEPT);
    sayEarlier();
  };
  const sayWaits = (store, shown, labels) => {
    const { waiting } = table.grouper;
    const ended = store.status === "ended" && shown === store.generated;
    setText(waits, waiting && shown ? fill(ended ? labels.bytes_view_lost : labels.bytes_view_waits, { n: waiting }) : "");
  };

  const draw = ({ store, shown, full, data, labels }) => {
    if (full) {
      table.clear();
      const words = [labels.bytes_view_number, labels.bytes_view_id, labels.bytes_view_bytes, labels.bytes_view_text];
      headings.forEach((cell, at) => setText(cell, words[at]));
      box.setAttribute("aria-label", labels.bytes_view_name);
      scroll.setAttribute("aria-label", labels.bytes_view_name);
      setText(empty, labels.bytes_view_none);
    }
    while (table.rows.length < shown) table.push(generatedToken(store, table.rows.length), data, labels);
    fit();
    scroll.hidden = shown === 0;
    empty.hidden = shown > 0;
    sayWaits(store, shown, labels);
  };
  return { draw };
}

export default function bytesView(component) {
  return live.mount("bytes_view", component, createBytesView);
}
