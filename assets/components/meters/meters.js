// The mark sheet in four meters: TTFT and its parts, TPOT with the last intervals, speed, notes in bytes beside their formula.
// Definitions as in the serving benchmarks: TPOT = (t_last - t_first) / (n - 1), n = ids really generated, the reader's pauses left out.

const PARTS = ["queue", "template", "tokenize", "prefill", "sample"];
const PART_LABELS = {
  queue: "meters_queue", template: "meters_template", tokenize: "meters_tokenize", prefill: "meters_prefill", sample: "meters_sample",
};
const SPARK = { height: 30, bar: 3 };
const PERCENTILES_FROM = 20;
const PERCENTILES_EVERY = 5; // steps; sorted anew no more often while the run plays
const NOTHING = "—";

function heading(meter, words, labels) {
  meter.querySelector("h4").replaceChildren(element("span", "", words), element("span", "ob-tag ob-measured", labels.live_measured));
}

/** A value, and its evidence tag only where there is a value. */
function setValue(meter, text) {
  setText(meter.querySelector(".value"), text);
  meter.querySelector(".ob-tag").hidden = text === NOTHING;
}

function drawTtft(meter, prefill, labels) {
  const split = meter.querySelector(".split");
  const more = meter.querySelector(".more");
  const total = prefill ? PARTS.reduce((sum, part) => sum + prefill[`${part}_s`], 0) : 0;
  setValue(meter, prefill ? secondsText(total, labels) : NOTHING);
  split.replaceChildren();
  more.replaceChildren();
  if (!prefill) return;
  for (const part of PARTS) {
    const seconds = prefill[`${part}_s`];
    const block = element("div", `p-${part}`);
    block.style.width = `${(100 * seconds) / total}%`;
    split.append(block);
    const entry = element("span");
    entry.append(element("i", `p-${part}`), `${labels[PART_LABELS[part]]} ${secondsText(seconds, labels)}`);
    more.append(entry);
  }
}

/** The latest intervals as bars; the part of each that was waiting for other runs at the foot, in grey. */
class Spark {
  constructor(canvas) {
    Object.assign(this, { canvas, drawn: 0, first: 0, top: 0 });
  }

  draw(store, steps, theme, width, full) {
    const first = Math.max(steps - Math.floor(width / SPARK.bar), 0);
    let top = 0;
    for (let at = first; at < steps; at += 1) top = Math.max(top, store.itl[at]);
    if (full || top !== this.top || first !== this.first || steps < this.drawn) {
      Object.assign(this, { top, first, theme, drawn: first, pen: sizedContext(this.canvas, width, SPARK.height) });
      this.pen.fillStyle = theme.line;
      this.pen.fillRect(0, SPARK.height - 1, width, 1);
    }
    for (let at = Math.max(this.drawn - 1, first); at < steps; at += 1) this.bar(store, at, at === steps - 1);
    this.drawn = steps;
  }

  bar(store, at, newest) {
    const { pen, theme, top, first } = this;
    const tall = (store.itl[at] / top) * (SPARK.height - 2);
    const waited = (waitedOf(store.steps[at]) / top) * (SPARK.height - 2);
    const x = (at - first) * SPARK.bar;
    pen.clearRect(x, 0, SPARK.bar - 1, SPARK.height);
    pen.fillStyle = newest ? theme.answer : theme.answerTint;
    pen.fillRect(x, SPARK.height - tall, SPARK.bar - 1, tall - waited);
    pen.fillStyle = theme.template;
    pen.fillRect(x, SPARK.height - waited, SPARK.bar - 1, waited);
  }
}

function tpotText(store, steps, tpot, labels) {
  const waited = steps ? store.waitSum[steps] / steps : 0;
  const words = [];
  if (steps >= PERCENTILES_FROM) {
    const [p50, p95] = percentiles(store.itl, steps, [0.5, 0.95]).map((seconds) => secondsText(seconds, labels));
    words.push(fill(labels.meters_percentiles, { p50, p95 }));
  }
  if (waited > tpot * 0.02) words.push(fill(labels.meters_waited, { t: secondsText(waited, labels) }));
  return words.length ? words.join(" · ") : steps ? "" : labels.meters_two;
}

function drawSpeed(meter, store, shown, tpot, labels) {
  setValue(meter, tpot ? fill(labels.meters_rate, { n: (1 / tpot).toFixed(1) }) : NOTHING);
  const { prefill } = store;
  const whole = prefill ? PARTS.reduce((sum, part) => sum + prefill[`${part}_s`], 0) + store.itlSum[shown - 1] : 0;
  const overall = whole ? fill(labels.meters_rate, { n: (shown / whole).toFixed(1) }) : NOTHING;
  setText(meter.querySelector(".more"), shown ? fill(labels.meters_overall, { rate: overall }) : "");
}

function drawNotes(meter, now, step) {
  const { labels, data, store } = now;
  const check = meter.querySelector(".check");
  const shape = store.model?.shape;
  setValue(meter, step ? bytesText(step.kv_bytes) : NOTHING);
  check.className = "check";
  if (!step || !data.windows) {
    setText(check, "");
  } else {
    const computed = notesRead(windowsAtRest(data.windows), data.layer_token_bytes, step.kv_tokens);
    const equal = computed === step.kv_bytes;
    check.classList.add(equal ? "equal" : "differs");
    setText(check, fill(equal ? labels.meters_equal : labels.meters_differs, { bytes: grouped(computed) }));
  }
  const twin = step && shape && !shape.kv_lora_rank && shape.num_attention_heads > shape.num_key_value_heads;
  const factor = twin ? shape.num_attention_heads / shape.num_key_value_heads : 1;
  setText(meter.querySelector(".more"), twin ? fill(labels.meters_mha, { bytes: bytesText(step.kv_bytes * factor) }) : "");
}

function createMeters(view) {
  const [ttft, tpotMeter, speed, notes] = [".ttft", ".tpot", ".speed", ".notes"].map((selector) => view.root.querySelector(selector));
  const spark = new Spark(tpotMeter.querySelector("canvas"));
  let prefillDrawn;
  let sparkWidth = 0;

  const restart = (labels, theme) => {
    const width = view.root.clientWidth / theme.size;
    view.root.classList.toggle("four", width >= 45);
    view.root.classList.toggle("one", width < 25);
    heading(ttft, labels.meters_ttft, labels);
    heading(tpotMeter, labels.meters_tpot, labels);
    heading(speed, labels.meters_speed, labels);
    heading(notes, labels.meters_kv, labels);
    prefillDrawn = undefined;
    sparkWidth = Math.max(speed.clientWidth - 2 * parseFloat(getComputedStyle(speed).paddingLeft), 60);
  };

  const draw = (now) => {
    const { store, shown, full, labels, theme } = now;
    if (full) restart(labels, theme);
    const prefill = shown ? store.prefill : null;
    if (prefillDrawn !== prefill) drawTtft(ttft, (prefillDrawn = prefill), labels);
    const steps = Math.max(shown - 1, 0);
    const tpot = steps ? store.itlSum[steps] / steps : 0;
    setValue(tpotMeter, steps ? secondsText(tpot, labels) : NOTHING);
    const settled = full || steps < PERCENTILES_FROM || steps % PERCENTILES_EVERY === 0 || store.status !== "running";
    if (settled) setText(tpotMeter.querySelector(".more"), tpotText(store, steps, tpot, labels));
    spark.draw(store, steps, theme, sparkWidth, full);
    drawSpeed(speed, store, shown, tpot, labels);
    drawNotes(notes, now, shown ? generatedStep(store, shown - 1) : null);
  };
  return { draw, sized: true };
}

export default function meters(component) {
  return live.mount("meters", component, createMeters);
}
