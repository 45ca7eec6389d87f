// Memory over time, split by who holds it. Knows a step's own tensors and the reading that travels with some of them; what no source told
// is a gap. The rest of this process is what is left of its memory; others, what is left of the machine's, or of the card's, without this
// process: of it, the machine does not count pages of files as in use.

const OWNERS = ["weights", "notes", "queries", "rest", "others"];
const OTHERS_HIDDEN = 1.5; // times this process: more than that would press everything else flat
const MOMENTS_MOST = 240;
const PAUSE_S = 0.5; // of the reader, from which on a reading does not hold any more

/** Bytes of each owner at one moment; null: not told. As ui/sections/memory.py has them: on a card its driver's word goes before torch's. */
function ownersOf(model, { step, reading }) {
  const held = { weights: model?.weight_bytes ?? null, notes: step.kv_bytes, queries: step.recorded_bytes };
  const kind = kindOf(model);
  const own = kind === "cpu" ? reading?.process_bytes : reading?.device_process_bytes ?? reading?.reserved_bytes;
  const counted = reading?.process_bytes == null ? null : reading.process_bytes - (reading.process_shared_bytes ?? 0);
  const [all, ours] = {
    cpu: [reading?.system_used_bytes, counted], cuda: [reading?.device_used_bytes, reading?.device_process_bytes],
  }[kind] ?? [];
  const left = (whole, part) => (whole == null || part == null || whole < part ? null : whole - part);
  return { ...held, rest: left(own, held.weights === null ? null : held.weights + held.notes + held.queries), others: left(all, ours) };
}

function kindOf(model) {
  return (model?.device ?? "cpu").split(":")[0];
}

/** Which source told the last two owners, for the legend. */
function sourcesOf(model, moments, labels) {
  if (kindOf(model) === "cpu") return { rest: labels.charts_from_process, others: labels.charts_from_system };
  const driver = moments.some(({ reading }) => reading?.device_process_bytes != null);
  return { rest: driver ? labels.charts_from_nvml : labels.charts_from_torch, others: kindOf(model) === "mps" ? labels.charts_from_system : labels.charts_from_nvml };
}

/** The moments with a reading, each until the next one or the reader's next pause; without any, the steps' own tensors. */
function momentsOf(store, shown) {
  const all = Array.from({ length: shown }, (_, index) => ({ step: generatedStep(store, index), index }));
  const read = all.filter(({ step }) => step.memory);
  const every = Math.ceil((read.length || all.length) / MOMENTS_MOST) || 1;
  const taken = (read.length ? read : all).filter((_, at) => at % every === 0);
  return taken.map(({ step, index }, at) => {
    const last = taken[at + 1]?.index ?? shown - 1;
    let until = index;
    while (until < last && generatedStep(store, until + 1).paused_s < PAUSE_S) until += 1;
    return { step, index, reading: step.memory ?? null, from: step.at_s, to: generatedStep(store, until).at_s };
  });
}

function ownerTraces(moments, bytes, shows, { labels, theme }, unit, sources) {
  const looks = {
    weights: { color: theme.promptTint }, notes: { color: theme.notes },
    queries: { color: theme.good, pattern: { shape: ".", fgcolor: theme.paper, fillmode: "overlay", size: 5 } },
    rest: { color: theme.templateTint },
    others: { color: theme.template, pattern: { shape: "/", fgcolor: theme.template, bgcolor: theme.paper, size: 6, solidity: 0.2 } },
  };
  const span = moments.length ? moments.at(-1).to - moments[0].from : 0;
  const least = Math.max(span / 200, 0.02);
  return shows.map((owner) => ({
    type: "bar", name: owner, x: moments.map(({ from }) => from), offset: 0, width: moments.map(({ from, to }) => Math.max(to - from, least)),
    y: bytes.map((each) => (each[owner] === null ? null : each[owner] / unit)),
    customdata: bytes.map((each) => (each[owner] === null ? "" : `${bytesText(each[owner])} (${escaped(sources[owner])})`)),
    marker: { ...looks[owner], line: { width: 0 } }, hovertemplate: `${escaped(labels[OWNER_LABELS[owner]])}: %{customdata}<extra></extra>`,
  }));
}

const OWNER_LABELS = {
  weights: "charts_weights", notes: "charts_notes", queries: "charts_queries", rest: "charts_rest", others: "charts_others",
};

function ownersTitle(last, labels) {
  if (!last || last.weights === null) return labels.charts_memory_none;
  const places = { weights: bytesText(last.weights), notes: bytesText(last.notes) };
  if (last.rest === null) return fill(labels.charts_memory_known, places);
  const total = bytesText(last.weights + last.notes + last.queries + last.rest);
  return fill(labels.charts_memory_of, { weights: places.weights, notes: places.notes, total });
}

/** Whether the others are drawn: asked for by the reader, or small enough not to hide the rest. */
function othersShown(last, asked) {
  if (asked !== null) return asked;
  const ours = last ? last.weights + last.notes + last.queries + (last.rest ?? 0) : 0;
  return !last || last.others === null || last.others <= ours * OTHERS_HIDDEN;
}

function ownersChart(now, width, names, asked) {
  const { store, shown, labels } = now;
  const moments = momentsOf(store, shown);
  const bytes = moments.map((moment) => ownersOf(store.model, moment));
  const last = bytes.at(-1);
  const others = othersShown(last, asked);
  const shows = OWNERS.filter((owner) => owner !== "others" || others);
  const sources = { weights: labels.charts_from_tensors, notes: labels.charts_from_tensors, queries: labels.charts_from_tensors, ...sourcesOf(store.model, moments, labels) };
  const top = Math.max(0, ...bytes.map((each) => shows.reduce((sum, owner) => sum + (each[owner] ?? 0), 0)));
  const [unit, unitName] = sizeUnit(top);
  const end = Math.max(moments.at(-1)?.to ?? 0, store.generated ? generatedStep(store, store.generated - 1).at_s : 0);
  const told = (owner) => bytes.some((each) => each[owner] !== null);
  const named = (owner) => `${labels[OWNER_LABELS[owner]]} · ${!bytes.length || told(owner) ? sources[owner] : labels.charts_unknown}`;
  const gaps = bytes.length && ["rest", "others"].some((owner) => told(owner) && bytes.some((each) => each[owner] === null));
  return {
    title: ownersTitle(last, labels), tags: last ? ["measured", ...(last.rest === null && last.others === null ? [] : ["computed"])] : [],
    says: [labels.charts_memory_says, gaps ? labels.charts_memory_gaps : "", others || last?.others == null ? "" : fill(labels.charts_memory_hidden, { bytes: bytesText(last.others) })].filter(Boolean).join(" "),
    traces: ownerTraces(moments, bytes, shows, now, unit, sources),
    layout: layoutOf(now, width, {
      barmode: "stack", bargap: 0,
      xaxis: { type: "linear", title: { text: labels.charts_axis_s, standoff: 6 }, range: [Math.min(moments[0]?.from ?? 0, end * 0.9), end * 1.01 || 1], showgrid: false },
      yaxis: { type: "linear", title: { text: unitName, standoff: 6 } },
    }),
    legend: OWNERS.map((owner) => [owner, named(owner), owner === "others" && last?.others != null ? others : undefined]),
    head: [labels.charts_axis_s, ...OWNERS.map((owner) => labels[OWNER_LABELS[owner]])],
    rows: () => moments.map(({ from }, at) => [from.toFixed(2), ...OWNERS.map((owner) => (bytes[at][owner] === null ? labels.charts_unknown : bytesText(bytes[at][owner])))]),
  };
}
