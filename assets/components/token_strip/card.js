// The card of one token: literal text, kind, id, position, its bytes one by one, and the whole character that it is a part of.
// Knows tokens and groups; does not know chips.

const BYTES_SHOWN = 48;

/** Bytes one by one, as cells; those from `start` to `end` are filled, the others outlined. */
function byteCells(bytes, kind, start = 0, end = bytes.length) {
  const cells = element("span", `cells ${kind}`);
  const from = bytes.length <= BYTES_SHOWN ? 0 : Math.max(0, Math.min(start, bytes.length - BYTES_SHOWN));
  const shown = bytes.subarray(from, from + BYTES_SHOWN);
  if (from) cells.append("… ");
  shown.forEach((byte, at) => cells.append(element("i", `byte${from + at >= start && from + at < end ? " own" : ""}`, hex([byte]))));
  if (from + BYTES_SHOWN < bytes.length) cells.append(" …");
  return cells;
}

/** The card's first line: literal text, kind, id, position, bytes, and what is `said` of its links. */
function tokenLine(token, said, labels) {
  const line = element("div", "line");
  const face = element("span", `face ${token.kind}`);
  face.append(tokenNodes(token));
  line.append(face, element("span", `kind ${token.kind}`, kindText(token, labels)));
  line.append(element("span", "fact", fill(labels.token_strip_id, { n: token.id })));
  line.append(element("span", "fact", fill(labels.token_strip_position, { n: token.position })));
  const bytes = element("span", "fact", labels.token_strip_bytes);
  bytes.append(" ", byteCells(bytesOf(token), token.kind));
  line.append(bytes);
  if (said.length) line.append(element("span", "links", said.join(" · ")));
  return line;
}

/** The card's second line: the whole character that a token is a part of, and what of it this token brings. */
function groupLine(token, group, labels) {
  const line = element("div", "line whole");
  const open = group.text === null;
  line.append(element("span", "", fill(open ? labels.token_strip_open : labels.token_strip_whole, { n: group.tokens.length })));
  const face = element("span", `face ${token.kind}`);
  if (!open) face.append(visible(group.text));
  const before = group.tokens.slice(0, group.tokens.indexOf(token)).reduce((sum, other) => sum + bytesOf(other).length, 0);
  const own = bytesOf(token);
  line.append(...(open ? [] : [face, "="]), byteCells(group.bytes, token.kind, before, before + own.length));
  line.append(element("span", "", fill(labels.token_strip_brings, { bytes: hex(own) })));
  return line;
}
