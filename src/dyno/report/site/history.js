// The history of a cell: its filters, its chart, and the same as a table.

const CHOICES = ["suite", "phase", "engine", "tier"];
const NARROWEST = 300;
const LEGEND_MARGIN = 90;

class History {
  constructor(site) {
    this.site = site;
    this.form = byId("filters");
    this.canvas = document.querySelector("#chart .canvas");
    this.turn = Promise.resolve();
    this.printing = false;
    this.places = site.order.map((at) => ({ at, ...site.places[at] }));
    this.varying = varyingParams(site.places);
  }

  follow() {
    const words = new URLSearchParams(location.hash.slice(1));
    this.show((name) => words.get(name));
  }

  /** Shows a place. Each choice narrows the places; `value` gives the value of the next choice by its name. */
  show(value) {
    let left = this.places;
    for (const name of CHOICES) left = narrow(left, this.form.elements[name], (place) => place[name], value(name));
    const several = (name) => distinct(left.map((place) => place.params[name])).length > 1;
    const params = (this.varying.get(left[0].suite) ?? []).filter(several);
    const box = byId("params");
    if (box.dataset.names !== params.join()) {
      box.dataset.names = params.join();
      box.replaceChildren(...params.map((name) => el("label", {}, `${name} `, el("select", { name: `p.${name}` }))));
    }
    for (const name of params) {
      left = narrow(left, this.form.elements[`p.${name}`], (place) => place.params[name], value(`p.${name}`));
    }
    this.place = left[0];
    this.showPlace();
  }

  choose() {
    const chosen = new FormData(this.form);
    this.show((name) => chosen.get(name));
    history.replaceState(null, "", new URL(this.place.link, location.href));
  }

  showPlace() {
    const { place } = this;
    const history = this.site.histories[place.at];
    const points = history.points.map((point) => withRuns(this.site, point));
    const drawn = points.filter((point) => point.drawn);
    const machines = distinct(drawn.map((point) => point.run.machine));
    const params = paramsText(place.params, this.varying.get(place.suite) ?? []);
    const where = `${place.engine} in ${placeText(place.phase, place.tier)}${params ? `, ${params}` : ""}`;
    const on = machines.length > 1 ? ` on ${machines.length} machines` : "";
    byId("headline").textContent = `${where}: ${plural(points.length, "run")}${on}.`;
    document.title = `${where}: its history by Dyno`;
    byId("about").replaceChildren(...about(points, history));
    byId("points").replaceChildren(...table("The history as a table", null, HEADS, points.map(lineOf)).children);
    this.records = drawn.map(recordOf);
    const empty = document.querySelector("#chart .empty");
    empty.hidden = drawn.length > 0;
    empty.textContent = "No run has both a valid figure of this cell and a date: the table says why.";
    const label = `${where}, over time: ${plural(drawn.length, "point")}. The table below has them all.`;
    this.canvas.setAttribute("aria-label", label);
    this.draw();
  }

  /** Draws the newest choice, one drawing at a time. */
  draw() {
    this.turn = this.turn.then(() => this.redraw()).catch((error) => {
      this.canvas.textContent = `The chart could not be drawn: ${error.message}. The table has its figures.`;
    });
    return this.turn;
  }

  async redraw() {
    const look = this.printing || !isDark() ? "light" : "dark";
    const width = Math.max(Math.floor(this.canvas.clientWidth), NARROWEST);
    const content = JSON.stringify([look, width, this.records]);
    if (content === this.drawn) return;
    this.drawn = content;
    this.view?.finalize();
    this.view = null;
    this.canvas.replaceChildren();
    if (!this.records.length) return;
    this.embed ??= await charting();
    const spec = structuredClone(this.site.specs[this.records[0].unit]);
    spec.layer = filled(spec.layer, this.records);
    limitMachines(spec.layer, distinct(this.records.map((record) => record.machine)), width);
    spec.encoding.x.axis.format = dayFormat(this.records);
    const inner = this.canvas.appendChild(el("div", { "aria-hidden": "true" }));
    const result = await this.embed(
      inner,
      { ...spec, width, autosize: { type: "fit-x", contains: "padding" }, datasets: { records: this.records } },
      {
        actions: false,
        ast: true,
        renderer: "svg",
        mode: "vega-lite",
        config: { ...this.site.config[look], aria: false },
      },
    );
    this.view = result.view;
  }

  watch() {
    this.form.addEventListener("change", () => this.choose());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", () => this.follow());
    addEventListener("resize", debounced(() => this.draw(), 150));
    for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
      addEventListener(event, () => {
        this.printing = printing;
        this.draw();
      });
    }
    watchTheme(() => this.draw());
  }
}

/** Leaves out layers that no record has a value for. */
function filled(layers, records) {
  return layers
    .filter(({ name }) => !name || records.some((record) => record[name] !== null))
    .map((one) => (one.layer ? { ...one, layer: filled(one.layer, records) } : one));
}

/** Limits the legend to the machines that are shown. Colours do not change. */
function limitMachines(part, machines, width) {
  for (const inner of Object.values(part)) {
    if (inner && typeof inner === "object") limitMachines(inner, machines, width);
  }
  if (part.field !== "machine" || !part.legend) return;
  part.legend.values = machines;
  part.legend.labelLimit = width - LEGEND_MARGIN;
}

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** Format of the dates on the axis: as fine as its ticks. */
function dayFormat(records) {
  const days = records.map((record) => Date.parse(record.day));
  const span = Math.max(...days) - Math.min(...days);
  if (span > 8 * DAY) return "%Y-%m-%d";
  return span > 10 * MINUTE ? "%m-%d %H:%M" : "%H:%M:%S";
}

const distinct = (values) => [...new Set(values)];

/** The parameters with several values, by suite. */
function varyingParams(places) {
  const bySuite = new Map();
  for (const suite of distinct(places.map((place) => place.suite))) {
    const mine = places.filter((place) => place.suite === suite);
    const names = distinct(mine.flatMap((place) => Object.keys(place.params)));
    bySuite.set(suite, names.filter((name) => distinct(mine.map((place) => place.params[name])).length > 1));
  }
  return bySuite;
}

/** Fills a select with the values of the places. Returns the places with this value, or else with the first. */
function narrow(places, select, of, value) {
  const values = distinct(places.map((place) => String(of(place))));
  const chosen = values.includes(value) ? value : values[0];
  values.sort(new Intl.Collator("en", { numeric: true }).compare);
  select.replaceChildren(...values.map((text) => el("option", { value: text }, text || UNKNOWN)));
  select.value = chosen;
  return places.filter((place) => String(of(place)) === chosen);
}

const withRuns = (site, point) => ({
  ...point,
  run: site.runs[point.run],
  before: point.before === null ? null : site.runs[point.before],
  remarks: point.remarks.map((remark) => site.remarks[remark]).join(", "),
});

function recordOf(point) {
  const { run, verdict, before, numbers: [median, low, high], step, unit, figure, interval, version } = point;
  return {
    day: run.created, machine: run.machine, median, low, high, top: high ?? median, page: run.page,
    step, unit, run: run.name, created: dated(run), figure, interval,
    change: verdict ? `${verdict[1]} (than ${before.name})` : UNKNOWN,
    dyno: run.dyno, version, remarks: point.remarks || "none",
  };
}

/** When the run was made, and from which commit. */
const dated = (run) => (run.commit ? `${run.day}, commit ${run.commit}` : run.day);

const HEADS = [
  ["run"], ["created, UTC", "day"], ["median", "number"], ["95 % interval", "number"], ["trials", "number"],
  ["against the run before on the same machine", "words"], ["machine", "machine"], ["dyno"],
  ["engine's version", "version"], ["remarks", "doubt"],
];

function lineOf(point) {
  const { run, before, verdict, numbers } = point;
  const compared = verdict
    ? el("a", { href: comparison(before, run), title: `compared with ${before.name}` }, verdictNode(verdict))
    : numbers ? "the first" : UNKNOWN;
  const figure = numbers ? point.figure : el("span", { class: "invalid" }, point.why);
  return [
    el("a", { href: run.page }, run.name), dated(run), figure, point.interval, point.trials, compared,
    run.machine, run.dyno, point.version, point.remarks,
  ];
}

const comparison = (before, after) => `compare.html#${new URLSearchParams({ a: before.name, b: after.name })}`;

/** The latest figure and the last step in words. */
function about(points, { steps, unchanged }) {
  const latest = points.find((point) => point.numbers);
  if (!latest) return ["No run has a valid figure of this cell."];
  const { run, figure, interval } = latest;
  const first = `The latest${run.created ? `, of ${run.day}` : ""}: ${figure} [${interval}]. `;
  if (!steps.length) return [first, unchanged];
  const [[at, text]] = steps;
  const { run: changed, before } = points[at];
  const link = el("a", { href: comparison(before, changed) }, `${changed.name} than ${before.name}`);
  return [first, `${plural(steps.length, "step")}, the last: `, link, `, ${text}.`];
}

themed(async () => {
  const page = new History(await siteData());
  page.watch();
  page.follow();
  await page.turn;
  root.classList.add("ready");
});
