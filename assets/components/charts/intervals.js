// Time between two ids: one bar for each, waiting on top of work, the running TPOT and the percentiles as lines, the comfortable band.
// Definitions as in engine/measure/latency.py: the reader's own pauses are in none of it.

const PERCENTILES_FROM = 20;
const BARS_MOST = 300; // more are drawn as two areas: two shapes instead of hundreds
const WAITING_SAID = 0.02; // of all the time between ids

/** TPOT after each step, in ms. */
function runningTpot(store, steps) {
  return Array.from({ length: steps }, (_, at) => (store.itlSum[at + 1] / (at + 1)) * 1000);
}

function intervalTraces({ store, labels, theme }, steps, names) {
  const x = Array.from({ length: steps }, (_, at) => at + 2);
  const work = x.map((_, at) => (store.itl[at] - waitedOf(store.steps[at])) * 1000);
  const wait = x.map((_, at) => waitedOf(store.steps[at]) * 1000);
  const told = (words) => `${escaped(words)}: %{y:.1f} ms<extra></extra>`;
  const pattern = { shape: "/", fgcolor: theme.template, bgcolor: theme.templateWash, size: 5, solidity: 0.35 };
  const shape = (colour, hatched) => steps <= BARS_MOST
    ? { type: "bar", marker: { color: colour, line: { width: 0 }, ...(hatched && { pattern }) } }
    : { type: "scatter", mode: "lines", stackgroup: "itl", line: { width: 0, shape: "hvh", color: colour }, fillcolor: colour, ...(hatched && { fillpattern: pattern }) };
  const line = (values, name, style) => ({ type: "scatter", mode: "lines", x, y: values, name, line: style, hovertemplate: told(name) });
  const traces = [
    { ...shape(theme.answerTint), x, y: work, name: "work", text: names.slice(1, steps + 1), textposition: "none", hovertemplate: `%{text}<br>${told(labels.charts_work)}` },
    { ...shape(theme.template, true), x, y: wait, name: "wait", hovertemplate: told(labels.charts_wait) },
    { ...line(runningTpot(store, steps), labels.charts_tpot, { color: theme.ink, width: 2.5 }) },
  ];
  if (steps < PERCENTILES_FROM) return traces;
  const shares = percentiles(store.itl, steps, [0.5, 0.95]).map((seconds) => seconds * 1000);
  const styles = [{ color: theme.muted, width: 2, dash: "dash" }, { color: theme.muted, width: 2, dash: "dot" }];
  return [...traces, ...["p50", "p95"].map((name, at) => line(x.map(() => shares[at]), name, styles[at]))];
}

function intervalLayout(now, width, steps) {
  const { store, labels, theme } = now;
  const [quick, slow] = now.data.comfort_ms;
  let top = slow * 1.15;
  for (let at = 0; at < store.itl.length; at += 1) top = Math.max(top, store.itl[at] * 1080);
  const band = { type: "rect", xref: "paper", x0: 0, x1: 1, y0: quick, y1: slow, fillcolor: theme.goodTint, opacity: 0.3, line: { width: 0 }, layer: "below" };
  const name = { xref: "paper", x: 1, xanchor: "right", y: slow, yanchor: top > slow * 5 ? "bottom" : "top", showarrow: false, text: escaped(labels.charts_comfort), font: { size: 12, color: theme.good }, bgcolor: theme.paper, borderpad: 2, opacity: 0.9 };
  return layoutOf(now, width, {
    barmode: "stack", bargap: steps > 120 ? 0 : 0.15, shapes: [band], annotations: [name],
    xaxis: { type: "linear", title: { text: labels.charts_axis_token, standoff: 6 }, range: [1.4, placesOf(store) + 0.6], showgrid: false },
    yaxis: { type: "linear", title: { text: labels.charts_axis_ms, standoff: 6 }, range: [0, top] },
  });
}

function intervalTitle(store, steps, labels, [quick, slow]) {
  if (!steps) return labels.charts_itl_none;
  const tpot = store.itlSum[steps] / steps;
  const words = tpot * 1000 < quick ? labels.charts_itl_faster : tpot * 1000 > slow ? labels.charts_itl_slower : labels.charts_itl_within;
  const share = store.waitSum[steps] / store.itlSum[steps];
  const waited = share > WAITING_SAID ? ` ${fill(labels.charts_itl_waited, { share: percent(share) })}` : "";
  return fill(words, { t: secondsText(tpot, labels) }) + waited;
}

/** What the band means for a reader of this very answer: words a minute, or characters a second where the script has no spaces. */
function intervalCaption(store, steps, labels, comfort) {
  const few = steps && steps < PERCENTILES_FROM ? ` ${labels.charts_few}` : "";
  const read = readIn(answerBytes(store, steps + 1));
  if (steps < 4 || !read.characters) return labels.charts_band_says + few;
  const each = read.unspaced ? read.characters / (steps + 1) : read.words / (steps + 1);
  const [slow, fast] = [comfort[1], comfort[0]].map((ms) => (each * (read.unspaced ? 1000 : 60_000)) / ms);
  const places = { slow: read.unspaced ? slow.toFixed(1) : grouped(Math.round(slow)), fast: read.unspaced ? fast.toFixed(1) : grouped(Math.round(fast)) };
  return fill(read.unspaced ? labels.charts_band_characters : labels.charts_band_words, places) + few;
}

function intervalsChart(now, width, names) {
  const { store, shown, labels } = now;
  const comfort = now.data.comfort_ms;
  const steps = Math.max(shown - 1, 0);
  const ms = (seconds) => (seconds * 1000).toFixed(1);
  return {
    title: intervalTitle(store, steps, labels, comfort), tags: steps ? ["measured"] : [],
    says: intervalCaption(store, steps, labels, comfort),
    traces: intervalTraces(now, steps, names), layout: intervalLayout(now, width, steps),
    legend: [
      ["work", labels.charts_work], ["wait", labels.charts_wait], ["tpot", labels.charts_tpot], ["band", labels.charts_band],
      ...(steps < PERCENTILES_FROM ? [] : [["p50", "p50"], ["p95", "p95"]]),
    ],
    head: [labels.charts_axis_token, labels.charts_work_ms, labels.charts_wait_ms, labels.charts_tpot_ms],
    rows: () => runningTpot(store, steps).map((tpot, at) => {
      const waited = waitedOf(store.steps[at]);
      return [grouped(at + 2), ms(store.itl[at] - waited), ms(waited), tpot.toFixed(1)];
    }),
  };
}
