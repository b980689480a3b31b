// A chart over the steps of a run. History comes once, afterwards only new points; zoom is never reset by data.
// Charts of one group share the hovered step, the range, the smoothing and what is hidden, kept for the tab in
// sessionStorage. What is out of sight is not drawn. The card around a chart is kept up to date from here: its value,
// its change, its sentence and its legend, so that a new step costs one short message for all charts together.
const FOLLOW = 50; // steps in sight when following
const SMOOTHING = 0.8; // weight of the past in the smoothed line

const DASHES = {
  solid: "solid",
  dash: "5px,3px",
  dot: "2px,2.5px",
  dashdot: "8px,3px,2px,3px",
  longdash: "11px,4px",
  longdashdot: "11px,3px,2px,3px,2px,3px",
};

const token = (name) => getComputedStyle(document.body).getPropertyValue(`--${name}`).trim();
const formats = {
  share: (v) => `${Math.round(v * 100)}%`,
  score: (v) => v.toFixed(2),
  number: (v) => Math.round(v).toLocaleString("en-US"),
  tiny: (v) => (v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential(2) : v.toPrecision(3)).replaceAll("-", "−"),
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

const middle = (bin, width) => bin * width + (width - 1) / 2;

// Where the value nearest to a step stands; -1 where there is none.
function nearest(x, y, step) {
  let best = -1;
  for (let i = 0; i < x.length; i++) if (y[i] != null && (best < 0 || Math.abs(x[i] - step) < Math.abs(x[best] - step))) best = i;
  return best;
}

// Mean of the newest values less the mean of those before; null while there are too few.
function trend(values) {
  const window = Math.min(10, Math.floor(values.length / 2));
  const mean = (some) => some.reduce((sum, value) => sum + value, 0) / some.length;
  return window < 3 ? null : mean(values.slice(-window)) - mean(values.slice(-2 * window, -window));
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
    this.view = { mode: this.mode, range: null, smooth: false, hidden: [], ...this.stored() };
    const plot = this.$refs.plot;
    this.card = this.$el.closest(".ch");
    for (const button of this.legend()) button.addEventListener("click", () => this.toggle(button.dataset.series));
    this.showLegend();
    window.addEventListener("rlvr-step", this.onStep);
    window.addEventListener("rlvr-view", this.onView);
    window.addEventListener("rlvr-points", this.onPoints);
    document.addEventListener("visibilitychange", this.onVisible);
    plot.addEventListener("mousemove", this.onMove);
    plot.addEventListener("mouseleave", () => this.share("rlvr-step", { step: null }));
    this.sight = new IntersectionObserver(
      ([entry]) => {
        this.inSight = entry.isIntersecting;
        if (this.inSight && this.hiddenSince) schedule(this);
      },
      { rootMargin: "80px" },
    );
    this.sight.observe(plot);
    this.$emit("ready", this.told());
    const { Plotly } = await import("nicegui-plotly");
    if (!this.$refs.plot) return;
    this.Plotly = Plotly;
    schedule(this);
    this.sizes = new ResizeObserver(() => (this.hiddenSince ? schedule(this) : plot.clientWidth && Plotly.Plots.resize(plot)));
    this.sizes.observe(plot);
    this.themes = new MutationObserver(() => this.draw());
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  },
  unmounted() {
    window.removeEventListener("rlvr-step", this.onStep);
    window.removeEventListener("rlvr-view", this.onView);
    window.removeEventListener("rlvr-points", this.onPoints);
    document.removeEventListener("visibilitychange", this.onVisible);
    dirty.delete(this);
    this.sight?.disconnect();
    this.sizes?.disconnect();
    this.themes?.disconnect();
    if (this.$refs.plot?.on) this.Plotly.purge(this.$refs.plot);
  },
  methods: {
    // ---- called from Python
    load(points) {
      for (const data of Object.values(points)) if (data.bins) data.x = data.bins.map((bin) => middle(bin, data.width));
      this.points = points;
      this.describe();
      this.draw();
    },
    spread(added) {
      this.share("rlvr-points", { added });
    },
    onPoints({ detail: { group, added } }) {
      const fresh = group === this.group && added.c[this.$el.id.slice(1)];
      if (!fresh) return;
      fresh.forEach((part, number) => part && this.add(this.spec.series[number], part, part.x ?? added.x));
      this.describe();
      schedule(this);
    },
    add(series, part, x) {
      const key = series.key;
      if (series.kind === "bar") return this.addBars((this.points[key] ??= { bins: [], x: [], y: [], n: [], width: 1 }), part, x, series.sums);
      const known = (this.points[key] ??= part.hi ? { x: [], lo: [], hi: [] } : { x: [], y: [] });
      this.added[key] = Math.min(this.added[key] ?? Infinity, known.x.length);
      known.x.push(...x);
      for (const column of ["y", "lo", "hi"]) if (part[column]) known[column].push(...part[column]);
    },
    addBars(known, part, x, sums) {
      this.whole = true; // a bar that stands for many steps grows in place
      x.forEach((step, i) => {
        const bin = Math.floor(step / known.width);
        const at = known.bins.length - 1;
        if (known.bins[at] !== bin) {
          known.bins.push(bin);
          known.x.push(middle(bin, known.width));
          known.y.push(part.y[i]);
          known.n.push(1);
        } else {
          known.y[at] = sums ? known.y[at] + part.y[i] : (known.y[at] * known.n[at] + part.y[i]) / (known.n[at] + 1);
          known.n[at] += 1;
        }
      });
    },
    toggle(key) {
      const name = this.nameOf(key);
      const hidden = this.view.hidden.includes(name) ? this.view.hidden.filter((one) => one !== name) : [...this.view.hidden, name];
      this.setView({ hidden });
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
      this.hiddenSince = document.hidden || !this.inSight || !plot.clientWidth; // drawn when it comes into sight
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
      plot.on("plotly_clickannotation", ({ annotation }) => annotation.name && this.toggle(annotation.name));
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
        const data = (!this.isHidden(s.key) && this.points[s.key]) || { x: [], y: [], lo: [], hi: [] };
        const yaxis = s.right ? "y2" : "y";
        const color = token(s.color);
        if (s.kind === "band") {
          const line = { width: 0 };
          add(s.key, "band", { ...this.polygon(data), fill: "toself", fillcolor: token(`${s.color}-soft`), line, mode: "lines" });
        } else if (s.kind === "points") {
          const marker = { symbol: "diamond", color, size: 8, line: { color: token("bg-surface"), width: 1 } };
          add(s.key, "raw", { mode: "markers", x: [...data.x], y: [...data.y], yaxis, marker, cliponaxis: false });
        } else if (s.kind === "bar") {
          const marker = { color, line: { width: 0 } };
          add(s.key, "raw", { type: "bar", x: [...data.x], y: [...data.y], width: 0.88 * (data.width ?? 1), marker });
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
      this.nameEnds(layout, font);
      for (const level of this.levels) {
        const color = token(level.color ?? "text-3");
        const line = { color, width: 1.2, dash: "4px,3px" };
        layout.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: level.y, y1: level.y, line });
        const at = { x: 1, xref: "paper", xanchor: "right", y: level.y, yanchor: level.below ? "top" : "bottom" };
        layout.annotations.push({ ...at, text: level.text, showarrow: false, font: { ...font, color }, bgcolor: token("bg-surface"), borderpad: 1 });
      }
    },
    nameEnds(layout, font) {
      // Labels at the ends of lines, from the lowest up, pushed apart where they would touch.
      const ends = [];
      for (const s of this.spec.series) {
        const last = s.label && !this.isHidden(s.key) && this.points[s.key] && this.lastOf(this.points[s.key]);
        if (last) ends.push({ s, x: last.x, y: this.view.smooth ? this.smoothed(this.points[s.key])[last.index] : last.y });
      }
      if (!ends.length) return;
      layout.margin.r = 24;
      const values = Object.values(this.points).flatMap(({ y }) => (y ?? []).filter((value) => value != null));
      const [low, high] = this.spec.y.range ?? [Math.min(this.spec.y.signed ? Infinity : 0, ...values), Math.max(...values)];
      const pixels = ((this.$refs.plot?.clientHeight ?? 150) - 34) / (high - low || 1);
      const placed = [];
      for (const { s, x, y } of ends.sort((a, b) => a.y - b.y)) {
        const near = placed.filter((other) => Math.abs(other.x - x) < this.lastStep() / 40);
        const at = Math.max(y * pixels, ...near.map((other) => other.at + 11));
        placed.push({ x, at });
        const place = { x, y, xanchor: "left", xshift: 4, yanchor: "middle", yshift: at - y * pixels, showarrow: false };
        layout.annotations.push({ ...place, text: s.label, font: { ...font, color: token(s.color), weight: 600 } });
      }
    },
    nameStack(layout, font) {
      // Names beside the last bar, in the colours of its parts, pushed apart where they would touch.
      const last = this.lastStep();
      const shown = (s) => (this.isHidden(s.key) ? undefined : this.points[s.key]);
      const parts = this.spec.series.map((s) => shown(s)?.y[shown(s).x.indexOf(last)] ?? 0);
      const total = parts.reduce((sum, part) => sum + part, 0);
      layout.margin.r = 60;
      if (!last) return;
      const room = (this.$refs.plot?.clientHeight ?? 150) - 34;
      const sums = {};
      for (const s of this.spec.series) shown(s)?.x.forEach((x, i) => (sums[x] = (sums[x] ?? 0) + shown(s).y[i]));
      const top = Math.max(this.spec.y.top ?? 0.5, ...Object.values(sums)) / 0.95;
      let below = 0;
      let floor = 6;
      this.spec.series.forEach((s, i) => {
        const middle = ((below + parts[i] / 2) / top) * room;
        below += parts[i];
        const at = Math.max(middle, floor);
        floor = at + 13;
        const place = { xref: "paper", x: 1, xanchor: "left", xshift: 4, yref: "paper", y: 0, yshift: at, yanchor: "middle" };
        const color = token(this.isHidden(s.key) ? "text-3" : s.color);
        const text = this.isHidden(s.key) ? `<s>${s.name}</s>` : s.name;
        layout.annotations.push({ ...place, text, name: s.key, captureevents: true, showarrow: false, font: { ...font, color } });
      });
    },
    // ---- the card around the chart
    describe() {
      if (this.spec.overlay) return this.describeAll();
      const lead = this.spec.series.find((s) => s.kind !== "band");
      const { x = [], y = [] } = this.points[lead.key] ?? {};
      const at = y.flatMap((value, i) => (value == null ? [] : [i]));
      const put = (name, text) => {
        const element = this.card?.querySelector(`[data-${name}]`);
        if (element && element.textContent !== text) element.textContent = text;
      };
      const none = this.card?.querySelector("[data-none]");
      if (none) none.hidden = at.length > 0;
      if (!at.length) return;
      const measured = ({ y, hi } = {}) => (y ?? hi ?? []).some((value) => value != null);
      for (const button of this.legend()) button.hidden = !measured(this.points[button.dataset.series]);
      const show = formats[lead.format];
      const [first, last] = [at[0], at.at(-1)];
      put("value", show(this.headline(lead, y, last)));
      const change = this.spec.change && trend(at.map((i) => y[i]));
      if (change != null && this.spec.change) {
        const size = Math.abs(change).toFixed(2);
        put("change", Number(size) ? `${change < 0 ? "−" : "+"}${size}` : size);
        this.card?.querySelector("[data-change]")?.classList.toggle("c-ok", this.spec.change === "good" && change > 0);
      }
      const sentence = `${this.spec.title}: ${show(y[first])} at step ${Math.round(x[first])}, ${show(y[last])} at step ${Math.round(x[last])}`;
      this.card?.querySelector("[data-figure]")?.setAttribute("aria-label", sentence);
    },
    describeAll() {
      const known = this.spec.series.flatMap((s) => {
        const last = this.points[s.key] && this.lastOf(this.points[s.key]);
        return last ? [`${s.name} ${formats[s.format](last.y)} at step ${Math.round(last.x)}`] : [];
      });
      const none = this.card?.querySelector("[data-none]");
      if (none) none.hidden = known.length > 0;
      if (known.length) this.card?.querySelector("[data-figure]")?.setAttribute("aria-label", `${this.spec.title}: ${known.join(", ")}`);
    },
    headline(lead, y, last) {
      if (this.spec.headline === "sum") return y.reduce((sum, value) => sum + (value ?? 0), 0);
      if (this.spec.headline === "stack") return this.spec.series.reduce((sum, s) => sum + (this.points[s.key]?.y.at(-1) ?? 0), 0);
      return y[last];
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
      if (!y || this.spec.overlay) return gaps;
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
    told() {
      const { mode, smooth, range } = this.view;
      return { mode, smooth, range };
    },
    nameOf(key) {
      return `${this.spec.title}: ${key}`;
    },
    isHidden(key) {
      return this.view.hidden.includes(this.nameOf(key));
    },
    legend() {
      return this.card?.querySelectorAll("[data-series]") ?? [];
    },
    showLegend() {
      for (const button of this.legend()) button.setAttribute("aria-pressed", String(!this.isHidden(button.dataset.series)));
    },
    onZoom(change) {
      const range = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (range[0] !== undefined && range[1] !== undefined) this.setView({ mode: "free", range });
    },
    onView({ detail }) {
      if (detail.group !== this.group) return;
      const { mode, range, smooth, hidden } = detail;
      this.view = { mode, range, smooth, hidden };
      sessionStorage.setItem(`rlvr-view:${this.group}`, JSON.stringify(this.view));
      this.showLegend();
      this.draw();
      if (this.spec.leads) this.$emit("view", this.told());
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
      const lines = this.spec.overlay ? Object.values(this.points) : [this.lead()];
      const steps = lines.flatMap(({ x, y }) => x[nearest(x, y, at)] ?? []);
      const best = steps.sort((a, b) => Math.abs(a - at) - Math.abs(b - at))[0] ?? null;
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
      tip.replaceChildren(...this.tipRows(detail.step, rows));
      tip.classList.toggle("flip", left < Math.max(130, tip.offsetWidth + 12));
    },
    valuesAt(step) {
      // a thinned series has no point at every step: the nearest within some pixels stands for it
      const axis = this.$refs.plot._fullLayout?.xaxis;
      if (!axis) return []; // out of sight, so not drawn yet
      const reach = Math.max(0.5, Math.abs(axis.p2d(6) - axis.p2d(0)));
      const rows = [];
      for (const s of this.spec.series) {
        const data = this.isHidden(s.key) ? null : this.points[s.key];
        const i = data ? nearest(data.x, data.y ?? data.hi, step) : -1;
        if (i < 0 || Math.abs(data.x[i] - step) > Math.max(reach, (data.width ?? 1) / 2)) continue;
        rows.push([s, s.kind === "band" ? (data.hi[i] - data.lo[i]) / 2 : data.y[i]]);
      }
      return rows;
    },
    tipRows(step, rows) {
      const element = (tag, text, className) => Object.assign(document.createElement(tag), { textContent: text, className });
      const width = Math.max(1, ...rows.map(([s]) => this.points[s.key].width ?? 1));
      const from = Math.round(step - (width - 1) / 2);
      const out = [element("b", width > 1 ? `Steps ${from} to ${from + width - 1}` : `Step ${Math.round(step)}`, "num")];
      for (const [s, value] of rows) {
        const row = element("span", "", "hs hs-6");
        const mark = element("i", "", s.kind === "band" ? "soft" : "");
        mark.style.background = `var(--${s.color})`;
        // The names of several runs have room in the widest chart only.
        const name = this.spec.overlay && !this.spec.leads ? s.label : s.name;
        row.append(mark, element("span", name, "nm"), element("span", formats[s.format](value), "end num"));
        out.push(row);
      }
      return out;
    },
  },
};
