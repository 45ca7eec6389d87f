// How one word is cut: a ladder from single bytes to tokens, one merge rule per rung. The ladder stands whole; it can be climbed step by step.

const PACE_MS = 900;
const ROOMY = 14; // so many pieces have room for larger cells

/** The rungs: pieces with the number of first pieces each one covers, the merge that led here, and where its piece stands. */
function rungsOf(word) {
  const first = word.start.map((raw) => ({ raw, span: 1 }));
  const rungs = [{ pieces: first, merge: null, at: -1 }];
  for (const merge of word.merges) {
    const before = rungs.at(-1).pieces;
    const at = merge.pieces.findIndex((raw, index) => raw !== before[index]?.raw);
    const joined = { raw: merge.pieces[at], span: before[at].span + before[at + 1].span };
    rungs.push({ pieces: [...before.slice(0, at), joined, ...before.slice(at + 2)], merge, at });
  }
  return rungs;
}

function plain(raw) {
  return tokenNodes({ raw }).textContent;
}

function sayPieces(pieces) {
  return pieces.map((piece) => plain(piece.raw)).join(", ");
}

function buildCell(piece, column, row) {
  const bytes = bytesOf(piece);
  const cell = element("div", wholeText(bytes) === null ? "cell half" : "cell");
  cell.style.setProperty("--row", row);
  cell.style.gridColumn = `${column + 2} / span ${piece.span}`; // column 1 is the rule's
  cell.title = hex(bytes);
  cell.append(tokenNodes(piece));
  return cell;
}

/** Names a rung, and gives its cells in order. */
function buildRung(pieces, row, name) {
  const rule = element("div", "rule", name);
  rule.style.setProperty("--row", row);
  let column = 0;
  const cells = pieces.map((piece) => {
    const cell = buildCell(piece, column, row);
    column += piece.span;
    return cell;
  });
  return { nodes: [rule, ...cells], cells };
}

function ruleName(merge, rules, labels) {
  return fill(labels.merges_rule, { n: grouped(merge.rank + 1), of: grouped(rules) });
}

function startName(word, labels) {
  if (word.whole) return labels.merges_whole;
  return word.start.every((raw) => bytesOf({ raw }).length === 1) ? labels.merges_bytes : labels.merges_characters;
}

/** All rungs as nodes; the last one holds the tokens with their ids. */
function buildLadder(word, rules, labels) {
  const rungs = rungsOf(word);
  const built = rungs.map(({ pieces, merge }, at) => buildRung(pieces, at + 1, merge ? ruleName(merge, rules, labels) : startName(word, labels)));
  rungs.forEach(({ at }, number) => {
    if (at < 0) return;
    built[number].cells[at].classList.add("new");
    built[number - 1].cells[at].classList.add("pair", "left");
    built[number - 1].cells[at + 1].classList.add("pair", "right");
  });
  const last = buildRung(rungs.at(-1).pieces, rungs.length + 1, labels.merges_tokens);
  last.cells.forEach((cell, at) => {
    const text = element("b", "");
    text.append(...cell.childNodes);
    cell.classList.add("token");
    cell.replaceChildren(text, element("span", "", String(word.ids[at])));
  });
  return { rungs, built: [...built, last] };
}

/** The sentence of each step, for the line above the ladder and for screen readers. */
function sentences({ rungs }, word, rules, labels) {
  const said = rungs.map(({ pieces, merge, at }) => {
    if (!merge) return fill(labels.merges_begin, { name: startName(word, labels), pieces: sayPieces(pieces) });
    const [left, right, joined] = [merge.left, merge.right, pieces[at].raw].map(plain);
    return fill(labels.merges_step, { left, right, joined, rule: ruleName(merge, rules, labels) });
  });
  return [...said, fill(labels.merges_end, { n: grouped(word.ids.length) })];
}

function sayTokens({ rungs }, word, labels) {
  const tokens = rungs.at(-1).pieces.map((piece, at) => `${plain(piece.raw)} (${word.ids[at]})`);
  return `${labels.merges_tokens}: ${tokens.join(", ")}`;
}

/** Which steps of the ladder are in sight, and the hands that move it. */
class Climb {
  constructor(view, parts) {
    Object.assign(this, { view, parts, ladder: null, said: [], step: 0, timer: 0 });
  }

  get last() {
    return Math.max(this.said.length - 1, 0);
  }

  go(step) {
    this.step = Math.min(Math.max(step, 0), this.last);
    this.show();
  }

  play() {
    if (this.timer) return this.rest();
    if (this.step >= this.last) this.step = 0;
    this.timer = setInterval(() => {
      if (this.step >= this.last - 1) this.rest();
      this.go(this.step + 1);
    }, PACE_MS);
    return this.show();
  }

  rest() {
    clearInterval(this.timer);
    this.timer = 0;
    if (this.ladder) this.show();
  }

  show() {
    const { first, back, play, on, at, says } = this.parts;
    const { labels } = this.view.data;
    this.ladder.built.forEach((rung, number) => {
      for (const node of rung.nodes) node.classList.toggle("later", number > this.step);
    });
    first.disabled = back.disabled = this.step === 0;
    on.disabled = this.step === this.last;
    at.max = this.last;
    at.value = this.step;
    setAttribute(at, "aria-valuetext", this.said[this.step]);
    setText(play, this.timer ? labels.merges_pause : labels.merges_play);
    setText(says, this.said[this.step]);
  }
}

function createMerges(view) {
  const find = (name) => view.root.querySelector(`.${name}`);
  const names = ["bar", "first", "back", "play", "on", "at", "says", "scroll", "ladder", "told"];
  const parts = Object.fromEntries(names.map((name) => [name, find(name)]));
  const climb = new Climb(view, parts);
  const hand = (aim) => () => {
    const step = aim(); // before resting, which puts the slider back
    climb.rest();
    climb.go(step);
  };
  parts.first.onclick = hand(() => 0);
  parts.back.onclick = hand(() => climb.step - 1);
  parts.on.onclick = hand(() => climb.step + 1);
  parts.play.onclick = () => climb.play();
  parts.at.oninput = hand(() => Number(parts.at.value));
  view.root.onkeydown = (event) => event.stopPropagation(); // the page's own space and arrow keys play and step the run
  let known = "";

  const draw = ({ full, data, labels }) => {
    if (!full) return;
    const { word, rules } = data;
    climb.ladder = buildLadder(word, rules, labels);
    climb.said = sentences(climb.ladder, word, rules, labels);
    const nodes = climb.ladder.built.flatMap((rung) => rung.nodes);
    parts.ladder.style.gridTemplateColumns = `auto repeat(${word.start.length}, auto)`;
    parts.ladder.classList.toggle("roomy", word.start.length <= ROOMY);
    parts.ladder.replaceChildren(...nodes);
    const told = [...climb.said, sayTokens(climb.ladder, word, labels)];
    parts.told.replaceChildren(...told.map((text) => element("li", "", text)));
    const tips = { first: labels.merges_first, back: labels.merges_back, on: labels.merges_on, at: labels.merges_at };
    for (const [name, text] of Object.entries(tips)) setAttribute(parts[name], "aria-label", text);
    setAttribute(parts.bar, "aria-label", labels.merges_bar);
    setAttribute(parts.scroll, "aria-label", fill(labels.merges_name, { word: plain(word.raw) }));
    const key = JSON.stringify(word);
    if (key !== known) {
      climb.rest();
      climb.step = climb.last;
      known = key;
    }
    climb.show();
  };
  return { draw, leave: () => clearInterval(climb.timer) };
}

export default function merges(component) {
  return live.mount("merges", component, createMerges);
}
