// A figure: one chart of the selection, drawn when it comes into view and again only when what it shows has changed.

const CONCAT_MARGIN = 104;
// Below it a chart says nothing any more: it is scrolled.
const LEAST_WIDTH = 280;
// Below it names and figures stand above a row's bar, and not beside it.
const BESIDE_WIDTH = 600;
// Estimated width of a letter and of a symbol in a legend, in pixels: the same as in charts/vega.py.
const [LETTER, SYMBOL, MOST_COLUMNS] = [7, 40, 6];

/** Has the labels take of the width too, where there is one picture. Said to Vega: Vega-Lite would warn that it does
 * not do the same for a height that comes from the number of rows. */
function fitted(made) {
  return made.layout ? made : { ...made, autosize: { type: "fit-x", contains: "padding" } };
}

/** Leaves the engines that are not drawn out of a specification's legends; the others keep their colours. */
function narrowed(spec, engines, width) {
  for (const part of Object.values(spec)) if (part !== null && typeof part === "object") narrowed(part, engines, width);
  if (spec.field === "engine" && spec.legend) {
    const longest = Math.max(...engines.map((name) => name.length)) * LETTER + SYMBOL;
    const columns = Math.max(1, Math.min(MOST_COLUMNS, Math.floor(width / longest)));
    spec.legend = { ...spec.legend, values: engines, columns };
  }
  return spec;
}

/** Rows of bars for a narrow screen: what stands at the left and at the right of a row is above it, in two lines. */
function stacked(spec) {
  const row = spec.layer[0].encoding.y;
  const y = { ...row, axis: null, scale: { ...row.scale, paddingInner: 0.72, paddingOuter: 0.72 } };
  const line = (at, dy, look) => ({
    transform: [{ calculate: `split(datum.line, '\\t')[${at}]`, as: "said" }],
    mark: { type: "text", aria: false, align: "left", dy, ...look },
    encoding: { y: { ...y, bandPosition: 0 }, x: { value: 0 }, text: { field: "said" } },
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
    this.view = null;
    this.drawn = "";
    this.visible = false;
    this.turn = Promise.resolve();
  }

  /** Takes over what the state asks for: the table and the notes at once, the chart if it is in view. */
  update() {
    const { run, state } = this.page;
    this.records = selected(run, this.chart, state);
    this.shown = best(this.records, this.page.common.most.rows);
    this.box.hidden = !this.records.length;
    fillTable(this.box.querySelector(".data"), this.chart, this.records, this.caption(), this.page.common.most.lines);
    fillNotes(this.box.querySelector(".notes"), run, state, this.chart.spans, this.shown);
    this.say();
    this.canvas.setAttribute("aria-label", this.description());
    this.box.querySelector("button[data-copy]").dataset.copy = "";
    this.box.querySelector("a[data-link]").href = `${toHash(state, run)}&chart=${this.chart.file}`;
    if (this.visible) this.draw();
  }

  /** What the picture leaves out of a large run. */
  leftOut() {
    const { run } = this.page;
    const [drawn, all] = [this.shown, this.records].map((records) => new Set(records.map((one) => one.engine)).size);
    const which = this.chart.spans.length ? "first" : "best";
    return [
      drawn < all && `The ${which} ${drawn} of ${grouped.format(all)} engines: others can be chosen above, the table has more.`,
      "baseline" in (this.records[0] ?? {}) &&
        !run.baselines &&
        "Against the best of each place alone, since the run is large: dyno compare --baseline takes any.",
      "percentile" in (this.records[0] ?? {}) && run.brief && "Only the marked points, since the run is large: dyno plot has all.",
    ].filter(Boolean);
  }

  /** Below the picture: what is to be said of what it shows. */
  say() {
    const { run, state } = this.page;
    const drawn = new Set(this.shown.map((record) => record.engine));
    const here = (run.says[this.chart.name] ?? []).filter(
      (said) => isHere(said, state, this.chart.spans) && said.engines.every((engine) => drawn.has(engine)),
    );
    const list = this.box.querySelector(".says");
    const lines = [...this.leftOut(), ...here.map((said) => said.text)];
    list.replaceChildren(...lines.map((text) => el("li", {}, text)));
    list.hidden = !lines.length;
  }

  caption() {
    const { run, state } = this.page;
    const against = this.records.some((record) => record.baseline) ? `, against ${baselineOf(run, state)}` : "";
    return `${this.chart.title}: ${placeName(run, state, this.chart.spans)}${against}`;
  }

  /** What the picture says, for who does not see it. */
  description() {
    const first = this.chart.columns.find((column) => isNumber(column.kind));
    const once = new Set(this.shown.map((record) => record.engine)).size === this.shown.length;
    const figures = once
      ? this.shown.map((r) => `${r.engine} ${cellText(r, first)}`).join(", ")
      : `${this.shown.length} lines`;
    return `${this.caption()}. ${first.title}: ${figures}. The table says all of it.`;
  }

  /** One drawing at a time, of the newest state; nothing where it would be the same picture. */
  draw() {
    this.turn = this.turn.then(() => this.redraw()).catch((error) => {
      this.canvas.textContent = `The chart could not be drawn: ${error.message}. The table has its figures.`;
    });
    return this.turn;
  }

  async redraw() {
    const look = this.page.printing || !isDark() ? "light" : "dark";
    const width = Math.max(this.plot.clientWidth, LEAST_WIDTH);
    const wanted = `${look} ${width} ${this.page.state.run} ${JSON.stringify(this.shown)}`;
    if (wanted === this.drawn) return;
    this.drawn = wanted;
    const before = this.view;
    this.view = null;
    if (!this.records.length) {
      before?.finalize();
      this.canvas.replaceChildren();
      return;
    }
    const embed = this.page.embed ?? (await charting());
    const config = this.page.common.config[look];
    // Errors only: Vega would warn of intervals that nothing has, which are then not drawn.
    const options = { actions: false, ast: true, renderer: "svg", logLevel: 1, mode: "vega-lite", config, patch: fitted };
    // Hidden from a screen reader: the description of the whole stands on the element around.
    const inner = el("div", { "aria-hidden": "true", class: "live" });
    this.view = (await embed(inner, this.spec(width), options)).view;
    // What was seen before stays until there is something to be seen in its place.
    before?.finalize();
    this.canvas.replaceChildren(inner);
    reach(this.plot);
  }

  /** The Vega-Lite specification of the records, as wide as there is room. */
  spec(width) {
    const { run } = this.page;
    const known = structuredClone(run.specs[this.chart.name][unitOf(this.records[0])]);
    const spec = known.height?.step && width < BESIDE_WIDTH ? stacked(known) : known;
    for (const part of spec.vconcat ?? [spec]) part.width = spec.vconcat ? width - CONCAT_MARGIN : width;
    const drawn = [...new Set(this.shown.map((record) => record.engine))];
    return { ...narrowed(spec, drawn, width), datasets: { records: this.shown } };
  }

  /** The picture by itself, on its own background. */
  async picture(kind) {
    await this.draw();
    const look = isDark() ? "dark" : "light";
    this.view.background(this.page.common.paper[look]);
    const svg = kind === "svg" ? await this.view.toSVG() : null;
    const canvas = kind === "png" ? await this.view.toCanvas(2) : null;
    this.view.background("transparent");
    if (svg) return new Blob([svg], { type: "image/svg+xml" });
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }
}
