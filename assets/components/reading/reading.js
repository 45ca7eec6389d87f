// Reading all at once: prompt tokens as columns, layers as rows. The pass fills the sheet from below, one layer after the other and all
// columns of a layer together, to the measured time of every layer of this run. No time was taken per token, and none is drawn.
// sheet.js paints, replay.js counts the time.

const UNEVEN = 3; // times the median: so much longer a layer's time wants a word

/** The clock's hand in the unit of the whole, so that it does not jump while it counts. */
function handText(seconds, total, labels) {
  return total >= 2 ? fill(labels.live_s, { n: seconds.toFixed(2) }) : fill(labels.live_ms, { n: (seconds * 1000).toFixed(1) });
}

function paceText(rate, labels) {
  const words = (factor) => (factor < 10 ? factor.toFixed(1) : grouped(Math.round(factor)));
  if (Math.abs(rate - 1) < 0.05) return labels.reading_pace_real;
  return rate < 1 ? fill(labels.reading_pace_slow, { n: words(1 / rate) }) : fill(labels.reading_pace_fast, { n: words(rate) });
}

/** The pass in one sentence; `per` tokens to a column. */
function sayPass({ store, labels }, per) {
  const { prefill, tokens } = store;
  const thinned = per > 1 ? ` ${fill(labels.reading_thinned, { n: grouped(per) })}` : "";
  if (!store.model) return store.runId && !store.status ? "" : labels.reading_none; // nothing has come through the channel yet
  if (!prefill) return fill(labels.reading_waiting, { n: grouped(tokens.length) }) + thinned;
  const times = prefill.layer_s;
  const [n, layers] = [grouped(prefill.prompt_tokens), store.model.shape.num_hidden_layers];
  const beyond = Math.max(prefill.prefill_s - times.reduce((sum, seconds) => sum + seconds, 0), 0);
  const [total, least, most, rest] = [prefill.prefill_s, Math.min(...times), Math.max(...times), beyond].map((seconds) => secondsText(seconds, labels));
  if (!times.length) return fill(labels.reading_untimed, { n, layers, total }) + thinned;
  const middle = [...times].sort((one, other) => one - other)[times.length >> 1];
  const uneven = Math.max(...times) > UNEVEN * middle ? ` ${labels.reading_uneven}` : "";
  return fill(labels.reading_says, { n, layers, total, least, most, rest }) + uneven + thinned;
}

function writeLegend(box, labels) {
  const kinds = {
    template: labels.live_template, prompt: labels.live_prompt, busy: labels.reading_busy, time: labels.reading_time, first: labels.reading_cell,
  };
  box.replaceChildren(...Object.entries(kinds).map(([kind, words]) => {
    const entry = element("span");
    entry.append(element("i", `k-${kind}`), words);
    return entry;
  }));
}

/** The buttons and keys of the replay. Keys that it takes do not reach the page, whose own Space and arrows play the run. */
function wireControls(view, replay, parts) {
  const { go, speeds, picture } = parts;
  const able = () => !view.root.classList.contains("waiting") && !view.root.classList.contains("untimed");
  const toggle = () => (replay.playing ? replay.pause() : replay.play());
  const moves = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  go.onclick = toggle;
  for (const button of speeds.children) {
    button.onclick = () => {
      replay.speed = button.value;
      if (replay.at >= replay.total) replay.play();
      else replay.show();
    };
  }
  picture.onclick = (event) => {
    const { layout } = parts.sheet;
    const layer = layout.layers - 1 - Math.floor((event.clientY - picture.getBoundingClientRect().top - TOP) / layout.row);
    if (able()) replay.set([0, ...replay.ends, replay.total][Math.min(Math.max(layer + 1, 0), layout.layers + 1)]);
  };
  view.root.onkeydown = (event) => {
    const ours = event.key === " " || event.key in moves;
    if (!ours || !able() || event.ctrlKey || event.altKey || event.metaKey) return;
    event.stopPropagation();
    if (event.target !== picture) return;
    event.preventDefault();
    if (event.key === " ") toggle();
    else replay.move(moves[event.key]);
  };
}

/** The sheet, its clock and its words, kept together. */
class Reading {
  constructor(view) {
    const find = (selector) => view.root.querySelector(selector);
    const [go, speeds, pace, hand, whole, picture, legend, says] = [".go", ".speeds", ".pace", ".clock b", ".clock i", ".sheet", ".ob-legend", ".says"].map(find);
    Object.assign(this, { view, go, speeds, pace, hand, whole, picture, legend, says });
    Object.assign(this, { sheet: new Sheet(find("canvas")), now: null, known: null, still: matchMedia("(prefers-reduced-motion: reduce)") });
    this.replay = new Replay(() => this.now && this.show());
    for (const speed of ["real", "short", "long"]) speeds.append(Object.assign(element("button"), { type: "button", value: speed }));
    wireControls(view, this.replay, this);
  }

  /** Whether the whole pass is on the sheet. */
  get over() {
    const { replay, now } = this;
    return Boolean(now.store.prefill) && (!replay.ends.length || replay.at >= replay.total);
  }

  show() {
    this.fill();
    this.dials();
    if (!this.replay.playing) this.describe();
  }

  /** The rows as far as the clock has come. */
  fill() {
    const { sheet, over, now: { store, labels }, replay: { ends, at } } = this;
    const timed = ends.length > 0;
    const state = (end, start) => (over || (timed && end <= at + 1e-12) ? "done" : timed && at > start ? "busy" : "blank");
    sheet.row(-1, over || (timed && at > 0) ? "done" : "blank");
    for (let layer = 0; layer < sheet.layout.layers; layer += 1) {
      const start = layer ? ends[layer - 1] : 0;
      sheet.row(layer, state(ends[layer], start));
      if (timed) sheet.bar(layer, Math.min(Math.max((at - start) / (ends[layer] - start || 1), 0), 1), labels);
    }
    sheet.first(over ? shortName(store.prefill.first) : null, labels);
  }

  /** Clock, pace and buttons. */
  dials() {
    const { store, labels } = this.now;
    const { ends, at, total, playing, rate, speed } = this.replay;
    const timed = ends.length > 0;
    setText(this.hand, store.prefill ? handText(timed ? at : store.prefill.prefill_s, total, labels) : "");
    setText(this.whole, timed ? fill(labels.reading_of, { total: handText(total, total, labels) }) : "");
    setText(this.go, playing ? `❚❚ ${labels.reading_pause}` : at > 0 && at < total ? `▶ ${labels.reading_resume}` : `▶ ${labels.reading_play}`);
    setText(this.pace, timed ? paceText(rate, labels) : "");
    for (const button of this.speeds.children) setAttribute(button, "aria-pressed", button.value === speed);
  }

  /** For screen readers: a slider over the layers while there is something to replay, a picture otherwise. */
  describe() {
    const { picture, says, now: { labels } } = this;
    const slider = this.replay.ends.length > 0;
    setAttribute(picture, "role", slider ? "slider" : "img");
    setAttribute(picture, "aria-label", slider ? labels.reading_name : `${labels.reading_name}. ${says.textContent}`);
    setAttribute(picture, "aria-describedby", "reading-says");
    if (slider) this.tellStage();
  }

  /** The slider's own values: layers read, and the first token after them. */
  tellStage() {
    const { picture, replay, sheet, now: { store, labels } } = this;
    const { layers } = sheet.layout;
    const { stage } = replay;
    const values = { min: 0, max: layers + 1, now: stage };
    for (const [name, value] of Object.entries(values)) setAttribute(picture, `aria-value${name}`, value);
    const time = handText(replay.at, replay.total, labels);
    const done = fill(labels.reading_value, { done: Math.min(stage, layers), layers, time });
    setAttribute(picture, "aria-valuetext", stage > layers ? `${done} ${fill(labels.reading_first, { text: shortName(store.prefill.first) })}` : done);
  }

  restart() {
    const { view, sheet, speeds, now: { store, labels, theme } } = this;
    const times = store.prefill?.layer_s ?? [];
    const layers = store.model?.shape.num_hidden_layers ?? 0;
    const marks = { waiting: !store.prefill, untimed: Boolean(store.prefill) && !times.length, blank: !layers || !store.tokens.length };
    for (const [name, on] of Object.entries(marks)) view.root.classList.toggle(name, on);
    sheet.start(layOut(Math.max(view.root.clientWidth, 160), Math.max(store.tokens.length, 1), Math.max(layers, 1)), store.tokens, times, theme, labels);
    this.replay.load(times, store.prefill?.prefill_s ?? 0);
    const names = [labels.reading_real, fill(labels.reading_in, { n: SHORT_S }), fill(labels.reading_in, { n: LONG_S })];
    [...speeds.children].forEach((button, at) => setText(button, names[at]));
    setAttribute(speeds, "aria-label", labels.reading_speed);
    writeLegend(this.legend, labels);
    setText(this.says, sayPass(this.now, sheet.layout.per));
  }

  /** A pass that this page has not shown yet plays by itself, once; with reduced motion the sheet is simply full. */
  welcome() {
    const { replay, now: { store } } = this;
    const fresh = store.playedAt !== store.prefill.at_s;
    store.playedAt = store.prefill.at_s;
    replay.at = replay.total;
    if (fresh && replay.ends.length && !this.still.matches) replay.play();
    else replay.pause();
  }

  draw(turn) {
    const { store, full } = turn;
    const pass = store.prefill ? `${store.runId} ${store.prefill.at_s}` : `${store.runId} ${store.tokens.length}`;
    const another = pass !== this.known;
    this.now = turn;
    if (full || another) this.restart();
    this.known = pass;
    if (another && store.prefill) this.welcome();
    else if (another) this.replay.set(0);
    else if (full) this.show();
  }
}

export default function reading(component) {
  return live.mount("reading", component, (view) => {
    const own = new Reading(view);
    return { draw: (turn) => own.draw(turn), sized: true, leave: () => cancelAnimationFrame(own.replay.frame) };
  });
}
