// The page itself: reads its data, and keeps the filters, the address and the figures in step.

class Page {
  constructor(common, runs) {
    this.common = common;
    this.runs = runs;
    this.printing = false;
    this.embed = null;
    this.form = byId("filters");
    this.figures = common.charts.map((chart) => new Figure(byId(`chart-${chart.file}`), chart, this));
    this.state = fromHash(location.hash, runs);
  }

  get run() {
    return this.runs[this.state.run];
  }

  /** Shows the state in all parts of the page. */
  show() {
    for (const part of document.querySelectorAll("[data-run]")) part.hidden = Number(part.dataset.run) !== this.state.run;
    fillFilters(this.form, this.runs, this.state);
    markChosen(this.state, this.runs);
    for (const figure of this.figures) figure.update();
    byId("selection").textContent = selectionText(this.run, this.state);
    reachAll();
  }

  /** Reads the filters. Another run begins with its own defaults. */
  choose() {
    const state = fromFilters(this.form, this.runs, this.state);
    history.replaceState(null, "", toHash(state, this.runs[state.run]));
    this.state = state;
    this.show();
  }

  follow() {
    if (!location.hash.includes("=")) return;
    this.state = fromHash(location.hash, this.runs);
    this.show();
    (this.linked() ?? byId("charts")).scrollIntoView();
  }

  /** The figure that the address names, if it is visible. */
  linked() {
    const name = new URLSearchParams(location.hash.replace(/^#/, "")).get("chart");
    const figure = this.figures.find((one) => one.chart.file === name && !one.box.hidden);
    return figure?.box;
  }

  redraw() {
    return Promise.all(this.figures.map((figure) => (figure.visible || this.printing ? figure.draw() : null)));
  }

  /** On paper everything is open and drawn in light colours. The library was unpacked before: printing can't wait. */
  print(printing) {
    this.printing = printing;
    for (const part of document.querySelectorAll("details")) {
      if (printing) part.dataset.open = part.open;
      part.open = printing || part.dataset.open === "true";
    }
    this.redraw();
  }

  watch() {
    this.form.addEventListener("change", () => this.choose());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    byId("reset").addEventListener("click", () => {
      this.state = initial(this.run, this.state.run);
      history.replaceState(null, "", toHash(this.state, this.run));
      this.show();
    });
    addEventListener("hashchange", () => this.follow());
    addEventListener("resize", debounced(() => this.redraw().then(reachAll), 150));
    // Of <details>: closed, their content has no width.
    document.addEventListener("toggle", reachAll, true);
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    watchTheme(() => this.redraw());
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const figure = this.figures.find((one) => one.box === entry.target);
          figure.visible = entry.isIntersecting;
          if (figure.visible) figure.draw();
        }
      },
      { rootMargin: "300px" },
    );
    for (const figure of this.figures) {
      seen.observe(figure.box);
      offerPictures(figure);
      watchTable(figure.box);
    }
  }
}

function watchTable(box) {
  const button = box.querySelector("button[data-table]");
  button.addEventListener("click", () => {
    const open = box.classList.toggle("with-table");
    button.setAttribute("aria-expanded", open);
    reach(box.querySelector(".data"));
  });
}

/** Unpacks the records of a run, which are rows of values under names. */
function spread(run) {
  const records = Object.entries(run.records).map(([chart, { names, rows }]) => [
    chart,
    rows.map((values) => Object.fromEntries(values.map((value, at) => [names[at], value ?? null]))),
  ]);
  return { ...run, records: Object.fromEntries(records) };
}

async function start() {
  offerDownloads();
  const { runs, unknown, ...common } = JSON.parse(await unpackText("data"));
  UNKNOWN = unknown;
  const page = new Page(common, runs.map(spread));
  page.watch();
  page.show();
  page.linked()?.scrollIntoView();
  // Unpacked early, after the first screen is shown, because printing can't wait for it.
  page.embed = await charting();
  document.documentElement.classList.add("ready");
}

themed(start);
