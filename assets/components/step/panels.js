// The six panels of the chain. Knows the run's store and the words; knows no clock.

const PANELS = ["in", "read", "look", "rank", "choose", "append"];
const TIME_OF = { read: "weights", look: "read", rank: "head", choose: "sample", append: "append" };
const LINES = 3;
const LOOKS = 3;

/** One panel: its name, a large token or none, three lines (each a token or words, and a number), and the time of its part. */
function buildPanel(name, at) {
  const box = element("li", `panel ${name}`);
  box.style.setProperty("--at", at);
  const parts = { box, title: element("div", "title"), face: element("div", "face"), lines: [], time: element("div", "time") };
  parts.swatch = element("i", `swatch ${TIME_OF[name] ?? ""}`);
  parts.seconds = element("span", "seconds");
  parts.time.append(parts.swatch, parts.seconds);
  for (let line = 0; line < LINES; line += 1) {
    const row = element("div", "line");
    const [word, number] = [element("span", "word"), element("span", "number")];
    row.append(word, number);
    parts.lines.push({ row, word, number });
  }
  if (name === "read") parts.tag = element("span", "ob-tag ob-computed"); // the card's own tag says: measured
  box.append(parts.title, parts.face, ...parts.lines.map(({ row }) => row), ...(parts.tag ? [parts.tag] : []), parts.time);
  return parts;
}

function setToken(node, token) {
  if (node.token === token) return;
  node.token = token;
  node.replaceChildren(...(token ? [tokenNodes(token)] : []));
  node.title = token ? (textOf(token) ?? hex(bytesOf(token))) : "";
}

/** A line of words; a token that stood there goes. */
function sayLine({ word, number }, text, figure = "") {
  if (word.token) setToken(word, null);
  setText(word, text);
  word.classList.remove("token");
  setText(number, figure);
}

function tokenInLine({ word, number }, token, figure) {
  if (!word.token) word.replaceChildren();
  setToken(word, token);
  word.classList.add("token");
  setText(number, figure);
}

const DRAW = {
  in({ face, lines }, { input, prompt }, labels) {
    setToken(face, input);
    face.className = `face ${input.kind}`;
    sayLine(lines[0], prompt ? fill(labels.step_all, { n: grouped(prompt) }) : fill(labels.step_position, { n: grouped(input.position) }));
  },
  read({ lines, tag }, { context, prompt, notes, weights }, labels) {
    sayLine(lines[0], prompt ? labels.step_blank : fill(labels.step_columns, { n: grouped(context) }));
    sayLine(lines[1], prompt || notes === null ? "" : labels.step_notes, prompt || notes === null ? "" : bytesText(notes));
    sayLine(lines[2], weights === null ? "" : labels.step_matrices, weights === null ? "" : bytesText(weights));
    tag.hidden = weights === null;
    setText(tag, labels.step_computed);
  },
  look({ lines }, { store, looks, sees }, labels) {
    const best = looks ? strongestLooks(looks, LOOKS) : [];
    lines.forEach((line, at) => {
      if (best[at]) tokenInLine(line, tokenAt(store, best[at][0]), percent(best[at][1]));
      else sayLine(line, looks || at ? "" : sees ? labels.step_unseen : labels.step_hidden);
    });
  },
  rank({ lines }, { step }) {
    lines.forEach((line, at) => {
      const candidate = step.candidates[at];
      if (candidate) tokenInLine(line, candidate, percent(candidate.probability));
      else sayLine(line, "");
    });
  },
  choose({ face, lines }, { token, step, greedy, chosenBy }, labels) {
    setToken(face, token);
    const drawn = step.drawn ?? null;
    const own = greedy ? labels.step_greedy : drawn === null ? "" : fill(labels.step_drawn, { n: drawn.toFixed(3) });
    sayLine(lines[0], chosenBy === "reader" ? labels.step_by_hand : chosenBy === "forced" ? labels.step_forced : own);
  },
  append({ lines }, { before, after, added, input, prompt }, labels) {
    sayLine(lines[0], fill(labels.step_grown, { before: grouped(before), after: grouped(after) }));
    sayLine(lines[1], `+ ${grouped(added)} B`);
    sayLine(lines[2], prompt ? "" : fill(labels.step_of, { token: seenText(input) }));
  },
};

/** The whole chain; draws one step's facts. */
class Chain {
  constructor(box) {
    this.panels = PANELS.map((name, at) => [name, buildPanel(name, at)]);
    box.append(...this.panels.map(([, { box: panel }]) => panel));
  }

  draw(facts, labels) {
    const titles = { in: labels.step_in, read: labels.step_read, look: labels.step_look, rank: labels.step_rank, choose: labels.step_choose, append: labels.step_append };
    const times = Object.fromEntries(facts.times.parts);
    for (const [name, panel] of this.panels) {
      setText(panel.title, titles[name]);
      DRAW[name](panel, facts, labels);
      const seconds = times[TIME_OF[name]];
      panel.swatch.hidden = seconds === undefined;
      setText(panel.seconds, seconds === undefined ? "" : secondsText(seconds, labels));
    }
  }
}
