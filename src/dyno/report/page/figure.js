// A figure: one chart of the selection, drawn when it comes into view and redrawn only when its content changes.

const CONCAT_MARGIN = 104;
// Narrower charts would be unreadable: they scroll instead.
const LEAST_WIDTH = 280;
// In narrower charts, names and figures are above a row's bar instead of beside it.
const BESIDE_WIDTH = 600;
// Estimated width of a letter and of a symbol in a legend, in pixels: the same as in charts/vega.py.
const [LETTER, SYMBOL, MOST_COLUMNS] = [7, 40, 6];

/** Makes the labels part of the width, if there is one panel. Set in Vega: Vega-Lite would warn that it can't do the
 * same for a height by number of rows. */
function fitted(spec) {
  return spec.layout ? spec : { ...spec, autosize: { type: "fit-x", contains: "padding" } };
}

/** Limits a specification's legends to these engines. Colours do not change. */
function limitLegends(spec, engines, width) {
  for (const part of Object.values(spec)) if (part !== null && typeof part === "object") limitLegends(part, engines, width);
  if (spec.field === "engine" && spec.legend) {
    const longest = Math.max(...engines.map((name) => name.length)) * LETTER + SYMBOL;
    const columns = Math.max(1, Math.min(MOST_COLUMNS, Math.floor(width / longest)));
    spec.legend = { ...spec.legend, values: engines, columns };
  }
  return spec;
}

/** Bars for a narrow screen: name and figure are above each bar, in two lines. */
function stacked(spec) {
  const row = spec.layer[0].encoding.y;
  const y = { ...row, axis: null, scale: { ...row.scale, paddingInner: 0.72, paddingOuter: 0.72 } };
  const line = (at, dy, look) => ({
    transform: [{ calculate: `split(datum.line, '\\t')[${at}]`, as: "label" }],
    mark: { type: "text", aria: false, align: "left", dy, ...look },
    encoding: { y: { ...y, bandPosition: 0 }, x: { value: 0 }, text: { field: "label" } },
  });
  const placed = ({ bandPosition: at }) => (at === undefined ? y : { ...y, bandPosition: at });
  const layers = spec.layer.map((one) =>
    one.encoding.y ? { ...one, encoding: { ...one.encoding, y: placed(one.encoding.y) } } : one,
  );
  return { ...spec, height: { step: 58 }, layer: [...layers, line(0, -22, { fontWeight: 600 }), line(1, -8, {})] };
}

class Figure {
  constructor(box, chart, page) {
    this.box = box;
    this.chart = chart;
    this.page = page;
    this.plot = box.querySelector(".plot");
    this.canvas = box.querySelector(".canvas");
    this.zoom = chart.zooms ? new Zoom(this) : null;
    this.view = null;
    this.drawn = "";
    this.visible = false;
    this.turn = Promise.resolve();
  }

  /** Shows the state: the table and the notes at once, the chart if it is in view. */
  update() {
    const { run, state } = this.page;
    this.records = selected(run, this.chart, state);
    this.shown = best(this.records, this.page.common.most.rows);
    this.zoom?.reset();
    this.box.hidden = !this.records.length;
    fillTable(this.box.querySelector(".data"), this.chart, this.records, this.caption(), this.page.common.most.lines);
    fillNotes(this.box.querySelector(".notes"), run, state, this.chart.spans, this.shown);
    this.say();
    this.canvas.setAttribute("aria-label", this.description());
    this.box.querySelector("button[data-copy]").dataset.copy = "";
    this.box.querySelector("a[data-link]").href = `${toHash(state, run)}&chart=${this.chart.file}`;
    if (this.visible) this.draw();
  }

  /** Sentences about what the chart leaves out of a large run. */
  leftOut() {
    const { run } = this.page;
    const [drawn, all] = [this.shown, this.records].map((records) => new Set(records.map((one) => one.engine)).size);
    const which = this.chart.spans.length ? "first" : "best";
    return [
      drawn < all && `The ${which} ${drawn} of ${grouped(all)} engines: others can be chosen above, the table has more.`,
      "baseline" in (this.records[0] ?? {}) &&
        !run.baselines &&
        "Against the best of each place alone, since the run is large: dyno compare --baseline takes any.",
      "percentile" in (this.records[0] ?? {}) && run.brief && "Only the marked points, since the run is large: dyno plot has all.",
    ].filter(Boolean);
  }

  /** Fills the sentences below the chart. */
  say() {
    const { run, state } = this.page;
    const drawn = new Set(this.shown.map((record) => record.engine));
    const here = (run.says[this.chart.name] ?? []).filter(
      (sentence) => isHere(sentence, state, this.chart.spans) && sentence.engines.every((engine) => drawn.has(engine)),
    );
    const list = this.box.querySelector(".says");
    const lines = [...this.leftOut(), ...here.map((sentence) => sentence.text)];
    list.replaceChildren(...lines.map((text) => el("li", {}, text)));
    list.hidden = !lines.length;
  }

  caption() {
    const { run, state } = this.page;
    const against = this.records.some((record) => record.baseline) ? `, against ${baselineOf(run, state)}` : "";
    return `${this.chart.title}: ${placeName(run, state, this.chart.spans)}${against}`;
  }

  /** Describes the chart to screen readers. */
  description() {
    const first = this.chart.columns.find((column) => isNumber(column.kind));
    const once = new Set(this.shown.map((record) => record.engine)).size === this.shown.length;
    const figures = once
      ? this.shown.map((r) => `${r.engine} ${cellText(r, first)}`).join(", ")
      : `${this.shown.length} lines`;
    return `${this.caption()}. ${first.title}: ${figures}. The table says all of it.`;
  }

  /** Draws the newest state, one drawing at a time. Does nothing if the content has not changed. */
  draw() {
    this.turn = this.turn.then(() => this.redraw()).catch((error) => {
      this.canvas.textContent = `The chart could not be drawn: ${error.message}. The table has its figures.`;
    });
    return this.turn;
  }

  async redraw() {
    const look = this.page.printing || !isDark() ? "light" : "dark";
    const width = Math.max(this.plot.clientWidth, LEAST_WIDTH);
    const content = `${look} ${width} ${this.page.state.run} ${JSON.stringify([this.shown, this.zoom?.frame])}`;
    if (content === this.drawn) return;
    this.drawn = content;
    const before = this.view;
    this.view = null;
    if (!this.records.length) {
      before?.finalize();
      this.canvas.replaceChildren();
      return;
    }
    const embed = this.page.embed ?? (await charting());
    const config = this.page.common.config[look];
    // Errors only: Vega warns of intervals that no record has.
    const options = { actions: false, ast: true, renderer: "svg", logLevel: 1, mode: "vega-lite", config, patch: fitted };
    // Hidden from screen readers: the element around it has a description.
    const inner = el("div", { "aria-hidden": "true", class: "live" });
    this.view = (await embed(inner, this.spec(width), options)).view;
    // The old drawing stays visible until the new one is ready.
    before?.finalize();
    this.canvas.replaceChildren(inner);
    this.zoom?.drawn(this.view);
    reach(this.plot);
  }

  /** The Vega-Lite specification, `width` pixels wide. */
  spec(width) {
    const { run } = this.page;
    const full = structuredClone(run.specs[this.chart.name][unitOf(this.records[0])]);
    const rows = full.height?.step && full.layer[0].encoding.y?.field === "line";
    const spec = rows && width < BESIDE_WIDTH ? stacked(full) : full;
    for (const part of spec.vconcat ?? [spec]) part.width = spec.vconcat ? width - CONCAT_MARGIN : width;
    const drawn = [...new Set(this.shown.map((record) => record.engine))];
    this.zoom?.narrow(spec);
    return { ...limitLegends(spec, drawn, width), datasets: { records: this.zoom?.cut(this.shown) ?? this.shown } };
  }

  /** The chart as a file, on an opaque background. Redraws wait for it: they would replace the view. */
  picture(kind) {
    const made = this.draw().then(async () => {
      this.view.background(this.page.common.paper[isDark() ? "dark" : "light"]);
      const svg = kind === "svg" ? await this.view.toSVG() : null;
      const canvas = kind === "png" ? await this.view.toCanvas(2) : null;
      this.view.background("transparent");
      if (svg) return new Blob([svg], { type: "image/svg+xml" });
      return new Promise((done) => canvas.toBlob(done, "image/png"));
    });
    this.turn = made.catch(() => {});
    return made;
  }
}
