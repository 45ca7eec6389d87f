// How strongly one token of a strip reads the others, and what its marks mean.
// Knows weights and positions; does not know where they come from.

const NUMBERED = 3; // the strongest links carry their number on the chip
const FAINTEST = 0.0005; // a link below this is no line at all

/** How strongly one token reads the others: mustard underlines, the reading token and the one that is read marked by shape. */
class Links {
  constructor(chips) {
    Object.assign(this, { chips, weights: null, reader: null, target: null, writing: false, readerName: null });
  }

  draw({ weights, reader, target, writing, labels }) {
    const before = this.any;
    Object.assign(this, { weights: weights ?? null, reader: reader ?? null, target: target ?? null, writing: Boolean(writing) });
    if (!before && !this.any) return;
    this.readerName = this.nameOfReader();
    const named = new Set(this.strongest());
    this.chips.tokens.forEach(({ position }, at) => {
      const chip = this.chips.all[at];
      this.mark(chip, position, named);
      setAttribute(chip, "aria-label", [chip.spoken, ...this.say(position, labels)].join(" · "));
    });
  }

  /** The reading token as a sentence names it: isolated, in one line; null where it is not on the strip. */
  nameOfReader() {
    const token = this.chips.tokens.find(({ position }) => position === this.reader);
    return token ? `\u2068${(textOf(token) ?? hex(bytesOf(token))).replaceAll("\n", "↵")}\u2069` : null;
  }

  get any() {
    return [this.weights, this.reader, this.target].some((part) => part !== null);
  }

  /** Positions of the strongest links, apart from what is too faint to draw. */
  strongest() {
    const order = [...(this.weights ?? []).keys()].filter((position) => this.weights[position] >= FAINTEST);
    const count = this.writing ? NUMBERED + 1 : NUMBERED; // where the pen is followed a sentence names three besides the first token
    return order.sort((left, right) => this.weights[right] - this.weights[left]).slice(0, count);
  }

  mark(chip, position, named) {
    const weight = this.weightOf(position);
    const linked = weight !== null && weight >= FAINTEST;
    const reads = position === this.reader && !this.writing; // the pen moves on: no chip may change its width for it
    chip.classList.toggle("reader", reads);
    chip.classList.toggle("target", position === this.target);
    chip.classList.toggle("later", this.isLater(position));
    chip.classList.toggle("linked", linked);
    if (linked) {
      chip.style.setProperty("--thick", `${(1 + 8 * Math.sqrt(weight)).toFixed(1)}px`);
      chip.style.setProperty("--strong", `${Math.round(40 + 60 * Math.sqrt(weight))}%`);
    }
    if (named.has(position)) chip.setAttribute("data-weight", weight.toFixed(2));
    else chip.removeAttribute("data-weight");
    if (reads) chip.setAttribute("aria-selected", "true");
    else chip.removeAttribute("aria-selected");
  }

  weightOf(position) {
    return this.weights?.[position] ?? null;
  }

  /** Whether a token comes after the one that reads, which cannot look ahead. Where the pen is followed, it is the one that is written. */
  isLater(position) {
    return !this.writing && this.weights !== null && this.reader !== null && position > this.reader;
  }

  /** What there is to say about one token as part of the links: sentences. */
  say(position, labels) {
    const said = [];
    if (position === this.reader) said.push(labels.token_strip_reader);
    if (position === this.target) said.push(labels.token_strip_target);
    if (this.isLater(position)) said.push(labels.token_strip_later);
    const weight = this.weightOf(position);
    if (weight === null || this.readerName === null) return said;
    said.push(fill(labels.token_strip_weight, { reader: this.readerName, n: grouped(this.reader), weight: weightText(weight) }));
    return said;
  }
}

/** What the marks mean: only those that are on the strip. */
function legendNodes(chips, links, labels) {
  const kinds = new Set(chips.tokens.map((token) => (token.special ? "special" : token.kind)));
  const words = { special: labels.live_special, template: labels.live_template, prompt: labels.live_prompt, generated: labels.live_answer };
  const entries = Object.entries(words).filter(([kind]) => kinds.has(kind));
  if (links.reader !== null && !links.writing) entries.push(["reader", labels.token_strip_reader]);
  if (links.target !== null) entries.push(["target", labels.token_strip_target]);
  if (links.weights) entries.push(["linked", labels.token_strip_thick]);
  return entries.map(([look, text]) => {
    const entry = element("span");
    entry.append(element("i", `swatch ${look === "special" ? "template special" : look}`), text);
    return entry;
  });
}
