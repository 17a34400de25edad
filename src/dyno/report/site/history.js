// The history of a cell over the runs: what is chosen, its chart, and the same as a table.

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
    // Places by how often they were measured: the first is where the page begins.
    const times = new Map(site.places.map((_, at) => [at, 0]));
    for (const run of site.runs) for (const row of run.rows) times.set(row.at, times.get(row.at) + 1);
    this.places = [...times].sort((one, other) => other[1] - one[1]).map(([at]) => ({ at, ...site.places[at] }));
    this.varying = varyingParams(site.places);
  }

  follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    this.show((name) => asked.get(name));
  }

  /** Each choice leaves some places; the next is among what they have. */
  show(asked) {
    let left = this.places;
    for (const name of CHOICES) left = narrowed(left, this.form.elements[name], (place) => place[name] ?? "", asked(name));
    const several = (name) => distinct(left.map((place) => place.params[name])).length > 1;
    const params = (this.varying.get(left[0].suite) ?? []).filter(several);
    const box = byId("params");
    if (box.dataset.names !== params.join()) {
      box.dataset.names = params.join();
      box.replaceChildren(...params.map((name) => el("label", {}, `${name} `, el("select", { name: `p.${name}` }))));
    }
    for (const name of params) {
      left = narrowed(left, this.form.elements[`p.${name}`], (place) => place.params[name], asked(`p.${name}`));
    }
    this.place = left[0];
    this.tell();
  }

  choose() {
    const chosen = new FormData(this.form);
    this.show((name) => chosen.get(name));
    history.replaceState(null, "", new URL(historyLink(this.place), location.href));
  }

  tell() {
    const { place } = this;
    const points = pointsOf(this.site, place.at);
    const drawn = points.filter((point) => point.drawn);
    const machines = distinct(drawn.map((point) => point.run.machine));
    const params = paramsText(place.params, this.varying.get(place.suite) ?? []);
    const where = `${place.engine} in ${placeText(place.phase, place.tier)}${params ? `, ${params}` : ""}`;
    const on = machines.length > 1 ? ` on ${machines.length} machines` : "";
    byId("headline").textContent = `${where}: ${plural(points.length, "run")}${on}.`;
    document.title = `${where}: its history by Dyno`;
    byId("about").replaceChildren(...about(points));
    byId("points").replaceChildren(...table("The history as a table", null, HEADS, points.map(lineOf)).children);
    this.records = drawn.map(recordOf);
    const empty = document.querySelector("#chart .empty");
    empty.hidden = drawn.length > 0;
    empty.textContent = "No run has a valid figure of it, with a date: the table says why.";
    const told = `${where}, over time: ${plural(drawn.length, "point")}. The table below has them all.`;
    this.canvas.setAttribute("aria-label", told);
    this.draw();
  }

  /** One drawing at a time, of the newest choice. */
  draw() {
    this.turn = this.turn.then(() => this.redraw()).catch((error) => {
      this.canvas.textContent = `The chart could not be drawn: ${error.message}. The table has its figures.`;
    });
    return this.turn;
  }

  async redraw() {
    const look = this.printing || !isDark() ? "light" : "dark";
    const width = Math.max(Math.floor(this.canvas.clientWidth), NARROWEST);
    const wanted = JSON.stringify([look, width, this.records]);
    if (wanted === this.drawn) return;
    this.drawn = wanted;
    this.view?.finalize();
    this.view = null;
    this.canvas.replaceChildren();
    if (!this.records.length) return;
    this.embed ??= await charting();
    const spec = structuredClone(this.site.specs[this.records[0].unit]);
    spec.layer = filled(spec.layer, this.records);
    tellMachines(spec.layer, distinct(this.records.map((record) => record.machine)), width);
    spec.encoding.x.axis.format = dayFormat(this.records);
    const inner = this.canvas.appendChild(el("div", { "aria-hidden": "true" }));
    const found = await this.embed(
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
    this.view = found.view;
  }

  watch() {
    this.form.addEventListener("change", () => this.choose());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", () => this.follow());
    addEventListener("resize", calmed(() => this.draw(), 150));
    for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
      addEventListener(event, () => {
        this.printing = printing;
        this.draw();
      });
    }
    watchTheme(() => this.draw());
  }
}

/** The layers of which the records have something. */
function filled(layers, records) {
  return layers
    .filter(({ name }) => !name || records.some((record) => record[name] !== null))
    .map((one) => (one.layer ? { ...one, layer: filled(one.layer, records) } : one));
}

/** Leaves out of the legend the machines that are not shown, whose colours stay theirs. */
function tellMachines(part, machines, width) {
  for (const inner of Object.values(part)) {
    if (inner && typeof inner === "object") tellMachines(inner, machines, width);
  }
  if (part.field !== "machine" || !part.legend) return;
  part.legend.values = machines;
  part.legend.labelLimit = width - LEGEND_MARGIN;
}

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/** As fine as the ticks will be. */
function dayFormat(records) {
  const days = records.map((record) => Date.parse(record.day));
  const span = Math.max(...days) - Math.min(...days);
  if (span > 8 * DAY) return "%Y-%m-%d";
  return span > 10 * MINUTE ? "%m-%d %H:%M" : "%H:%M:%S";
}

const distinct = (values) => [...new Set(values)];

/** By suite: the parameters of which its places have several values. */
function varyingParams(places) {
  const found = new Map();
  for (const suite of distinct(places.map((place) => place.suite))) {
    const mine = places.filter((place) => place.suite === suite);
    const names = distinct(mine.flatMap((place) => Object.keys(place.params)));
    found.set(suite, names.filter((name) => distinct(mine.map((place) => place.params[name])).length > 1));
  }
  return found;
}

/** Fills a select with what the places have, and gives those of its value: what was asked for, or else the first. */
function narrowed(places, select, of, asked) {
  const values = distinct(places.map((place) => String(of(place))));
  const chosen = values.includes(asked) ? asked : values[0];
  values.sort(new Intl.Collator("en", { numeric: true }).compare);
  select.replaceChildren(...values.map((value) => el("option", { value }, value || UNKNOWN)));
  select.value = chosen;
  return places.filter((place) => String(of(place)) === chosen);
}

/** The runs that have the place, the newest first, each seen from the one before it on the same machine. */
function pointsOf({ runs, steps }, at) {
  const points = runs
    .map((run) => ({ run, row: run.rows.find((row) => row.at === at) }))
    .filter(({ row }) => row)
    .sort((one, other) => (one.run.created < other.run.created ? -1 : 1));
  const open = points.at(-1)?.row.open;
  const latest = new Map();
  for (const point of points) {
    const before = latest.get(point.run.machine);
    // What an open loop tells is a time, of which there is none in a closed one.
    point.drawn = Boolean(point.row.figure && point.run.created && point.row.open === open);
    if (!point.row.figure) continue;
    latest.set(point.run.machine, point);
    if (before) {
      point.before = before.run;
      point.change = changeOf(before.row, point.row, inTurns(before.run, point.run));
    }
  }
  for (const machine of distinct(points.map((point) => point.run.machine))) {
    const mine = points.filter((point) => point.drawn && point.run.machine === machine);
    for (const point of mine) point.step = stepAt(steps, at, point, mine.length);
  }
  return points.reverse();
}

/** The change of speed from this run on, if there is one: found over all runs of the machine, where these are enough
 * for it; else as the run differs from the one before. */
function stepAt(steps, at, point, runs) {
  if (runs < RULES.fewest_runs) {
    const verdict = point.change?.verdict;
    return verdict && CHANGES.includes(verdict.kind) ? { kind: verdict.kind, verdict } : null;
  }
  const found = steps.find(([place, run]) => place === at && run === point.run.name);
  if (!found || !CHANGES.includes(found[2])) return null;
  const [, , kind, ratio, before, after] = found;
  return { kind, ratio, before, after };
}

const figureOf = (row) => figureText(row, row.open ? "response-p99" : "throughput");
const bare = (row, value) => (row.open ? duration(value) : row.unit === "B" ? bandwidth(value) : rate(value));

function intervalOf({ figure: [, low, high], ...row }) {
  return low === null ? UNKNOWN : `${bare(row, low)} – ${bare(row, high)}`;
}

const CHANGES = ["faster", "slower"];

function recordOf(point) {
  const { run, row, change } = point;
  const [median, low, high] = row.figure;
  return {
    day: run.created, machine: run.machine, median, low, high, top: high ?? median, page: run.page,
    step: point.step?.kind ?? null,
    unit: row.open ? "time" : row.unit,
    run: run.name, created: run.day, figure: figureOf(row), interval: intervalOf(row),
    change: change ? `${verdictText(change.verdict)} (than ${point.before.name})` : UNKNOWN,
    dyno: run.dyno, version: row.version ?? UNKNOWN, remarks: row.remarks.join(", ") || "none",
  };
}

const HEADS = [
  ["run"], ["created, UTC", "day"], ["median", "number"], ["95 % interval", "number"], ["trials", "number"],
  ["against the run before on the same machine", "words"], ["machine", "machine"], ["dyno"],
  ["engine's version", "version"], ["remarks", "doubt"],
];

function lineOf(point) {
  const { run, row, before, change } = point;
  const compared = change
    ? el("a", { href: comparison(before, run), title: `compared with ${before.name}` }, verdictNode(change.verdict))
    : row.figure ? "the first" : UNKNOWN;
  const figures = row.figure
    ? [figureOf(row), intervalOf(row)]
    : [el("span", { class: "invalid" }, row.why ?? "no figure"), UNKNOWN];
  return [
    el("a", { href: run.page }, run.name), run.day, ...figures, String(row.trials), compared,
    run.machine, run.dyno, row.version ?? UNKNOWN, row.remarks.join(", "),
  ];
}

const comparison = (before, after) => `compare.html#${new URLSearchParams({ a: before.name, b: after.name })}`;

/** The latest figure, and the last step. */
function about(points) {
  const latest = points.find((point) => point.row.figure);
  if (!latest) return ["No run has a valid figure of it."];
  const { row, run } = latest;
  const told = [`The latest${run.created ? `, of ${run.day}` : ""}: ${figureOf(row)} [${intervalOf(row)}]. `];
  const steps = points.filter((point) => point.step);
  if (!steps.length) return [...told, noStep(points)];
  const [{ step, before, run: at }] = steps;
  const link = el("a", { href: comparison(before, at) }, `${at.name} than ${before.name}`);
  return [...told, `${plural(steps.length, "step")}, the last: `, link, `, ${stepText(step)}.`];
}

function noStep(points) {
  const most = Math.max(...distinct(points.map(({ run }) => run.machine)).map((machine) => pointsOn(points, machine)));
  if (most < RULES.fewest_runs) return "No run differs from the one before it on the same machine.";
  return "Its speed did not change from one part of the runs to the next, on any machine.";
}

const pointsOn = (points, machine) => points.filter((point) => point.drawn && point.run.machine === machine).length;

/** By how much: of one run against the one before it, or of all runs since against all before. */
function stepText({ kind, verdict, ratio, before, after }) {
  if (verdict) return verdictText(verdict);
  const percent = Math.abs(100 * (ratio - 1));
  return `${kind} by ${percent < 10 ? percent.toFixed(1) : Math.round(percent)} % (medians of ${before} runs before and ${plural(after, "run")} since)`;
}

themed(async () => {
  const page = new History(await runsOfSite());
  page.watch();
  page.follow();
  await page.turn;
  root.classList.add("ready");
});
