// What was added to the reader's words: as typed, with the template, as ids. Three stages of one prompt, literal throughout.

// White space is drawn as it is; what would be invisible, or would turn the line around, is named.
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/u;

/** Text as a reader sees it, with its line breaks marked as well as made. */
function literal(text) {
  const nodes = document.createDocumentFragment();
  let clean = "";
  for (const char of text) {
    if (!UNSEEN.test(char)) {
      clean += char;
      continue;
    }
    nodes.append(clean, element("i", "ob-mark", markOf(char)));
    clean = char === "\n" ? "\n" : "";
  }
  nodes.append(clean);
  return nodes;
}

/** One part of the prompt as a span; bytes that are no whole characters in hex. */
function buildPart(part) {
  const span = element("span", part.special ? `${part.role} special` : part.role);
  const { pieces, rest } = scan(bytesOf(part));
  if (rest.length) pieces.push({ bytes: rest });
  for (const piece of pieces) span.append(piece.bytes ? element("span", "ob-hex", hex(piece.bytes)) : literal(piece.text));
  return span;
}

function buildLegend(parts, labels) {
  const words = { prompt: labels.wrapping_prompt, template: labels.wrapping_template, system: labels.wrapping_system };
  const shown = Object.keys(words).filter((role) => parts.some((part) => part.role === role));
  return shown.map((role) => {
    const entry = element("span", "");
    entry.append(element("b", role, words[role]));
    return entry;
  });
}

function createWrapping(view) {
  const find = (name) => view.root.querySelector(`.${name}`);
  const [typed, whole, ids, more, legend] = ["typed", "whole", "ids", "more", "ob-legend"].map(find);
  const names = view.root.querySelectorAll(".name");
  for (const box of [typed, whole, ids]) box.onkeydown = (event) => event.stopPropagation(); // scrolling a box is not stepping the run

  const draw = ({ full, data, labels }) => {
    if (!full) return;
    const { parts, tokens, total } = data;
    const words = [labels.wrapping_typed, parts.every((part) => part.role === "prompt") ? labels.wrapping_bare : labels.wrapping_whole];
    [...words, fill(labels.wrapping_ids, { n: grouped(total) })].forEach((text, at) => {
      setText(names[at], text);
      setAttribute([typed, whole, ids][at], "aria-label", text);
    });
    typed.replaceChildren(...parts.filter((part) => part.role === "prompt").map(buildPart));
    whole.replaceChildren(...parts.map(buildPart));
    legend.replaceChildren(...buildLegend(parts, labels));
    ids.replaceChildren(...tokens.map(({ id, role }) => element("span", role, String(id))));
    setText(more, total > tokens.length ? fill(labels.wrapping_more, { n: grouped(total - tokens.length) }) : "");
  };
  return { draw };
}

export default function wrapping(component) {
  return live.mount("wrapping", component, createWrapping);
}
