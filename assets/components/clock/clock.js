// One run on the clock, to scale: queue, template, tokenize, prefill, first sample, then each decode step; waiting is hatched.
// The upper lane is the whole run, the lower one its beginning up to the first token, enlarged. The reader's pauses are cut out.

const PARTS = ["queue", "template", "tokenize", "prefill", "sample"];
const PART_LABELS = {
  queue: "clock_queue", template: "clock_template", tokenize: "clock_tokenize", prefill: "clock_prefill", sample: "clock_sample",
};
const LANE = 26;
const AXIS = 20;
const BETWEEN = 26;
const HEIGHT = LANE + AXIS + BETWEEN + LANE + AXIS;
const BEGINNING_TOP = LANE + AXIS + BETWEEN;

function partsOf(prefill) {
  let from = 0;
  return PARTS.map((part) => {
    const to = from + prefill[`${part}_s`];
    const entry = { part, from, to };
    from = to;
    return entry;
  });
}

/** Draws both lanes; keeps its scale until the run outgrows it, so that a step is one rectangle. */
class Timeline {
  constructor(canvas) {
    this.canvas = canvas;
    this.end = 0;
  }

  start(width, theme, end, ttft) {
    Object.assign(this, { width, theme, end, ttft, pen: sizedContext(this.canvas, width, HEIGHT) });
    if (this.hatchKey !== theme.key) Object.assign(this, { hatchKey: theme.key, hatch: hatch(this.pen, theme.template, theme.paper) });
    this.fills = { queue: this.hatch, template: theme.templateTint, tokenize: theme.good, prefill: theme.prompt, sample: theme.answer };
  }

  box(top, from, to, span, fill) {
    const x = (from / span) * this.width;
    const wide = Math.max((to / span) * this.width - x, 0.75);
    this.pen.fillStyle = fill;
    this.pen.fillRect(x, top, wide, LANE);
  }

  beginning(prefill, labels) {
    const parts = partsOf(prefill).filter(({ from, to }) => to > from);
    for (const { part, from, to } of parts) {
      this.box(0, from, to, this.end, this.fills[part]);
      this.box(BEGINNING_TOP, from, to, this.ttft, this.fills[part]);
      this.name(labels[PART_LABELS[part]], from, to, part);
    }
    this.funnel();
    this.axis(LANE, this.end, labels);
    this.axis(BEGINNING_TOP + LANE, this.ttft, labels);
  }

  /** A part's name inside its block, where it fits. */
  name(words, from, to, part) {
    const { pen, theme } = this;
    const wide = ((to - from) / this.ttft) * this.width;
    pen.font = `600 ${Math.round(theme.size * 0.74)}px ${theme.sans}`;
    const size = pen.measureText(words).width;
    if (size + 12 > wide) return;
    const x = ((from + to) / 2 / this.ttft) * this.width;
    const middle = BEGINNING_TOP + LANE / 2 + 0.5;
    if (part === "queue") {
      pen.fillStyle = theme.paper;
      pen.fillRect(x - size / 2 - 5, BEGINNING_TOP + 4, size + 10, LANE - 8);
    }
    const onDark = part === "prefill" || part === "sample" || part === "tokenize";
    pen.fillStyle = onDark ? (theme.dark ? "#14171f" : "#ffffff") : theme.ink;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(words, x, middle);
  }

  /** From the beginning in the upper lane to its enlargement. */
  funnel() {
    const { pen, theme, width } = this;
    const right = (this.ttft / this.end) * width;
    const top = LANE + 1;
    pen.beginPath();
    pen.moveTo(0, top);
    pen.lineTo(right, top);
    pen.lineTo(right, top + AXIS);
    pen.lineTo(width, BEGINNING_TOP - 2);
    pen.lineTo(0, BEGINNING_TOP - 2);
    pen.closePath();
    pen.globalAlpha = 0.09;
    pen.fillStyle = theme.prompt;
    pen.fill();
    pen.globalAlpha = 1;
  }

  axis(top, span, labels) {
    const { pen, theme, width } = this;
    const step = roundStep(span, Math.max(Math.floor(width / 110), 2));
    pen.font = `${Math.round(theme.size * 0.7)}px ${theme.sans}`;
    pen.textBaseline = "top";
    pen.fillStyle = theme.muted;
    for (let at = 0; at <= span * 1.0001; at += step) {
      const x = (at / span) * width;
      pen.fillRect(Math.min(Math.round(x), width - 1), top, 1, 4);
      pen.textAlign = x < 20 ? "left" : x > width - 24 ? "right" : "center";
      const words = step >= 0.5 ? fill(labels.live_s, { n: +at.toFixed(1) }) : fill(labels.live_ms, { n: +(at * 1000).toFixed(1) });
      pen.fillText(words, x, top + 6);
    }
  }

  step(store, at) {
    const from = this.ttft + store.itlSum[at];
    const to = this.ttft + store.itlSum[at + 1];
    const work = to - store.steps[at].busy_s;
    const apart = ((to - from) / this.end) * this.width > 3; // narrower steps are told apart by their shade
    const gap = apart ? this.end / this.width : 0;
    if (((work - from) / this.end) * this.width >= 0.5) this.box(0, from, work, this.end, this.hatch);
    this.box(0, work, to - gap, this.end, apart || at % 2 ? this.theme.answerTint : this.theme.answer);
  }
}

function createClock(view) {
  const [empty, canvas, legend] = [".ob-empty", "canvas", ".ob-legend"].map((selector) => view.root.querySelector(selector));
  const timeline = new Timeline(canvas);
  const values = {};
  let drawn = -1;
  let fitted = false;

  const writeLegend = (prefill, labels) => {
    const entries = [...PARTS.map((part) => [part, labels[PART_LABELS[part]]]), ["decode", labels.clock_decode], ["wait", labels.clock_wait]];
    legend.replaceChildren(...entries.map(([part, words]) => {
      const entry = element("span");
      values[part] = element("b");
      entry.append(element("i", `p-${part}`), words, values[part]);
      return entry;
    }));
    for (const part of PARTS) setText(values[part], secondsText(prefill[`${part}_s`], labels));
  };
  const restart = ({ store, theme, labels, full }, total, done) => {
    const ttft = partsOf(store.prefill).at(-1).to;
    const room = done ? total * 1.01 : Math.max(ttft * 3, total * 2);
    timeline.start(Math.max(view.root.clientWidth, 120), theme, room, ttft);
    timeline.beginning(store.prefill, labels);
    if (full || !legend.firstChild) writeLegend(store.prefill, labels);
    fitted = done;
    drawn = 0;
  };
  const say = ({ store, labels }, steps, total) => {
    const waited = store.waitSum[steps];
    setText(values.decode, secondsText(store.itlSum[steps] - waited, labels));
    setText(values.wait, secondsText(waited, labels));
    if (store.status === "running" && canvas.hasAttribute("aria-label")) return; // said at pauses, not at every step
    canvas.setAttribute("aria-label", fill(labels.clock_alt, { ttft: secondsText(timeline.ttft, labels), total: secondsText(total, labels), steps }));
  };

  const draw = (now) => {
    const { store, shown, full } = now;
    canvas.hidden = legend.hidden = !shown;
    empty.hidden = shown > 0;
    setText(empty, now.labels.clock_none);
    if (!shown) {
      drawn = -1;
      return;
    }
    const steps = shown - 1;
    const total = partsOf(store.prefill).at(-1).to + store.itlSum[steps];
    const done = store.status === "ended" && shown === store.generated;
    if (full || drawn < 0 || total > timeline.end || done !== fitted) restart(now, total, done);
    for (; drawn < steps; drawn += 1) timeline.step(store, drawn);
    say(now, steps, total);
  };
  return { draw, sized: true };
}

export default function clock(component) {
  return live.mount("clock", component, createClock);
}
