// What stands beside the figures in words: the doubts of each engine, and what the selection is.

/** Phases are called as in the overview: a suite may have given them another name. */
const phaseName = (run, phase) => run.names[phase] ?? phase;

function placeName(run, state, spans = []) {
  const params = Object.entries(state.params).filter(([name]) => !spans.includes(name));
  return [placeText(phaseName(run, state.phase), state.tier, " at "), ...params.map(([name, value]) => `${name} ${value}`)].join(", ");
}

/** Under a chart: every engine that it shows whose figures carry a doubt, and the doubts. */
function fillNotes(list, run, state, spans, records) {
  const drawn = new Set(records.flatMap((record) => [record.engine, record.baseline]));
  const said = new Map();
  for (const found of run.rows) {
    if (!isHere(found, state, spans) || !drawn.has(found.engine)) continue;
    const remarks = [...found.doubts, ...(found.why ? [`no number: ${found.why}`] : [])];
    const params = spans.filter((name) => name in found.params).map((name) => `${name} ${found.params[name]}`);
    if (remarks.length) said.set([found.engine, ...params].join(", "), remarks);
  }
  const lines = [...said].map(([who, remarks]) => el("li", {}, el("b", {}, who), `: ${remarks.join("; ")}`));
  list.replaceChildren(...lines);
  list.parentElement.hidden = !lines.length;
}

/** For the live region: what is shown now, and its best. */
function selectionText(run, state) {
  if (!state.engines.length) return "No engine is chosen.";
  const here = run.rows.filter((found) => isHere(found, state) && state.engines.includes(found.engine));
  const valid = here.filter((found) => found.rate !== null);
  const engines = `${valid.length} of ${here.length} engine${here.length === 1 ? "" : "s"} with a figure`;
  return `Showing ${placeName(run, state)}: ${engines}; ratios against ${baselineOf(run, state) ?? "none"}.`;
}
