// Time travel: a slider over the tokens that were written. The hand moves all pictures of the page at once, here in the browser; when it
// lets go, Python is told where they stand. player.js plays them again.

const TOLD_AFTER_MS = 350; // keys that come in a row are told once
const CAPACITIES = [8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096];
const SHAKE = 6; // px: a mark that is pressed is not left by a hand that trembles
const TICK_MIN = 6; // px: closer lines would be a grey ground

/** Places on the track: as many as are written once the run has ended, with room to grow before. */
function capacityOf(store) {
  const count = Math.max(store.generated, 1);
  if (store.status === "ended") return count;
  const room = CAPACITIES.find((size) => size > count) ?? count * 2;
  return Math.max(Math.min(room, store.max_new_tokens || room), count);
}

/** Where the token was written: TTFT for the first one, else the time since the one before. */
function timeText(store, index, labels) {
  if (index === 0) {
    const { queue_s, template_s, tokenize_s, prefill_s, sample_s } = store.prefill;
    return fill(labels.timeline_first, { t: secondsText(queue_s + template_s + tokenize_s + prefill_s + sample_s, labels) });
  }
  return fill(labels.timeline_took, { t: secondsText(store.itl[index - 1], labels) });
}

/** Where branches begin: this one's own, and those that left this run. */
function forksOf(store, forks) {
  const own = store.origin ? [{ index: store.origin.index, own: true }] : [];
  return [...forks.map((index) => ({ index, own: false })), ...own];
}

function forkText({ index, own }, labels) {
  return fill(own ? labels.timeline_own : labels.timeline_fork, { n: grouped(index + 1) });
}

/** This branch's own mark below, the others above. A mark is a place on the track: pressing it goes there. */
function drawForks(box, marks, capacity, labels) {
  box.replaceChildren(...marks.map((fork) => {
    const mark = element("i", fork.own ? "own" : "", fork.own ? "▲" : "▼");
    mark.style.left = `${(100 * (fork.index + 0.5)) / capacity}%`;
    mark.title = forkText(fork, labels);
    mark.dataset.at = fork.index;
    return mark;
  }));
}

class Timeline {
  constructor(view) {
    const find = (selector) => view.root.querySelector(selector);
    const [go, speeds, now, track, hand, says] = [".go", ".speeds", ".now", ".track", ".hand", ".says"].map(find);
    const [written, passed, ticks, forks] = [".written", ".passed", ".ticks", ".forks"].map(find);
    const [count, word, time] = [".place b", ".word", ".place i"].map(find);
    Object.assign(this, { view, go, speeds, now, track, hand, says, written, passed, ticks, forks, count, word, time });
    Object.assign(this, { store: null, speed: null, timer: 0, pressed: null, laid: "", forkWords: "", labels: null });
    this.player = new Player(view, () => this.dials(), () => this.tell());
    this.wire();
  }

  get size() {
    return this.view.store.generated;
  }

  wire() {
    const { view, go, now, track, player } = this;
    go.onclick = () => player.toggle();
    now.onclick = () => this.move(Infinity);
    track.onpointerdown = (event) => {
      if (event.button || !this.size) return;
      track.setPointerCapture(event.pointerId);
      this.grasp();
      const { at } = event.target.dataset;
      this.pressed = at ? event.clientX : null;
      if (at) this.look(Number(at));
      else this.point(event);
    };
    track.onpointermove = (event) => {
      if (!track.hasPointerCapture(event.pointerId)) return;
      if (this.pressed !== null && Math.abs(event.clientX - this.pressed) < SHAKE) return;
      this.pressed = null;
      this.point(event);
    };
    track.onpointerup = track.onpointercancel = () => this.release();
    view.root.onkeydown = (event) => this.key(event);
  }

  /** Keys that the timeline takes do not reach the page, whose own Space and arrows move the run. */
  key(event) {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
    const ours = by !== undefined || event.key === " " || event.key === "Enter";
    if (!ours || event.ctrlKey || event.altKey || event.metaKey) return;
    event.stopPropagation();
    if (event.target !== this.track || !this.size) return;
    event.preventDefault();
    if (by === undefined) this.player.toggle();
    else this.move(this.player.at + by);
  }

  /** One move by key or button; a few in a row are told once. */
  move(index) {
    this.grasp();
    this.look(index);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.release(), TOLD_AFTER_MS);
  }

  grasp() {
    this.player.close();
    this.view.store.hand = true;
  }

  point(event) {
    const { left, width } = this.track.getBoundingClientRect();
    this.look(Math.floor(((event.clientX - left) / width) * capacityOf(this.view.store)));
  }

  /** All pictures of the run at this token; at the newest one they follow the run. */
  look(index) {
    lookAt(this.view.store, index >= this.size - 1 ? null : Math.max(index, 0));
    live.wake();
  }

  release() {
    clearTimeout(this.timer);
    this.timer = 0;
    const { store } = this.view;
    if (!store.hand) return;
    store.hand = false;
    live.wake();
    this.tell();
  }

  /** Tell Python where the pictures stand, unless it knows. */
  tell() {
    const { store, component } = this.view;
    if (store.cursor === store.told && !store.asked.length) return;
    if (live.tell(component, "looked", { run: store.runId, cursor: store.cursor })) store.asked.push(store.cursor);
  }

  /** The page goes away, or shows another run: what Python has not been told is forgotten. */
  forget(store) {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!store) return;
    store.hand = false;
    if (store.player === this.player) store.player = null;
    cancelAnimationFrame(this.player.frame);
    Object.assign(this.player, { frame: 0, playing: false });
    if (!store.asked.length) lookAt(store, store.told);
  }

  chooseSpeed(speed) {
    Object.assign(this, { speed });
    this.player.pace = this.view.data.speeds.find(([name]) => name === speed)[2];
    this.dials();
  }

  writeSpeeds({ speeds, speed }, labels) {
    this.speeds.replaceChildren(...speeds.map(([name, words]) => {
      const button = Object.assign(element("button", "", words), { type: "button", value: name });
      button.onclick = () => this.chooseSpeed(name);
      return button;
    }));
    setAttribute(this.speeds, "aria-label", labels.timeline_speed);
    this.chooseSpeed(this.speed ?? speed);
  }

  /** Buttons; called where the replay begins or stops. */
  dials() {
    const { go, speeds, now, says, player, labels, view: { store, root } } = this;
    if (!labels) return;
    const some = store.generated > 1;
    go.disabled = !some;
    const half = player.open && !player.playing;
    setText(go, player.playing ? `❚❚ ${labels.timeline_pause}` : `▶ ${half ? labels.timeline_resume : labels.timeline_play}`);
    for (const button of speeds.children) setAttribute(button, "aria-pressed", button.value === this.speed);
    setText(now, `${labels.timeline_now} ▸▸`);
    root.classList.toggle("idle", !some);
    setText(says, some ? this.forkWords || labels.timeline_help : labels.timeline_none);
  }

  /** Scale, ticks and the marks of branches. */
  layOut(store, data, labels) {
    const capacity = capacityOf(store);
    const marks = forksOf(store, data.forks).filter(({ index }) => index < capacity);
    const laid = JSON.stringify([capacity, marks, this.view.width]);
    if (laid === this.laid) return capacity;
    this.laid = laid;
    const ground = this.view.root.clientWidth / capacity >= TICK_MIN ? `linear-gradient(to left, var(--ob-card) 1px, transparent 1px)` : "none";
    Object.assign(this.ticks.style, { backgroundImage: ground, backgroundSize: `${100 / capacity}% 100%` });
    drawForks(this.forks, marks, capacity, labels);
    return capacity;
  }

  draw({ store, shown, full, data, labels, cursor }) {
    if (store !== this.store) this.forget(this.store);
    Object.assign(this, { store, labels });
    if (full) {
      this.laid = "";
      this.writeSpeeds(data, labels);
    }
    const capacity = this.layOut(store, data, labels);
    const at = shown - 1;
    this.written.style.transform = `scaleX(${store.generated / capacity})`;
    this.passed.style.transform = `scaleX(${shown / capacity})`;
    this.hand.style.transform = `translateX(${(100 * Math.max(at + 0.5, 0)) / capacity}cqw)`;
    this.view.root.classList.toggle("live", cursor === null);
    if (this.go.disabled !== store.generated < 2) this.dials();
    this.tellPlace({ store, full, data, labels, cursor }, at);
  }

  /** The token in words, and for screen readers, who hear it at rest and not with every token of a run that plays. */
  tellPlace({ store, full, data, labels, cursor }, at) {
    if (at < 0) {
      for (const node of [this.count, this.word, this.time]) setText(node, "");
      return;
    }
    const token = generatedToken(store, at);
    setText(this.count, fill(labels.timeline_place, { n: grouped(at + 1), of: grouped(store.generated) }));
    this.word.replaceChildren(tokenNodes(token));
    setText(this.time, timeText(store, at, labels));
    const passing = store.status === "running" && cursor === null;
    this.forkWords = passing ? "" : forksOf(store, data.forks).filter(({ index }) => index === at).map((fork) => forkText(fork, labels)).join(" ");
    if (store.generated > 1) setText(this.says, this.forkWords || labels.timeline_help);
    if (passing && !full) return;
    const valuetext = `${this.count.textContent}: ${textOf(token) ?? ""}${this.forkWords && ` · ${this.forkWords}`}`;
    const values = { label: labels.timeline_name, valuemax: store.generated, valuenow: at + 1, valuetext };
    for (const [name, value] of Object.entries(values)) setAttribute(this.track, `aria-${name}`, value);
  }
}

export default function timeline(component) {
  return live.mount("timeline", component, (view) => {
    const own = new Timeline(view);
    return { draw: (turn) => own.draw(turn), follows: true, sized: true, leave: () => own.forget(view.store) };
  });
}
