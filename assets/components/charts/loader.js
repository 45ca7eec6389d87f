// plotly.js, loaded once for a page whatever number of charts it has. Knows its address; knows no chart.

/** Plotly, or null where it cannot be had. A chart that is drawn anew after a failure tries again. */
function loadPlotly(path) {
  live.plotly ??= new Promise((done) => {
    const script = Object.assign(document.createElement("script"), { src: path, async: true });
    script.onload = () => done(window.Plotly ?? null);
    script.onerror = () => done(null);
    document.head.append(script);
  }).then((plotly) => {
    if (!plotly) live.plotly = null;
    return plotly;
  });
  return live.plotly;
}

/** Text for a chart's hover: Plotly reads markup there. */
function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

const NAME_MOST = 24; // characters of a token in a hover

/** The hover names of a run's generated tokens, each made once. */
class Names {
  constructor() {
    this.names = [];
  }

  upTo(store, count) {
    if (this.store !== store || this.epoch !== store.epoch) Object.assign(this, { store, epoch: store.epoch, names: [] });
    for (let index = this.names.length; index < count; index += 1) {
      const seen = [...tokenNodes(generatedToken(store, index)).textContent];
      this.names.push(escaped(seen.length > NAME_MOST ? `${seen.slice(0, NAME_MOST - 1).join("")}…` : seen.join("")));
    }
    return this.names;
  }
}

/** Places on the axis of tokens: all that are written once the run has ended, with room to grow before. */
function placesOf(store) {
  const count = Math.max(store.generated, 2);
  if (store.status === "ended") return count;
  let room = 16;
  while (room < count * 1.1) room = Math.ceil(room * 1.5);
  return room;
}

/** What all three charts share: the resting figures' template, a still picture without dials. */
function layoutOf({ data, theme }, width, own) {
  const template = data.templates[theme.dark ? "dark" : "light"];
  const axis = (words) => ({ fixedrange: true, automargin: true, ticks: "", ...words });
  return {
    template, width, height: 260, showlegend: false, dragmode: false, hovermode: "x unified", uirevision: "charts",
    margin: { l: 54, r: 10, t: 10, b: 44 }, ...own, xaxis: axis(own.xaxis), yaxis: axis({ rangemode: "tozero", ...own.yaxis }),
  };
}
