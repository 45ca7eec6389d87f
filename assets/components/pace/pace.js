// Feel the speed: one answer on two sheets, as fast as it was measured and as fast as the reader chose. All of it happens here: the run
// is not asked again, and bytes of an unfinished character wait as on the answer sheet.

/** The text of one sheet, as far as it has come. */
class Lines {
  constructor(box) {
    this.box = box;
    this.pending = element("span", "ob-hex pending");
    this.caret = element("span", "caret");
    this.clear();
  }

  clear() {
    this.box.replaceChildren();
    Object.assign(this, { rest: NO_BYTES, tail: null });
  }

  push(token) {
    if (token.special) return;
    const { pieces, rest } = scan(joinBytes(this.rest, bytesOf(token)));
    this.rest = rest;
    for (const piece of pieces) this.add(piece);
  }

  add(piece) {
    for (const mark of [this.pending, this.caret]) mark.remove();
    if (piece.text === undefined) {
      this.box.append(element("span", "ob-hex", hex(piece.bytes)));
      this.tail = null;
    } else if (this.tail) {
      this.tail.appendData(piece.text);
    } else {
      this.box.append((this.tail = document.createTextNode(piece.text)));
    }
  }

  finish(writing, labels) {
    for (const mark of [this.pending, this.caret]) mark.remove();
    if (this.rest.length) {
      this.pending.textContent = hex(this.rest);
      this.pending.title = labels.pace_pending;
      this.box.append(this.pending);
    }
    if (writing) this.box.append(this.caret);
  }
}

/** What a reader gets at this speed: words a minute and characters a second of this very answer. */
function speedText(store, tpot, labels) {
  if (!tpot || store.generated < 2) return "";
  const read = readIn(answerBytes(store, store.generated));
  const [words, characters] = [read.words, read.characters].map((count) => count / store.generated / tpot);
  if (!read.characters) return "";
  const n = characters.toFixed(1);
  if (read.unspaced) return fill(labels.pace_characters, { characters: n, minute: grouped(Math.round(characters * 60)) });
  return fill(labels.pace_words, { words: grouped(Math.round(words * 60)), characters: n });
}

/** One sheet: when its tokens are due, and how far it is. */
class Side {
  constructor(box, due) {
    const [title, times, text, foot] = ["h4", ".times", ".text", ".foot"].map((selector) => box.querySelector(selector));
    Object.assign(this, { box, due, title, times, foot, text, lines: new Lines(text), count: 0, done: false, end: null });
  }

  clear() {
    this.lines.clear();
    Object.assign(this, { count: 0, done: false, end: null });
  }

  /** All tokens that are due `at` seconds after the start. */
  write(store, data, at, labels) {
    const before = this.count;
    while (this.count < store.generated && this.due(store, data, this.count) <= at) {
      this.lines.push(generatedToken(store, this.count));
      this.count += 1;
    }
    this.done = this.count === store.generated && store.status !== "running";
    if (this.done && this.end === null) this.end = this.due(store, data, this.count - 1);
    if (this.count !== before || this.done) this.lines.finish(!this.done, labels);
  }

  say(at, playing, labels) {
    const seconds = fill(labels.live_s, { n: (this.end ?? at).toFixed(1) });
    const stopped = at > 0 && !playing ? fill(labels.pace_stopped, { t: seconds }) : "";
    const words = this.done ? fill(labels.pace_done, { t: seconds }) : playing ? (this.count ? seconds : `${labels.pace_waiting} ${seconds}`) : stopped;
    setText(this.foot, words);
  }
}

class Pace {
  constructor(view) {
    const find = (selector) => view.root.querySelector(selector);
    const [go, over] = [".go", ".over"].map(find);
    const measured = new Side(find(".measured"), (store, data, index) => measuredDue(store, index));
    const chosen = new Side(find(".chosen"), (store, data, index) => chosenDue(data, index));
    Object.assign(this, { view, go, over, sides: [measured, chosen], race: new Race(() => this.frame()), store: null, epoch: -1, known: "" });
    go.onclick = () => this.toggle();
    view.root.onkeydown = (event) => event.key === " " && event.stopPropagation(); // the page's own Space moves the run
  }

  toggle() {
    if (this.race.playing) {
      this.race.stop();
    } else {
      for (const side of this.sides) side.clear();
      this.race.start();
    }
    this.frame();
  }

  /** One picture of the clock. */
  frame() {
    const { race, view, store, sides } = this;
    const { labels, data } = view.data ? { labels: view.data.labels, data: view.data } : {};
    if (race.playing) for (const side of sides) side.write(store, data, race.at, labels);
    if (race.playing && sides.every((side) => side.done)) race.stop();
    for (const side of sides) side.say(race.at, race.playing, labels);
    this.dials(labels);
  }

  dials(labels) {
    const { go, over, race, sides, store } = this;
    go.disabled = !store?.generated;
    const done = sides.every((side) => side.done);
    setText(go, race.playing ? `■ ${labels.pace_stop}` : `▶ ${race.at ? labels.pace_again : labels.pace_start}`);
    setText(over, !store?.generated ? labels.pace_none : done ? labels.pace_over : "");
  }

  draw({ store, data, labels, full }) {
    if (store !== this.store || store.epoch !== this.epoch) this.reset(store);
    const known = [store.generated, store.status, data.ttft_s, data.tpot_s].join();
    const settled = store.status !== "running" || store.generated % 8 === 0;
    if (full || (known !== this.known && settled)) this.headings(store, data, labels);
    this.known = known;
    if (!this.race.playing) this.frame();
  }

  /** Another run, or the same one told anew: what stands on the sheets is of the past. */
  reset(store) {
    this.race.stop();
    this.race.at = 0;
    Object.assign(this, { store, epoch: store.epoch });
    for (const side of this.sides) side.clear();
  }

  headings(store, data, labels) {
    const steps = store.steps.length;
    const measured = { ttft: store.prefill && measuredDue(store, 0), tpot: steps ? store.itlSum[steps] / steps : null };
    const given = [[labels.pace_measured, measured, labels.live_measured], [labels.pace_chosen, { ttft: data.ttft_s, tpot: data.tpot_s }, ""]];
    given.forEach(([name, { ttft, tpot }, tag], at) => {
      const side = this.sides[at];
      side.title.replaceChildren(element("span", "", name), ...(tag && ttft !== null ? [element("span", "ob-tag ob-measured", tag)] : []));
      setAttribute(side.box, "aria-label", name);
      side.text.parentElement.setAttribute("aria-label", name);
      const times = ttft === null ? "" : fill(tpot ? labels.pace_times : labels.pace_time, { ttft: secondsText(ttft, labels), tpot: secondsText(tpot ?? 0, labels) });
      setText(side.times, [times, speedText(store, tpot, labels)].filter(Boolean).join(" "));
    });
    setAttribute(this.view.root, "aria-label", labels.pace_name);
    this.view.root.setAttribute("role", "group");
  }
}

export default function pace(component) {
  return live.mount("pace", component, (view) => {
    const own = new Pace(view);
    return { draw: (turn) => own.draw(turn), follows: true, leave: () => own.race.stop() };
  });
}
