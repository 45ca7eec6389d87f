// The token strip: chips, their card, the links between them, and the keys that walk along them.
// Knows the run's store and what the page asked for; knows no model and no page.

const STEPS = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
const LINES = { ArrowDown: 1, ArrowUp: -1 };
const PAGES = { PageDown: 0.8, PageUp: -0.8 };

/** Whether a fixed list of tokens is the one that is drawn already: every script run brings it anew. */
function sameTokens(left, right) {
  if (!left || !right || left.length !== right.length) return !left && !right;
  return left.every((token, at) => token.id === right[at].id && token.raw === right[at].raw && token.kind === right[at].kind);
}

class Strip {
  constructor(view) {
    const find = (selector) => view.root.querySelector(selector);
    const [frame, box, empty, card, legend, toggle] = [".frame", ".chips", ".ob-empty", ".card", ".ob-legend", ".switch"].map(find);
    Object.assign(this, { view, frame, box, empty, card, legend, toggle, source: {} });
    this.chips = new Chips(box);
    this.links = new Links(this.chips);
    this.begin();
    this.listen();
  }

  /** `current`: the chip that Tab leads to; `pointed`: the one under the pointer. */
  begin() {
    this.chips.clear();
    Object.assign(this, { drawn: 0, current: null, pointed: null, newest: null });
  }

  get focused() {
    return this.view.root.querySelector(".chip:focus");
  }

  listen() {
    const chipAt = (event) => event.target.closest(".chip") ?? event.target.closest(".group")?.querySelector(".chip") ?? null;
    this.box.onpointerover = (event) => {
      const chip = chipAt(event);
      if (chip && chip !== this.pointed) this.show((this.pointed = chip));
    };
    this.box.onpointerleave = () => {
      this.pointed = null;
      this.show(this.focused);
    };
    this.box.onclick = (event) => {
      this.focus(chipAt(event));
      this.choose(chipAt(event));
    };
    this.box.onkeydown = (event) => {
      const chip = event.target.closest(".chip");
      if (!chip || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || !this.obey(chip, event)) return;
      event.preventDefault();
      event.stopPropagation(); // the page's own keys play and step the run
    };
    this.toggle.onclick = () => {
      live.stripIds = this.toggle.getAttribute("aria-pressed") !== "true"; // for every strip, as long as the page lives
      const views = [live.idle, ...Object.values(live.runs)].flatMap((store) => [...store.views]);
      for (const view of views) if (view.name === this.view.name) view.redraw();
    };
  }

  /** Do what a key asks for; false where it means nothing here. */
  obey(chip, { key, repeat }) {
    const { all } = this.chips;
    const at = this.chips.at(chip);
    if (key in STEPS) this.focus(all[Math.min(Math.max(at + STEPS[key], 0), all.length - 1)]);
    else if (key in LINES) this.focus(all[this.chips.beside(at, LINES[key])]);
    else if (key in PAGES) this.focus(all[this.chips.beside(at, PAGES[key] * this.frame.clientHeight)]);
    else if (this.view.data.pick && (key === "Enter" || key === " ")) this.choose(repeat ? null : chip);
    else return false;
    return true;
  }

  focus(chip) {
    if (!chip) return;
    this.lead(chip);
    chip.focus();
    this.reached(chip);
  }

  /** A chip has the focus, by whatever way. */
  reached(chip) {
    chip.setAttribute("aria-posinset", this.chips.at(chip) + 1);
    chip.setAttribute("aria-setsize", this.chips.all.length);
    this.show(chip);
  }

  /** Make a chip the one that Tab comes to. */
  lead(chip) {
    if (this.current) this.current.removeAttribute("tabindex");
    this.current = chip;
    chip.tabIndex = 0;
    chip.onfocus = () => this.reached(chip);
    chip.onblur = () => this.show(this.pointed);
  }

  choose(chip) {
    if (chip && this.view.data.pick) live.tell(this.view.component, "picked", this.chips.tokenOf(chip).position);
  }

  /** The card of one chip; without one, what the reader can do here. */
  show(chip) {
    const [{ labels, pick }, { chips, links, card }] = [this.view.data, this];
    const token = chip && chips.tokenOf(chip);
    if (!token) {
      const hint = pick ? labels.token_strip_choose : labels.token_strip_hint;
      card.replaceChildren(element("div", "hint", chips.all.length ? hint : ""));
      return;
    }
    const group = chips.groupOf(chip);
    this.view.root.classList.add("told"); // from now on the card keeps room for all that it may say
    card.replaceChildren(tokenLine(token, links.say(token.position, labels), labels), ...(group ? [groupLine(token, group, labels)] : []));
  }

  /** Begin anew, unless what is on the page is the beginning of what is wanted. */
  restart(store, { show, tokens, labels }, count) {
    const wanted = { store, epoch: store.epoch, spoken: labels.live_token, show };
    const same = Object.keys(wanted).every((name) => wanted[name] === this.source[name]) && sameTokens(tokens, this.source.tokens);
    if (same && count >= this.drawn) return;
    this.source = { ...wanted, tokens };
    this.begin();
  }

  /** Everything but the chips: words, switch, links, legend. */
  dress(data) {
    const { chips, links, view, box, toggle, empty } = this;
    const ids = live.stripIds ?? data.ids ?? false;
    setText(toggle, data.labels.token_strip_ids);
    setAttribute(toggle, "aria-pressed", ids);
    setAttribute(box, "aria-label", data.labels.token_strip_name);
    setText(empty, data.labels.token_strip_none);
    const before = links.reader;
    links.draw(data);
    this.legend.replaceChildren(...legendNodes(chips, links, data.labels));
    const marks = { "with-ids": ids, joined: chips.joined, reading: links.weights !== null, writing: links.writing, pick: Boolean(data.pick) };
    for (const [name, on] of Object.entries(marks)) view.root.classList.toggle(name, on);
    this.frame.classList.toggle("newest", this.follows(data));
    if (chips.all.length && !this.current) this.lead(chips.all[0]);
    if (!links.writing && links.reader !== null && links.reader !== before) this.revealReader();
    this.show(this.pointed ?? this.focused);
  }

  /** Whether the strip hangs from its newest line. */
  follows({ show, tokens, reader, writing }) {
    return show === "all" && !tokens && (writing || (reader ?? null) === null);
  }

  /** What the page asked for; of a strip that follows the pen, with the looks of the step on screen: the page's own at rest, else the
      channel's, else none. */
  looking(store, shown, data) {
    if (!data.writing) return data;
    const index = shown - 1;
    const weights = looksOf(store, index, data.weights && { index: data.looked, weights: data.weights });
    return { ...data, weights, reader: weights && weights.length - 1, target: null };
  }

  /** Scroll the frame to the chip that reads; the page stays where it is. */
  revealReader() {
    const chip = this.chips.all.find((_, at) => this.chips.tokens[at].position === this.links.reader);
    if (!chip) return;
    const [own, around] = [chip.getBoundingClientRect(), this.frame.getBoundingClientRect()];
    if (own.top < around.top || own.bottom > around.bottom) this.frame.scrollTop += own.top - around.top - around.height / 2;
  }

  draw({ store, shown, full, data: asked, cursor }) {
    const { chips } = this;
    const data = this.looking(store, shown, asked);
    const start = data.tokens ?? store.tokens;
    const count = start.length + (data.show === "all" && !data.tokens ? shown : 0);
    if (full) this.restart(store, data, count);
    const [joined, before] = [chips.joined, this.drawn];
    for (; this.drawn < count; this.drawn += 1) {
      chips.push(this.drawn < start.length ? start[this.drawn] : generatedToken(store, this.drawn - start.length), data.labels);
    }
    if (full || joined !== chips.joined || before <= start.length || (data.weights ?? null) !== this.links.weights) this.dress(data);
    this.empty.hidden = count > 0;
    this.toggle.hidden = count === 0;
    const writing = this.follows(data) && count > start.length && (store.status !== "ended" || cursor !== null);
    this.newest?.classList.remove("newest");
    this.newest = writing ? chips.all.at(-1) : null;
    this.newest?.classList.add("newest");
  }
}

export default function tokenStrip(component) {
  return live.mount("token_strip", component, (view) => {
    const strip = new Strip(view);
    return { draw: (now) => strip.draw(now) };
  });
}
