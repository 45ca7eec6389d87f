// What is known of one run, and how messages change it. Data are the JSON of engine/serve/protocol.py.
// Knows the order of things (one picture per frame); knows no socket and no component.

const BACKLOG_MAX = 30; // more waiting messages than this are drawn at once

/** All that is known of one run. `steps[i].index` is i + 1: generated token 0 comes from prefill.

    origin: where a branch left another run. glance: {index, weights} of the step that wrote generated token `index`, one weight per token
    read, or null: only the newest one is kept, and at full speed there are none. cursor: the generated token after which all pictures
    stand still, null while they follow. words: what Python has said of it, told: the last of these; asked: what Python has been asked to
    say since; hand: the reader is moving it now; player: a replay that moves it, playing or stopped half-way. */
function newStore(runId) {
  return {
    runId, status: null, stop_reason: null, error: null, model: null, tokens: [], prefill: null, steps: [], max_new_tokens: 0,
    channel: "connecting", queue: [], epoch: 0, revision: 0, views: new Set(), link: null, closing: 0, late: false,
    pictures: [], itl: [], itlSum: [0], waitSum: [0], origin: null, glance: null,
    cursor: null, words: [null], asked: [], hand: false, player: null,
    get told() {
      return this.words.at(-1);
    },
    get generated() {
      return this.prefill ? this.steps.length + 1 : 0;
    },
  };
}

/** Generated token number `index` and what came with it (candidates, kv_bytes, …). */
function generatedToken(store, index) {
  return index === 0 ? store.prefill.first : store.steps[index - 1].token;
}

function generatedStep(store, index) {
  return index === 0 ? store.prefill : store.steps[index - 1];
}

/** The bytes of the answer's first `count` tokens, special ones left out. */
function answerBytes(store, count) {
  const parts = [];
  for (let index = 0; index < Math.min(count, store.generated); index += 1) {
    const token = generatedToken(store, index);
    if (!token.special) parts.push(...bytesOf(token));
  }
  return Uint8Array.from(parts);
}

/** The token at a position of the whole text. */
function tokenAt(store, position) {
  return position < store.tokens.length ? store.tokens[position] : generatedToken(store, position - store.tokens.length);
}

/** How the step that wrote generated token `index` read the notes, or null: told by the page at rest, by the channel in slow motion. */
function looksOf(store, index, glance) {
  if (glance?.index === index) return glance.weights;
  return store.glance?.index === index ? store.glance.weights : null;
}

/** Time between two ids without the reader's own pauses, as DecodeStep.itl_s. */
function waitedOf(step) {
  return Math.max(step.gap_s - step.paused_s, 0);
}

function addStep(store, step) {
  const itl = waitedOf(step) + step.busy_s;
  store.steps.push(step);
  store.itl.push(itl);
  store.itlSum.push(store.itlSum.at(-1) + itl);
  store.waitSum.push(store.waitSum.at(-1) + waitedOf(step));
}

/** Percentiles of the first `count` intervals by linear interpolation, as engine/measure/latency.py has them. */
function percentiles(values, count, shares) {
  const sorted = Float64Array.from(values.slice(0, count)).sort();
  return shares.map((share) => {
    const at = share * (count - 1);
    const below = Math.floor(at);
    return sorted[below] + (at - below) * (sorted[Math.min(below + 1, count - 1)] - sorted[below]);
  });
}

function replaceStore(store, snapshot) {
  for (const name of ["tokens", "prefill", "status", "stop_reason", "error", "model", "max_new_tokens"]) store[name] = snapshot[name];
  Object.assign(store, { origin: snapshot.origin ?? null, glance: null, steps: [], itl: [], itlSum: [0], waitSum: [0] });
  for (const step of snapshot.steps) addStep(store, step);
  store.epoch += 1;
}

/** Whether a snapshot only goes on from what is shown: then nothing has to be drawn again. */
function goesOn(store, snapshot) {
  const same = (left, right) => left.token.id === right.token.id && left.at_s === right.at_s;
  if (store.status === null || snapshot.tokens.length < store.tokens.length || snapshot.steps.length < store.steps.length) return false;
  if (store.prefill && (!snapshot.prefill || snapshot.prefill.at_s !== store.prefill.at_s)) return false;
  return store.steps.every((step, at) => same(step, snapshot.steps[at]));
}

/** A snapshot as the messages that lead to it from what is shown. */
function takeSnapshot(store, snapshot) {
  store.queue.length = 0;
  if (!goesOn(store, snapshot)) {
    replaceStore(store, snapshot);
    return;
  }
  store.max_new_tokens = snapshot.max_new_tokens;
  store.origin = snapshot.origin ?? null;
  const { tokens, model, prefill, steps, status, stop_reason, error } = snapshot;
  if (tokens.length > store.tokens.length || (model && !store.model)) store.queue.push({ type: "tokenized", tokens, model });
  if (prefill && !store.prefill) store.queue.push({ type: "prefilled", prefill });
  for (const step of steps.slice(store.steps.length)) store.queue.push({ type: "stepped", step });
  store.queue.push({ type: "status", status, stop_reason, error });
}

/** Let all pictures of a run stand still after generated token `cursor`, or follow the run (null). */
function lookAt(store, cursor) {
  if (store.cursor === cursor) return;
  store.cursor = cursor;
  store.revision += 1;
}

/** Python's word on the cursor, as one view brings it. Views come up to date one after the other, and some late: a word that others brought
    before is no news. It does not count while the reader's hand is on the cursor, nor where it answers an older wish than the last one. */
function hearCursor(store, view, cursor) {
  const known = store.words.indexOf(cursor, view.heard + 1);
  view.heard = known < 0 ? store.words.push(cursor) - 1 : known;
  if (known >= 0) return;
  const { asked } = store;
  const at = asked.lastIndexOf(cursor);
  if (at >= 0 && at < asked.length - 1) return;
  asked.length = 0;
  if (store.hand || store.cursor === cursor) return;
  store.player?.close();
  lookAt(store, cursor);
}

/** Apply one message; true where it is a picture of its own. */
function applyMessage(store, message) {
  if (message.type === "stepped") return takeStep(store, message.step);
  store.revision += 1;
  if (message.type === "tokenized") {
    Object.assign(store, { tokens: message.tokens, model: message.model, epoch: store.epoch + 1, glance: null });
  } else if (message.type === "glanced") {
    store.glance = { index: message.index, weights: floatsOf(message.weights) };
  } else if (message.type === "branched") {
    store.origin = message.origin;
  } else if (message.type === "prefilled") {
    store.prefill = message.prefill;
    return true;
  } else if (message.type === "status") {
    store.status = message.status;
    store.stop_reason = message.stop_reason ?? null;
    store.error = message.error ?? null;
  }
  return false;
}

/** float32 numbers, little-endian, from base64. */
function floatsOf(text) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length >> 2 }, (_, at) => view.getFloat32(at * 4, true));
}

/** Add a step in its turn; a step that is known already changes nothing. */
function takeStep(store, step) {
  if (step.index <= store.steps.length) return false;
  if (!store.prefill || step.index > store.steps.length + 1) {
    store.queue.length = 0;
    store.link?.renew(); // something is missing: a new connection begins with a snapshot
    return false;
  }
  addStep(store, step);
  return true;
}

/** Take messages up to the next picture; all of them after a long absence. */
function advance(store) {
  const all = store.late || store.queue.length > BACKLOG_MAX;
  store.late = false;
  let taken = 0;
  while (taken < store.queue.length) {
    const pictured = applyMessage(store, store.queue[taken]);
    taken += 1;
    if (pictured && !all) break;
  }
  store.queue.splice(0, taken);
}
