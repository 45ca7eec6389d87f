// The notes in bytes: measured after every step as points, the formula as a line, with the jump of the question's own notes.

const POINTS_MOST = 200; // all lie on one line: more of them show no more

/** The measured points: [ordinal of the token, bytes measured, tokens noted]. Ordinal 1 is the first token, after the whole question. */
function notesPoints(store, shown) {
  const points = [];
  for (let index = 0; index < shown; index += 1) {
    const step = generatedStep(store, index);
    points.push([index + 1, step.kv_bytes, step.kv_tokens]);
  }
  return points;
}

/** Bytes by the formula, or null where the model does not tell its windows. */
function byFormula(data, tokens) {
  return data.windows && data.layer_token_bytes ? notesRead(windowsAtRest(data.windows), data.layer_token_bytes, tokens) : null;
}

function notesCaption(points, every, { data, labels }) {
  const thinned = every > 1 ? ` ${fill(labels.charts_thinned, { every })}` : "";
  if (!points.length || !data.windows) return labels.charts_notes_plain + thinned;
  const wrong = points.filter(([, bytes, tokens]) => bytes !== byFormula(data, tokens));
  const words = wrong.length
    ? fill(labels.charts_notes_differ, { n: grouped(wrong.length), all: grouped(points.length), first: grouped(wrong[0][0]) })
    : fill(labels.charts_notes_equal, { n: grouped(points.length) });
  return words + thinned;
}

function notesTitle(points, labels) {
  if (!points.length) return labels.charts_notes_none;
  const jump = bytesText(points[0][1]);
  if (points.length < 2) return fill(labels.charts_notes_jump, { jump });
  return fill(labels.charts_notes_grow, { jump, each: bytesText(Math.round((points.at(-1)[1] - points[0][1]) / (points.length - 1))) });
}

/** What the first jump was, in the room there is. */
function jumpText([, bytes, tokens], width, labels) {
  if (width < 380) return fill(labels.charts_jump_short, { bytes: bytesText(bytes) });
  return fill(labels.charts_jump, { bytes: bytesText(bytes), tokens: grouped(tokens) });
}

function notesTraces(points, every, { data, labels, theme }, unit, names) {
  const drawn = points.filter((_, at) => at % every === 0 || at === points.length - 1);
  const told = (words) => `${escaped(words)}: %{customdata}<extra></extra>`;
  const line = points.length && data.windows ? [[0, 0], ...points.map(([at, , tokens]) => [at, byFormula(data, tokens)])] : [];
  return [
    { type: "scatter", mode: "lines", name: "formula", x: line.map(([at]) => at), y: line.map(([, bytes]) => bytes / unit), customdata: line.map(([, bytes]) => `${grouped(bytes)} B`), line: { color: theme.muted, width: 2, shape: "hv" }, hovertemplate: told(labels.charts_formula) },
    { type: "scatter", mode: "markers", name: "measured", x: drawn.map(([at]) => at), y: drawn.map(([, bytes]) => bytes / unit), customdata: drawn.map(([, bytes]) => `${grouped(bytes)} B`), text: drawn.map(([at]) => names[at - 1]), marker: { color: theme.notes, size: 7, line: { color: theme.paper, width: 1 } }, hovertemplate: `%{text}<br>${told(labels.charts_points)}` },
  ];
}

function notesChart(now, width, names) {
  const { store, shown, labels, theme } = now;
  const points = notesPoints(store, shown);
  const every = Math.ceil(points.length / POINTS_MOST) || 1;
  const [unit, unitName] = sizeUnit(points.at(-1)?.[1] ?? 0);
  const arrow = points.length ? [{
    x: 1, y: points[0][1] / unit, ax: 26, ay: 26, xanchor: "left", text: escaped(jumpText(points[0], width, labels)),
    showarrow: true, arrowhead: 2, arrowcolor: theme.muted, font: { size: 12, color: theme.muted },
  }] : [];
  return {
    title: notesTitle(points, labels), tags: points.length ? ["measured", ...(now.data.windows ? ["computed"] : [])] : [],
    says: notesCaption(points, every, now), traces: notesTraces(points, every, now, unit, names),
    layout: layoutOf(now, width, {
      annotations: arrow,
      xaxis: { type: "linear", title: { text: labels.charts_axis_token, standoff: 6 }, range: [-0.6, placesOf(store) + 0.6], showgrid: false },
      yaxis: { type: "linear", title: { text: unitName, standoff: 6 } },
    }),
    legend: [["points", labels.charts_points], ["formula", labels.charts_formula]],
    head: [labels.charts_axis_token, labels.charts_noted, labels.charts_points_bytes, labels.charts_formula_bytes],
    rows: () => points.map(([at, bytes, tokens]) => [grouped(at), grouped(tokens), grouped(bytes), now.data.windows ? grouped(byFormula(now.data, tokens)) : "—"]),
  };
}
