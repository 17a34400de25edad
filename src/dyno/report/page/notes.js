// Words beside the figures: the doubts of each engine, and the selection.

/** The name of a phase as in the overview, which a suite may have changed. */
const phaseName = (run, phase) => run.names[phase] ?? phase;

function placeName(run, state, spans = []) {
  const params = Object.entries(state.params).filter(([name]) => !spans.includes(name));
  return [placeText(phaseName(run, state.phase), state.tier, " at "), ...params.map(([name, value]) => `${name} ${value}`)].join(", ");
}

/** Fills the list below a chart: each engine in it that has doubts, with the doubts. */
function fillNotes(list, run, state, spans, records) {
  const drawn = new Set(records.flatMap((record) => [record.engine, record.baseline]));
  const doubts = new Map();
  for (const row of run.rows) {
    if (!isHere(row, state, spans) || !drawn.has(row.engine)) continue;
    const remarks = [...row.doubts, ...(row.why ? [`no number: ${row.why}`] : [])];
    const params = spans.filter((name) => name in row.params).map((name) => `${name} ${row.params[name]}`);
    if (remarks.length) doubts.set([row.engine, ...params].join(", "), remarks);
  }
  const lines = [...doubts].map(([name, remarks]) => el("li", {}, el("b", {}, name), `: ${remarks.join("; ")}`));
  list.replaceChildren(...lines);
  list.parentElement.hidden = !lines.length;
}

/** Text of the live region: the selection and the baseline. */
function selectionText(run, state) {
  if (!state.engines.length) return "No engine is chosen.";
  const here = run.rows.filter((row) => isHere(row, state) && state.engines.includes(row.engine));
  const valid = here.filter((row) => row.rate !== null);
  const engines = `${valid.length} of ${here.length} engine${here.length === 1 ? "" : "s"} with a figure`;
  return `Showing ${placeName(run, state)}: ${engines}; ratios against ${baselineOf(run, state) ?? "none"}.`;
}
