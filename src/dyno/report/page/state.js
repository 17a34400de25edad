// The selection: one run, phase, tier and value of each parameter; some engines; a baseline. It is kept in the
// address after the #, so that a view can be linked.

const BEST = "";

/** The default selection of a run: the place of its first answer. */
function initial(run, at) {
  return {
    run: at,
    phase: run.start.phase,
    tier: run.start.tier,
    params: { ...run.start.params },
    engines: run.engines.filter((engine) => !engine.floor).map((engine) => engine.name),
    baseline: BEST,
  };
}

/** The selection as the address keeps it. Defaults are left out, except for the phase and the tier. */
function toHash(state, run) {
  const first = initial(run, state.run);
  const words = new URLSearchParams({ run: state.run, phase: state.phase, tier: state.tier });
  for (const [name, value] of Object.entries(state.params)) words.set(`p.${name}`, value);
  if (!same(state.engines, first.engines)) {
    words.set("engines", state.engines.length ? "some" : "none");
    for (const engine of state.engines) words.append("engine", engine);
  }
  if (state.baseline !== BEST) words.set("baseline", state.baseline);
  return `#${words}`;
}

/** The selection in an address. Missing and unknown parts get their defaults. */
function fromHash(hash, runs) {
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const at = runs[Number(words.get("run"))] ? Number(words.get("run")) : 0;
  const run = runs[at];
  const state = initial(run, at);
  const among = (name, values, otherwise) => (values.includes(words.get(name)) ? words.get(name) : otherwise);
  state.phase = among("phase", run.phases, state.phase);
  state.tier = among("tier", run.tiers, state.tier);
  for (const [name, values] of Object.entries(run.params)) {
    const chosen = values.find((value) => String(value) === words.get(`p.${name}`));
    if (chosen !== undefined) state.params[name] = chosen;
  }
  if (words.has("engines")) {
    const chosen = words.getAll("engine");
    state.engines = run.engines.map((engine) => engine.name).filter((name) => chosen.includes(name));
  }
  state.baseline = among("baseline", run.engines.map((engine) => engine.name), BEST);
  return state;
}

/** Whether a record or row is of the selected place. All values of the parameters in `spans` are. */
function isHere(record, state, spans = []) {
  return (
    record.phase === state.phase &&
    (record.tier ?? "") === state.tier &&
    Object.entries(state.params).every(([name, value]) => spans.includes(name) || record.params[name] === value)
  );
}

/** The baseline of the ratios. */
function baselineOf(run, state) {
  const here = run.rows.filter((row) => isHere(row, state));
  if (run.baselines && state.baseline !== BEST && here.some((row) => row.engine === state.baseline && row.rate !== null)) {
    return state.baseline;
  }
  return here.find((row) => row.best)?.engine;
}

/** The records of the first `most` engines. */
function best(records, most) {
  const engines = new Set([...new Set(records.map((record) => record.engine))].slice(0, most));
  return records.filter((record) => engines.has(record.engine));
}

/** The key of a chart's specification. */
const unitOf = (record) => (record.unit ?? "op/s").replace(/\/s$/, "");

/** The selected records of a chart: none if only another run of the page has the chart. */
function selected(run, chart, state) {
  const baseline = baselineOf(run, state);
  return (run.records[chart.name] ?? []).filter(
    (record) =>
      isHere(record, state, chart.spans) &&
      state.engines.includes(record.engine) &&
      (record.baseline === undefined || record.baseline === baseline),
  );
}
