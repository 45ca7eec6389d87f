// One branch as a row: its lines at the left, what it is at the right. Knows one branch and the lines that pass by it; knows no run.

/** Which lines touch row `at`: bends that come down to it or pass it by. Children follow their parents, the later forks first, so that no
    line crosses another. */
function linesOf(branches, at) {
  const through = [];
  branches.forEach(({ parent, index }, child) => {
    if (parent === null || child <= at || parent > at) return;
    through.push({ index, down: parent === at });
  });
  return through;
}

function drawLine(own, end, from, tokens, room) {
  own.style.transform = `translateX(${(100 * from) / room}%) scaleX(${Math.max(tokens - from, 0.2) / room})`;
  end.style.left = `${(100 * tokens) / room}%`;
}

function lineBox(branch, through, room) {
  const box = element("span", "lines");
  const [own, end] = [element("i", "own"), element("i", `end ${branch.status}`)];
  for (const { index, down } of through) {
    const line = element("i", `through${down ? " down" : ""}`);
    line.style.left = `${(100 * index) / room}%`;
    box.append(line);
  }
  if (branch.index !== null) {
    const bend = element("i", "bend");
    bend.style.left = `${(100 * branch.index) / room}%`;
    box.append(bend);
  }
  drawLine(own, end, branch.index ?? 0, branch.tokens, room);
  box.append(own, end);
  return { box, own, end };
}

function tokenMark(token, className) {
  const mark = element("span", className);
  mark.append(tokenNodes(token));
  return mark;
}

/** Which branch it is, and where it left: "token 12: the → a". */
function headOf(branch, labels) {
  const head = element("span", "head");
  head.append(element("span", "name", branch.name));
  if (branch.index !== null) {
    const place = element("span", "place");
    place.append(fill(labels.branches_place, { n: grouped(branch.index + 1) }), " ", tokenMark(branch.left, "token left"));
    if (branch.wrote) place.append(" → ", tokenMark(branch.wrote, "token"));
    head.append(place);
  }
  return head;
}

/** Tokens that it wrote itself, and how many the whole answer has; the first answer wrote them all. `index`: its fork, or null. */
function tokensText(index, tokens, labels) {
  if (index === null) return fill(labels.branches_tokens, { n: grouped(tokens) });
  return fill(labels.branches_own, { n: grouped(Math.max(tokens - index, 0)), of: grouped(tokens) });
}

function timeOf(seconds, labels) {
  return seconds === null ? "—" : secondsText(seconds, labels);
}

/** Time per token: of a branch, from its fork on. */
function tpotText(index, seconds, labels) {
  return fill(index === null ? labels.branches_tpot : labels.branches_own_tpot, { t: timeOf(seconds, labels) });
}

/** `name`, `stands`, `words` come ready from Python; figures are written as everywhere in the browser. */
function buildBranch(branch, through, room, labels) {
  const item = element("div");
  item.setAttribute("role", "listitem");
  const button = element("button", "branch");
  button.type = "button";
  const { box, own, end } = lineBox(branch, through, room);
  const told = element("span", "told");
  const figures = element("span", "figures");
  const words = element("span", "words", branch.words);
  const texts = {
    stand: branch.stands, tokens: tokensText(branch.index, branch.tokens, labels), ttft: fill(labels.branches_ttft, { t: timeOf(branch.ttft_s, labels) }),
    tpot: tpotText(branch.index, branch.tpot_s, labels), kv: fill(labels.branches_kv, { size: bytesText(branch.kv_bytes) }),
  };
  const nodes = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, element("span", name, text)]));
  figures.append(...Object.values(nodes));
  if (branch.reread_s !== null) figures.append(element("span", "reread", fill(labels.branches_reread, { t: timeOf(branch.reread_s, labels) })));
  told.append(headOf(branch, labels), words, figures);
  button.append(box, told);
  item.append(button);
  return { item, button, branch, own, end, words, ...nodes };
}
