// Bytes, characters and tokens, and how they are written on the page.
// Knows UTF-8 and graphemes; knows no run, no connection and no canvas. Every text reaches the page as a text node.

const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });
const SEGMENTER = new Intl.Segmenter("und", { granularity: "grapheme" });
const GROUPED = new Intl.NumberFormat("en-US");
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}]/u;
const HIDDEN_RUN = /([\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}])\1*/gu;
const MARKS = { " ": "·", "\n": "↵", "\r": "␍", "\t": "⇥", "\u00a0": "⍽", "\u200d": "ZWJ" };
const NO_BYTES = new Uint8Array(0);

/** The exact bytes of a token or candidate; decoded from base64 once. */
function bytesOf(token) {
  if (token.bytes) return token.bytes;
  const chars = atob(token.raw);
  token.bytes = new Uint8Array(chars.length);
  for (let at = 0; at < chars.length; at += 1) token.bytes[at] = chars.charCodeAt(at);
  return token.bytes;
}

function joinBytes(first, second) {
  if (!first.length) return second;
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).toUpperCase().padStart(2, "0")).join(" ");
}

/** Bytes that a UTF-8 character with this first byte has; 0 where no character begins so. */
function characterLength(lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

function continues(bytes, start, at) {
  const byte = bytes[at];
  const lead = bytes[start];
  if (at === start + 1) {
    if (lead === 0xe0) return byte >= 0xa0 && byte <= 0xbf;
    if (lead === 0xed) return byte >= 0x80 && byte <= 0x9f;
    if (lead === 0xf0) return byte >= 0x90 && byte <= 0xbf;
    if (lead === 0xf4) return byte >= 0x80 && byte <= 0x8f;
  }
  return byte >= 0x80 && byte <= 0xbf;
}

/** Split bytes into whole text, bytes that can never be text, and an unfinished character at the end (`rest`). */
function scan(bytes) {
  const pieces = [];
  let clean = 0;
  let at = 0;
  const flush = () => {
    if (at > clean) pieces.push({ text: DECODER.decode(bytes.subarray(clean, at)) });
  };
  while (at < bytes.length) {
    const length = characterLength(bytes[at]);
    let good = 1;
    while (good < length && at + good < bytes.length && continues(bytes, at, at + good)) good += 1;
    if (length && good === length) {
      at += length;
      continue;
    }
    flush();
    if (length && at + good === bytes.length) return { pieces, rest: bytes.subarray(at) };
    pieces.push({ bytes: bytes.subarray(at, at + good) });
    at += good;
    clean = at;
  }
  flush();
  return { pieces, rest: NO_BYTES };
}

/** The text of bytes that are whole characters throughout, else null. */
function wholeText(bytes) {
  const { pieces, rest } = scan(bytes);
  if (rest.length || pieces.length > 1 || pieces[0]?.bytes) return null;
  return pieces[0]?.text ?? "";
}

/** The characters of a token or candidate, or null where its bytes are not whole characters. */
function textOf(token) {
  return token.text || wholeText(bytesOf(token));
}

/** Whether a reader sees a border between the two texts, that is: no grapheme spans it. */
function graphemeBorder(left, right) {
  if (!left || !right) return true;
  // Below U+0300 nothing joins but CR and LF (UAX 29): most borders are found here, without the segmenter.
  if (left.charCodeAt(left.length - 1) < 0x300 && right.charCodeAt(0) < 0x300) return !(left.endsWith("\r") && right[0] === "\n");
  for (const { index } of SEGMENTER.segment(left + right)) if (index >= left.length) return index === left.length;
  return false;
}

/** Tokens in groups that a reader sees as one: a group ends where a token border is also a grapheme border. */
class Grouper {
  constructor() {
    this.groups = [];
  }

  /** Adds a token; returns the group it is in now. `group.absorbed` is a former last group that it swallowed, if any. */
  push(token) {
    const last = this.groups.at(-1);
    if (last) last.absorbed = null;
    const bytes = bytesOf(token);
    const apart = !last || last.special || token.special || last.kind !== token.kind;
    if (!apart && last.text === null && this.finishes(last, bytes)) return this.extend(last, token, bytes);
    const text = textOf(token);
    if (!apart && last.text !== null && text !== null && !graphemeBorder(last.text, text)) return this.extend(last, token, bytes);
    const group = { tokens: [token], bytes, text, kind: token.kind, special: token.special, absorbed: null };
    this.groups.push(group);
    return group;
  }

  finishes(group, bytes) {
    const rest = scan(group.bytes).rest;
    return rest.length > 0 && bytes.length > 0 && continues(joinBytes(rest, bytes), 0, rest.length);
  }

  extend(group, token, bytes) {
    group.tokens.push(token);
    group.bytes = joinBytes(group.bytes, bytes);
    group.text = wholeText(group.bytes);
    const before = this.groups.at(-2);
    const joins = before && !before.special && before.kind === group.kind && before.text !== null && group.text !== null;
    if (!joins || graphemeBorder(before.text, group.text)) return group;
    this.groups.pop();
    before.tokens.push(...group.tokens);
    before.bytes = joinBytes(before.bytes, group.bytes);
    before.text += group.text;
    before.absorbed = group;
    return before;
  }

  get waiting() {
    const last = this.groups.at(-1);
    return last && last.text === null ? scan(last.bytes).rest.length : 0;
  }
}

function element(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

function markOf(char) {
  return MARKS[char] ?? `U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Text with its white space and invisible characters made visible, as nodes. */
function visible(text) {
  const nodes = document.createDocumentFragment();
  if (/^\p{M}/u.test(text)) nodes.append(element("i", "ob-mark", "◌"));
  if (!HIDDEN.test(text)) {
    nodes.append(text);
    return nodes;
  }
  let at = 0;
  for (const { 0: run, 1: char, index } of text.matchAll(HIDDEN_RUN)) {
    if (index > at) nodes.append(text.slice(at, index));
    const count = run.length / char.length;
    nodes.append(element("i", "ob-mark", count > 4 ? `${markOf(char)}×${count}` : markOf(char).repeat(count)));
    at = index + run.length;
  }
  if (at < text.length) nodes.append(text.slice(at));
  return nodes;
}

/** One token's own content: its text, or its bytes in hex where they are not whole characters. */
function tokenNodes(token) {
  const text = textOf(token);
  return text === null ? element("span", "ob-hex", hex(bytesOf(token))) : visible(text);
}

/** A label with its places filled by name. */
function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (place, name) => (name in values ? String(values[name]) : place));
}

function grouped(number) {
  return GROUPED.format(number);
}

function percent(share) {
  if (share === 0) return "0%";
  if (share < 0.001) return "<0.1%";
  return share < 0.0995 ? `${(share * 100).toFixed(1)}%` : `${Math.round(share * 100)}%`;
}

/** An attention weight: three figures behind the point, and never a zero that is none. */
function weightText(weight) {
  return weight === 0 ? "0" : weight < 0.0005 ? "<0.001" : weight.toFixed(3);
}

function bytesText(count) {
  if (count < 1024) return `${grouped(count)} B`;
  const [unit, size] = count < 1024 ** 2 ? ["KiB", 1024] : count < 1024 ** 3 ? ["MiB", 1024 ** 2] : ["GiB", 1024 ** 3];
  const value = count / size;
  return `${value < 100 ? value.toFixed(value < 10 ? 2 : 1) : grouped(Math.round(value))} ${unit}`;
}

/** Seconds as a reader wants them: three figures, in ms or s. */
function secondsText(seconds, labels) {
  const ms = seconds * 1000;
  if (ms >= 10_000) return fill(labels.live_s, { n: seconds < 100 ? seconds.toFixed(1) : Math.round(seconds) });
  if (ms >= 1000) return fill(labels.live_s, { n: seconds.toFixed(2) });
  return fill(labels.live_ms, { n: ms >= 99.5 ? Math.round(ms) : ms >= 0.05 ? ms.toFixed(1) : ms === 0 ? "0" : "<0.1" });
}

/** Kind of a token in words. */
function kindText(token, labels) {
  if (token.special) return labels.live_special;
  return { template: labels.live_template, prompt: labels.live_prompt, generated: labels.live_answer }[token.kind];
}

/** Everything about one token in a line: literal text, id, position, bytes. */
function tokenText(token, labels) {
  const text = textOf(token);
  return fill(labels.live_token, {
    text: text === null ? "…" : text,
    id: token.id,
    position: token.position,
    bytes: hex(bytesOf(token)),
    kind: kindText(token, labels),
  });
}

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

/** Bytes of notes that a step reads: in each layer the `context` tokens before its eyes, the one that came in included, as far as the
    layer's window reaches (null: all the way). As engine/measure/reading.py. */
function notesRead(windows, layerTokenBytes, context) {
  return windows.reduce((sum, window) => sum + Math.min(context, window ?? context), 0) * layerTokenBytes;
}

/** How many tokens each layer keeps between two steps: in a window one place is free for the token to come. As engine/kv/sizes.py. */
function windowsAtRest(windows) {
  return windows.map((window) => window && window - 1);
}

/** The strongest looks but for the first token's, on which many heads park theirs: [[position, weight], …], strongest first. */
function strongestLooks(weights, most) {
  const best = [];
  for (let position = 1; position < weights.length; position += 1) {
    if (best.length === most && weights[position] <= best[most - 1][1]) continue;
    const at = best.findIndex(([, weight]) => weights[position] > weight);
    best.splice(at < 0 ? best.length : at, 0, [position, weights[position]]);
    best.length = Math.min(best.length, most);
  }
  return best;
}

const LETTERS = /[\p{L}\p{N}]/u;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]/u;
const READING = new Intl.Segmenter("und", { granularity: "word" });

/** What a reader reads of these bytes: words, characters (no white space), and whether the script writes most of them without spaces. */
function readIn(bytes) {
  const text = scan(bytes).pieces.map((piece) => piece.text ?? "").join("");
  let words = 0;
  for (const { isWordLike } of READING.segment(text)) words += isWordLike ? 1 : 0;
  const characters = [...text].filter((char) => !/\s/u.test(char));
  const letters = characters.filter((char) => LETTERS.test(char));
  const unspaced = letters.filter((char) => UNSPACED.test(char)).length * 2 > letters.length;
  return { words, characters: characters.length, unspaced };
}
