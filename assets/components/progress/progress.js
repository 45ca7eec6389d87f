// The live part of the transport bar: how much is read and written, and word to Python when the run has moved on.

const STATES = { queued: "progress_queued", running: "progress_running", paused: "progress_paused", ended: "progress_ended" };
const CHANNELS = { down: "progress_down", gone: "progress_gone", refused: "progress_refused" };
const SETTLE_MS = 120; // tokens, status and prefill that come together cause one rerun
const REPEATS_MAX = 3;
const AGAIN_MS = 3000; // a word that was lost on its way is said again, also where nothing draws any more

/** The whole page, whose class changes with its theme. The bar itself is dark in both. */
function pageRoot() {
  return document.querySelector('[data-testid="stApp"]') ?? document.body;
}

function pageIsDark() {
  return luminance(getComputedStyle(pageRoot()).backgroundColor) < 0.4;
}

/** What Python has to know about a run and about the page that charts are drawn for, as `data.known` says it, or part of it: its tokens are counted only while it rests. */
function standing(store, dark) {
  const rests = store.status === "paused" || store.status === "ended";
  return { status: store.status, tokens: store.tokens.length > 0, prefill: store.prefill !== null, generated: rests ? store.generated : null, dark };
}

/** Whether the page shows this already: only what it knows of counts. */
function same(now, known) {
  return Boolean(known) && Object.keys(known).every((name) => now[name] === known[name]);
}

/** Tells Python once that the run has moved, and whether the channel is down or closed for good. */
class Messenger {
  constructor(view) {
    Object.assign(this, { view, timer: 0, again: 0, sent: "", repeats: 0, channel: "open", dark: false });
    this.theme = new MutationObserver(() => this.look());
    this.theme.observe(pageRoot(), { attributes: true, attributeFilter: ["class"] });
    this.dark = pageIsDark();
  }

  /** The theme is read when it changes, never with a token: reading it makes the browser lay out the page. */
  look() {
    this.dark = pageIsDark();
    this.check(this.view.store);
  }

  leave() {
    clearTimeout(this.timer);
    clearTimeout(this.again);
    this.theme.disconnect();
  }

  check(store) {
    const now = standing(store, this.dark);
    const { known } = this.view.data;
    if (store.status === null || same(now, known)) {
      this.repeats = 0;
    } else {
      const text = JSON.stringify([now, known]);
      if (text !== this.sent || this.repeats < REPEATS_MAX) this.later(store, text);
    }
    const { channel } = store;
    if (channel === this.channel || channel === "connecting") return;
    if (live.keep(this.view.component, "channel", channel)) this.channel = channel; // else asked again with the next picture
  }

  later(store, text) {
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (store !== this.view.store || same(standing(store, this.dark), this.view.data.known)) return;
      if (!live.tell(this.view.component, "moved", standing(store, this.dark))) {
        this.later(store, text);
        return;
      }
      this.repeats = text === this.sent ? this.repeats + 1 : 0;
      this.sent = text;
      this.again = setTimeout(() => this.check(this.view.store), AGAIN_MS);
    }, SETTLE_MS * 4 ** (text === this.sent ? this.repeats + 1 : 0));
  }
}

function createProgress(view) {
  const find = (selector) => view.root.querySelector(selector);
  const [track, read, written, border, cursorMark] = [".track", ".read", ".written", ".border", ".cursor"].map(find);
  const [line, counts, state] = [".line", ".counts", ".state"].map(find);
  const messenger = new Messenger(view);
  const replay = new BarReplay(view);
  let scale = "";

  const layOut = (prompt, limit) => {
    const share = (100 * prompt) / Math.max(prompt + limit, 1);
    if (scale === `${prompt}/${limit}`) return;
    scale = `${prompt}/${limit}`;
    read.style.width = border.style.left = `${share}%`;
    written.style.left = `${share}%`;
    border.hidden = !prompt;
    track.setAttribute("aria-valuemax", prompt + limit);
  };
  /** The state in words; a run that rests at its beginning also says what its next step does. */
  const standingText = (store, labels) => {
    if (store.status === "paused" && store.generated === 1) return labels.progress_read;
    if (store.status === "paused" && !store.prefill && store.tokens.length) return labels.progress_cut;
    return labels[STATES[store.status] ?? "progress_none"];
  };
  const stateText = (store, labels, back) => {
    const words = back || standingText(store, labels);
    return store.channel in CHANNELS ? `${words} · ${labels[CHANNELS[store.channel]]}` : words;
  };

  const draw = ({ store, full, data, labels, cursor }) => {
    replay.pace = data.pace_s;
    replay.claim(store, data.recording);
    const prompt = store.tokens.length;
    const limit = store.max_new_tokens;
    const done = store.generated;
    layOut(prompt, limit);
    read.hidden = !prompt;
    read.classList.toggle("unread", !store.prefill);
    written.style.transform = `scaleX(${limit ? Math.min(done / limit, 1) : 0})`;
    const text = store.status === null ? "" : fill(labels.progress_counts, { prompt: grouped(prompt), done: grouped(done), max: grouped(limit) });
    const looking = cursor !== null && done > cursor + 1;
    cursorMark.hidden = !looking;
    if (looking) cursorMark.style.left = `${(100 * (prompt + cursor + 1)) / Math.max(prompt + limit, 1)}%`;
    const back = looking ? fill(labels.progress_cursor, { n: grouped(cursor + 1) }) : "";
    view.root.classList.toggle("troubled", store.channel in CHANNELS);
    setText(counts, text);
    setText(state, stateText(store, labels, back));
    setAttribute(line, "title", `${text} · ${state.textContent}`);
    if (store.status !== "running" || full) { // said at pauses, not at every step
      setAttribute(track, "aria-valuenow", prompt + done);
      setAttribute(track, "aria-valuetext", text);
      setAttribute(track, "aria-label", labels.progress_name);
    }
    messenger.check(store);
  };
  return { draw, follows: true, leave: () => {
    replay.release();
    messenger.leave();
  } };
}

export default function progress(component) {
  return live.mount("progress", component, createProgress);
}
