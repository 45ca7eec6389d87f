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

/** What each token of a group brings: the text that became whole with it, whether bytes that are none are in it, and how many bytes of
    an unfinished character wait after it. */
function brought(group) {
  let rest = NO_BYTES;
  return group.tokens.map((token) => {
    const found = scan(joinBytes(rest, bytesOf(token)));
    const begun = rest.length > 0;
    rest = found.rest;
    const broken = found.pieces.some((piece) => piece.bytes);
    return { text: found.pieces.map((piece) => piece.text ?? "\ufffd").join(""), broken, open: rest.length, joins: begun, passes: rest.length > 0 };
  });
}

/** The same as it stands in the rows: a character that reaches over several tokens in the row that completes it, and what a reader sees
    as one (an e and its accent, a family) in the last of its rows. */
function settled(group) {
  const owns = brought(group);
  let held = null;
  for (const own of owns) {
    if (!own.text) continue;
    if (held && !held.broken && !own.broken && !graphemeBorder(held.text, own.text)) {
      Object.assign(own, { text: held.text + own.text, joins: true });
      Object.assign(held, { text: "", passes: true });
    }
    held = own;
  }
  return owns;
}

/** Text that several tokens have made: signs within it keep their shape, white space at its ends is made visible. */
function joinedNodes(text) {
  if (/^[\p{C}\p{Z}]*$/u.test(text)) return [visible(text)];
  const [, before, core, after] = text.match(/^(\s*)([^]*?)(\s*)$/u);
  return [visible(before), core, visible(after)];
}

/** `wait`: what a row says whose bytes still wait; "" where none do. */
function writeRow(row, own, wait, labels) {
  const out = row.lastChild;
  const passed = !own.text && own.passes && !wait;
  row.classList.toggle("waiting", wait !== "");
  row.classList.toggle("joined", !wait && (own.joins || passed));
  out.classList.toggle("part", passed);
  const nodes = own.joins ? joinedNodes(own.text) : [visible(own.text)];
  if (own.broken) nodes.push(element("i", "note", labels.bytes_view_broken));
  if (passed || wait) nodes.push(element("i", own.text ? "pass after" : "pass", wait || "↓"));
  out.replaceChildren(...nodes);
}

/** Write what a group's rows come to: text as soon as it is whole, a wait, or bytes that are no text. `open`: more may come. */
function writeGroup(rows, group, data, labels, open) {
  if (group.special) {
    writeSpecial(rows[0], group, data, labels);
    return;
  }
  const owns = settled(group);
  const last = owns.at(-1);
  let first = owns.length; // of the rows that hold bytes of an unfinished character
  if (open) for (let left = last.open; left > 0; left -= bytesOf(group.tokens[first]).length) first -= 1;
  else if (last.open) Object.assign(last, { text: `${last.text}\ufffd`, broken: true, passes: false });
  rows.forEach((row, at) => {
    const wait = at < first ? "" : at === rows.length - 1 ? labels.bytes_view_waiting : "…";
    writeRow(row, owns[at], wait, labels);
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
    this.write(group, 0, data, labels, true);
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
