// One of three charts of a run, drawn with Plotly: intervals, notes, owners of memory. Each is told as (title, words, traces, layout, table);
// this file draws it: at most four times a second while pictures move, exactly when they rest.

const CHARTS = { intervals: intervalsChart, notes: notesChart, owners: ownersChart };
const EVERY_MS = 250;
const COST_SHARE = 25; // the next picture waits so many times the last one's own time: the pen has the cores

/** The unit of an axis of bytes. */
function sizeUnit(most) {
  return most >= 2 * 1024 ** 3 ? [1024 ** 3, "GiB"] : most >= 1024 ** 2 ? [1024 ** 2, "MiB"] : [1024, "KiB"];
}

class Chart {
  constructor(view) {
    const find = (selector) => view.root.querySelector(selector);
    const [title, plot, missing, legend, says, numbers, summary, rows] = ["h4", ".plot", ".missing", ".ob-legend", ".says", ".numbers", "summary", ".rows"].map(find);
    Object.assign(this, { view, title, plot, missing, legend, says, numbers, summary, rows, plotly: null, failed: false, told: null });
    Object.assign(this, { names: new Names(), timer: 0, next: 0, others: null, now: null, legendKey: "", listed: null });
    numbers.ontoggle = () => this.list();
  }

  draw(now) {
    this.now = now;
    if (!this.plotly && (now.full || !this.asked)) this.load(now.data.script);
    if (now.full || !moves(now.store)) this.paint();
    else this.timer ||= setTimeout(() => this.paint(), Math.max(this.next - performance.now(), 0)); // not in the frame that draws each token
  }

  load(path) {
    this.asked = true;
    loadPlotly(path).then((plotly) => {
      Object.assign(this, { plotly, failed: !plotly });
      if (this.now && this.view.root.isConnected) this.paint();
    });
  }

  paint() {
    clearTimeout(this.timer);
    this.timer = 0;
    const { now, view } = this;
    const began = performance.now();
    const width = Math.max(view.root.clientWidth, 160);
    const chart = CHARTS[now.data.chart](now, width, this.names.upTo(now.store, now.shown), this.others);
    this.told = chart;
    this.write(chart, now);
    this.plot.hidden = this.failed;
    this.missing.hidden = !this.failed;
    setText(this.missing, this.failed ? now.labels.charts_missing : "");
    if (this.plotly) this.plotly.react(this.plot, chart.traces, chart.layout, { displayModeBar: false, responsive: false, doubleClick: false });
    this.next = began + Math.max(EVERY_MS, COST_SHARE * (performance.now() - began));
  }

  write(chart, { labels, store }) {
    const tags = chart.tags.map((tag) => element("span", `ob-tag ob-${tag}`, labels[tag === "measured" ? "live_measured" : "charts_computed"]));
    const heading = `${chart.title}|${chart.tags.join()}|${labels.live_measured}`;
    if (this.heading !== heading) this.title.replaceChildren(element("span", "", chart.title), ...tags);
    this.heading = heading;
    setText(this.says, chart.says);
    setText(this.summary, labels.charts_table);
    this.drawLegend(chart.legend);
    if (moves(store) && this.plot.hasAttribute("aria-label")) return; // said and listed at rest, not with every picture
    setAttribute(this.plot, "aria-label", `${chart.title}. ${chart.says}`);
    this.list();
  }

  drawLegend(entries) {
    const key = JSON.stringify(entries);
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren(...entries.map(([name, words, switched]) => {
      const swatch = element("i", `k-${name}`);
      const entry = element("span");
      if (switched === undefined) {
        entry.append(swatch, words);
        return entry;
      }
      const [label, box] = [element("label"), Object.assign(element("input"), { type: "checkbox", checked: switched })];
      box.onchange = () => {
        this.others = box.checked;
        this.paint();
      };
      label.append(box, swatch, words);
      entry.append(label);
      return entry;
    }));
  }

  /** The same numbers as a table, for who cannot see the picture; made when it is opened. */
  list() {
    if (!this.numbers.open || !this.told) return;
    const { head, rows } = this.told;
    const line = (cells, name) => {
      const row = element("tr");
      row.append(...cells.map((words, at) => Object.assign(element(at && name === "td" ? "td" : "th", "", words), { scope: name === "th" ? "col" : "row" })));
      return row;
    };
    const [table, top, body] = ["table", "thead", "tbody"].map((name) => element(name));
    top.append(line(head, "th"));
    body.append(...rows().map((cells) => line(cells, "td")));
    table.append(top, body);
    this.rows.replaceChildren(table);
    setAttribute(this.rows, "aria-label", this.told.title);
  }

  leave() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (this.plotly) this.plotly.purge(this.plot);
  }
}

export default function charts(component) {
  return live.mount("charts", component, (view) => {
    const chart = new Chart(view);
    return { draw: (now) => chart.draw(now), follows: true, sized: true, leave: () => chart.leave() };
  });
}
