// A chart over the steps of a run. History comes once, afterwards only new points; zoom is never reset by data.
// Charts of one group share the hovered step, the range and the smoothing, kept for the tab in sessionStorage.
const FOLLOW = 50; // steps in sight when following
const SMOOTHING = 0.8; // weight of the past in the smoothed line

const DASHES = { solid: "solid", dash: "5px,3px", dot: "2px,2.5px" };

const token = (name) => getComputedStyle(document.body).getPropertyValue(`--${name}`).trim();
const formats = {
  share: (v) => `${Math.round(v * 100)}%`,
  score: (v) => v.toFixed(2),
  number: (v) => Math.round(v).toLocaleString("en-US"),
  tiny: (v) => v.toPrecision(2),
  seconds: (v) => `${v < 10 ? v.toFixed(1) : Math.round(v)} s`,
};

// Charts take turns: one is drawn at a time, with a pause after it, so that a slow machine still answers its user.
const dirty = new Set();
let timer = null;
function schedule(chart) {
  dirty.add(chart);
  timer ??= setTimeout(work, 0);
}
function work() {
  const [chart] = dirty;
  const began = performance.now();
  dirty.delete(chart);
  try {
    chart?.paint();
  } finally {
    timer = dirty.size ? setTimeout(work, Math.min(400, 2 * (performance.now() - began))) : null;
  }
}

export default {
  template: `<div class="live-chart"><div ref="plot" class="plot"></div>
    <div ref="cursor" class="cursor" hidden></div><div ref="tip" class="tip" hidden></div></div>`,
  props: { spec: Object, group: String, mode: String },
  async mounted() {
    this.points = {};
    this.added = {};
    this.whole = true;
    this.levels = [];
    this.marks = [];
    this.view = { mode: this.mode, range: null, smooth: false, ...this.stored() };
    const { Plotly } = await import("nicegui-plotly");
    if (!this.$refs.plot) return;
    this.Plotly = Plotly;
    const plot = this.$refs.plot;
    schedule(this);
    plot.addEventListener("mousemove", this.onMove);
    plot.addEventListener("mouseleave", () => this.share("rlvr-step", { step: null }));
    window.addEventListener("rlvr-step", this.onStep);
    window.addEventListener("rlvr-view", this.onView);
    document.addEventListener("visibilitychange", this.onVisible);
    this.sizes = new ResizeObserver(() => (this.hiddenSince ? schedule(this) : plot.clientWidth && Plotly.Plots.resize(plot)));
    this.sizes.observe(plot);
    this.themes = new MutationObserver(() => this.draw());
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.$emit("ready", { mode: this.view.mode, smooth: this.view.smooth });
  },
  unmounted() {
    window.removeEventListener("rlvr-step", this.onStep);
    window.removeEventListener("rlvr-view", this.onView);
    document.removeEventListener("visibilitychange", this.onVisible);
    dirty.delete(this);
    this.sizes?.disconnect();
    this.themes?.disconnect();
    if (this.$refs.plot?.on) this.Plotly.purge(this.$refs.plot);
  },
  methods: {
    // ---- called from Python
    load(points) {
      this.points = points;
      this.draw();
    },
    append(points) {
      for (const [key, fresh] of Object.entries(points)) {
        const known = (this.points[key] ??= fresh.hi ? { x: [], lo: [], hi: [] } : { x: [], y: [] });
        this.added[key] = Math.min(this.added[key] ?? Infinity, known.x.length);
        for (const column of Object.keys(known)) if (fresh[column]?.length) known[column].push(...fresh[column]);
      }
      schedule(this);
    },
    setLevels(levels) {
      this.levels = levels;
      this.draw();
    },
    setMarks(steps) {
      this.marks = steps;
      this.draw();
    },
    setView(change) {
      this.share("rlvr-view", { ...this.view, ...change });
    },
    savePng(name) {
      this.Plotly.downloadImage(this.$refs.plot, { format: "png", filename: name, scale: 2 });
    },
    // ---- drawing
    draw() {
      this.whole = true;
      schedule(this);
    },
    paint() {
      const plot = this.$refs.plot;
      if (!this.Plotly || !plot) return;
      this.hiddenSince = document.hidden || !plot.clientWidth; // drawn when it comes into sight
      if (this.hiddenSince) return;
      // The first points are drawn with marks, which go when there is a line to see.
      const young = Object.values(this.added).some((before) => before < 3);
      if (this.whole || young || !Object.keys(this.added).length) this.paintWhole(plot);
      else this.paintAdded(plot);
      this.whole = false;
      this.added = {};
    },
    paintWhole(plot) {
      const config = { displayModeBar: false, doubleClick: false, responsive: false };
      const first = !plot.on;
      this.Plotly.react(plot, this.traces(), this.layout(), config);
      if (!first) return;
      plot.on("plotly_relayout", this.onZoom);
      plot.on("plotly_doubleclick", () => this.setView({ mode: "full", range: null }));
    },
    paintAdded(plot) {
      const indices = [];
      const x = [];
      const y = [];
      for (const [key, before] of Object.entries(this.added)) {
        const known = this.points[key];
        for (const { role, index } of this.indices[key] ?? []) {
          if (role !== "raw" && role !== "smooth") continue;
          indices.push(index);
          x.push(known.x.slice(before));
          y.push((role === "smooth" ? this.smoothed(known) : known.y).slice(before));
        }
      }
      // Bands, dots, marks and the range change in place: extendTraces then draws all of it once.
      const traces = this.traces();
      traces.forEach((trace, index) => {
        if (!indices.includes(index)) Object.assign(plot.data[index], { x: trace.x, y: trace.y });
      });
      const { shapes, annotations, xaxis } = this.layout();
      Object.assign(plot.layout, { shapes, annotations });
      plot.layout.xaxis.range = xaxis.range;
      if (indices.length) this.Plotly.extendTraces(plot, { x, y }, indices);
      else this.paintWhole(plot);
    },
    traces() {
      const out = [];
      this.indices = {};
      const add = (key, role, trace) => {
        (this.indices[key] ??= []).push({ role, index: out.length });
        out.push({ hoverinfo: "skip", showlegend: false, ...trace });
      };
      for (const s of this.spec.series) {
        const data = this.points[s.key] ?? { x: [], y: [], lo: [], hi: [] };
        const yaxis = s.right ? "y2" : "y";
        const color = token(s.color);
        if (s.kind === "band") {
          const line = { width: 0 };
          add(s.key, "band", { ...this.polygon(data), fill: "toself", fillcolor: token(`${s.color}-soft`), line, mode: "lines" });
        } else if (s.kind === "bar") {
          const marker = { color, line: { width: 0 } };
          add(s.key, "raw", { type: "bar", x: [...data.x], y: [...data.y], width: data.width, marker });
        } else {
          const line = { color, width: 1.75, dash: DASHES[s.dash] };
          const few = data.y.filter((value) => value != null).length < 3; // a line of one point is not seen
          const common = { mode: few ? "lines+markers" : "lines", marker: { size: 4, color }, connectgaps: false, yaxis, line };
          if (this.view.smooth) {
            add(s.key, "raw", { ...common, x: [...data.x], y: [...data.y], opacity: 0.25 });
            add(s.key, "smooth", { ...common, x: [...data.x], y: this.smoothed(data) });
          } else add(s.key, "raw", { ...common, x: [...data.x], y: [...data.y] });
          if (this.spec.right) continue;
          const last = this.lastOf(data);
          const y = last && this.view.smooth ? this.smoothed(data)[last.index] : last?.y;
          const dot = { mode: "markers", yaxis, cliponaxis: false, marker: { color, size: 7 } };
          add(s.key, "dot", { ...dot, x: last ? [last.x] : [], y: last ? [y] : [] });
        }
      }
      this.marksIndex = null;
      if (this.spec.marks) {
        this.marksIndex = out.length;
        const marker = { symbol: "triangle-up", size: 8, color: token("axis") };
        const y = this.marks.map(() => this.spec.y.range?.[0] ?? 0);
        out.push({ mode: "markers", x: [...this.marks], y, marker, cliponaxis: false, hoverinfo: "skip", showlegend: false });
      }
      return out;
    },
    layout() {
      const font = { family: "Inter, system-ui, sans-serif", size: 11, color: token("axis"), weight: 500 };
      const axis = (spec) => ({
        rangemode: spec.signed ? "normal" : "tozero",
        ...(spec.range ? { range: [...spec.range], autorange: false } : { autorange: true }),
        tickformat: spec.tickformat,
        ticksuffix: spec.suffix ?? "",
        ...(spec.dtick ? { dtick: spec.dtick } : { nticks: 5 }),
        fixedrange: true,
        zeroline: false,
        gridcolor: token("grid"),
        tickfont: font,
        autorangeoptions: { ...(spec.signed ? {} : { minallowed: 0 }), ...(spec.top ? { include: spec.top } : {}) },
      });
      const layout = {
        uirevision: "keep",
        autosize: true,
        margin: { l: 42, r: this.spec.right ? 42 : 14, t: 10, b: 24 },
        paper_bgcolor: "transparent",
        plot_bgcolor: "transparent",
        font,
        hovermode: false,
        dragmode: "zoom",
        barmode: "stack",
        bargap: 0.12,
        showlegend: false,
        xaxis: {
          range: this.range(),
          autorange: false,
          showgrid: false,
          zeroline: false,
          showline: true,
          linecolor: token("line-strong"),
          tickformat: "d",
          nticks: 7,
          tickfont: font,
        },
        yaxis: axis(this.spec.y),
        shapes: [],
        annotations: [],
      };
      // axes without data would show numbers that mean nothing
      layout.xaxis.visible = layout.yaxis.visible = this.lastStep() > 0;
      if (this.spec.right) layout.yaxis2 = { ...axis(this.spec.right), overlaying: "y", side: "right", showgrid: false, visible: layout.xaxis.visible };
      this.decorate(layout, font);
      return layout;
    },
    decorate(layout, font) {
      const width = this.$refs.plot?.clientWidth ?? 300;
      const [low, high] = layout.xaxis.range;
      for (const [from, to] of this.lost()) {
        const edge = { type: "rect", yref: "paper", y0: 0, y1: 1, x0: from, x1: to, layer: "below" };
        layout.shapes.push({ ...edge, fillcolor: token("mute-soft"), line: { width: 0 } });
        if (((to - from) / (high - low)) * width > 46)
          layout.annotations.push({ text: "no data", x: (from + to) / 2, y: 1, yref: "paper", yanchor: "top", showarrow: false, font });
      }
      if (this.spec.bars && this.spec.series.length > 1) this.nameStack(layout, font);
      for (const level of this.levels) {
        const color = token(level.color ?? "text-3");
        const line = { color, width: 1.2, dash: "4px,3px" };
        layout.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: level.y, y1: level.y, line });
        const at = { x: 1, xref: "paper", xanchor: "right", y: level.y, yanchor: level.below ? "top" : "bottom" };
        layout.annotations.push({ ...at, text: level.text, showarrow: false, font: { ...font, color }, bgcolor: token("bg-surface"), borderpad: 1 });
      }
    },
    nameStack(layout, font) {
      // Names beside the last bar, in the colours of its parts, pushed apart where they would touch.
      const last = this.lastStep();
      const parts = this.spec.series.map((s) => this.points[s.key]?.y[this.points[s.key].x.indexOf(last)] ?? 0);
      const total = parts.reduce((sum, part) => sum + part, 0);
      layout.margin.r = 60;
      if (!total) return;
      const room = (this.$refs.plot?.clientHeight ?? 150) - 34;
      const sums = {};
      for (const s of this.spec.series) this.points[s.key]?.x.forEach((x, i) => (sums[x] = (sums[x] ?? 0) + this.points[s.key].y[i]));
      const top = Math.max(this.spec.y.top ?? 0, ...Object.values(sums)) / 0.95;
      let below = 0;
      let floor = 6;
      this.spec.series.forEach((s, i) => {
        const middle = ((below + parts[i] / 2) / top) * room;
        below += parts[i];
        const at = Math.max(middle, floor);
        floor = at + 13;
        const place = { xref: "paper", x: 1, xanchor: "left", xshift: 4, yref: "paper", y: 0, yshift: at, yanchor: "middle" };
        layout.annotations.push({ ...place, text: s.name, showarrow: false, font: { ...font, color: token(s.color) } });
      });
    },
    // ---- data
    lead() {
      return this.points[this.spec.series.find((s) => s.kind !== "band")?.key] ?? { x: [], y: [] };
    },
    lastOf(data) {
      for (let i = data.x.length - 1; i >= 0; i--) if (data.y[i] != null) return { x: data.x[i], y: data.y[i], index: i };
      return null;
    },
    lastStep() {
      return Math.max(0, ...Object.values(this.points).map((d) => d.x.at(-1) ?? 0));
    },
    lost() {
      const { x, y } = this.lead();
      const gaps = [];
      if (!y) return gaps;
      for (let i = 1; i < x.length - 1; i++)
        if (y[i] == null && x[i + 1] - x[i - 1] > 2) gaps.push([x[i - 1] + 0.5, x[i + 1] - 0.5]);
      return gaps;
    },
    polygon(data) {
      const x = [];
      const y = [];
      let start = 0;
      const close = (end) => {
        for (let i = start; i < end; i++) x.push(data.x[i]), y.push(data.hi[i]);
        for (let i = end - 1; i >= start; i--) x.push(data.x[i]), y.push(data.lo[i]);
        if (end > start) x.push(null), y.push(null);
      };
      for (let i = 0; i < data.x.length; i++)
        if (data.hi[i] == null) {
          close(i);
          start = i + 1;
        }
      close(data.x.length);
      return { x, y };
    },
    smoothed(data) {
      let mean = 0;
      let weight = 0;
      return data.y.map((value) => {
        if (value == null) return null;
        mean = SMOOTHING * mean + (1 - SMOOTHING) * value;
        weight = SMOOTHING * weight + (1 - SMOOTHING);
        return mean / weight;
      });
    },
    // ---- range, smoothing and hover, shared by the charts of a group
    range() {
      const last = this.lastStep();
      if (this.view.mode === "free" && this.view.range) return [...this.view.range];
      const all = Math.max(10, last * 1.02);
      if (this.view.mode === "follow" && last > FOLLOW) return [last - FOLLOW, last + 1];
      return [this.spec.bars ? 0.4 : 0, all];
    },
    onZoom(change) {
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (range[0] !== undefined && range[1] !== undefined) this.setView({ mode: "free", range });
    },
    onView({ detail }) {
      if (detail.group !== this.group) return;
      this.view = { mode: detail.mode, range: detail.range, smooth: detail.smooth };
      sessionStorage.setItem(`rlvr-view:${this.group}`, JSON.stringify(this.view));
      this.draw();
      if (this.spec.leads) this.$emit("view", { mode: this.view.mode, smooth: this.view.smooth });
    },
    stored() {
      try {
        return JSON.parse(sessionStorage.getItem(`rlvr-view:${this.group}`) ?? "{}");
      } catch {
        return {};
      }
    },
    share(name, detail) {
      window.dispatchEvent(new CustomEvent(name, { detail: { ...detail, group: this.group } }));
    },
    onVisible() {
      if (!document.hidden && this.hiddenSince) schedule(this);
    },
    onMove(event) {
      const axis = this.$refs.plot._fullLayout?.xaxis;
      if (!axis) return;
      const at = axis.p2d(event.clientX - this.$refs.plot.getBoundingClientRect().left - axis._offset);
      const { x, y } = this.lead();
      let best = null;
      for (let i = 0; i < x.length; i++)
        if (y[i] != null && (best === null || Math.abs(x[i] - at) < Math.abs(best - at))) best = x[i];
      this.share("rlvr-step", { step: best });
    },
    onStep({ detail }) {
      const { cursor, tip, plot } = this.$refs;
      if (detail.group !== this.group || !cursor) return;
      const axis = plot._fullLayout?.xaxis;
      const rows = detail.step === null ? [] : this.valuesAt(detail.step);
      const left = axis && rows.length ? axis.d2p(detail.step) + axis._offset : -1;
      cursor.hidden = tip.hidden = !axis || !rows.length || left < axis._offset || left > axis._offset + axis._length;
      if (cursor.hidden) return;
      cursor.style.left = `${left}px`;
      tip.style.left = `${left}px`;
      tip.classList.toggle("flip", left < 130);
      tip.replaceChildren(...this.tipRows(detail.step, rows));
    },
    valuesAt(step) {
      const rows = [];
      for (const s of this.spec.series) {
        const data = this.points[s.key];
        const i = data ? data.x.indexOf(step) : -1;
        if (i < 0) continue;
        const value = s.kind === "band" ? (data.hi[i] == null ? null : (data.hi[i] - data.lo[i]) / 2) : data.y[i];
        if (value != null) rows.push([s, value]);
      }
      return rows;
    },
    tipRows(step, rows) {
      const element = (tag, text, className) => Object.assign(document.createElement(tag), { textContent: text, className });
      const out = [element("b", `Step ${step}`, "num")];
      for (const [s, value] of rows) {
        const row = element("span", "", "hs hs-6");
        const mark = element("i", "", s.kind === "band" ? "soft" : "");
        mark.style.background = `var(--${s.color})`;
        row.append(mark, element("span", s.name, "nm"), element("span", formats[s.format](value), "end num"));
        out.push(row);
      }
      return out;
    },
  },
};
