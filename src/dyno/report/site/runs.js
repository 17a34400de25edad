// The runs as the data has them, and two of them against each other: dyno.stats.two_runs in Python.

/** Unpacks the page's data, sets the rules of the statistics, and gives names back to what is numbered. */
async function runsOfSite() {
  const data = JSON.parse(await unpackText("data"));
  UNKNOWN = data.unknown;
  RULES = data.rules;
  METRICS = data.metrics;
  const row = (values) => {
    const found = Object.fromEntries(values.map((value, at) => [data.columns[at], value]));
    const remarks = found.remarks.map((remark) => data.remarks[remark]);
    return { ...found, at: found.place, place: data.places[found.place], remarks };
  };
  const fact = (id) => {
    const [where, what, value] = data.facts[id];
    return { id, where, what, value };
  };
  const runs = data.runs.map((run) => ({ ...run, rows: run.rows.map(row), facts: run.facts.map(fact) }));
  return { ...data, runs };
}

/** What was asked for and on what machine, where the two are not the same. Of engines, those that both have. */
function differences(before, after) {
  const key = ({ where, what }) => JSON.stringify([where, what]);
  const [old, now] = [before, after].map((run) => new Map(run.facts.map((fact) => [key(fact), fact])));
  const [olds, nows] = [before, after].map((run) => new Set(run.facts.map((fact) => fact.where)));
  const order = [...new Set([...olds, ...nows])];
  const always = ["machine", "dyno", "plan"];
  return [...new Set([...old.keys(), ...now.keys()])]
    .map((name) => ({ ...(old.get(name) ?? now.get(name)), before: old.get(name), after: now.get(name) }))
    .filter(({ where }) => always.includes(where) || (olds.has(where) && nows.has(where)))
    .filter((found) => found.before?.id !== found.after?.id)
    .map((found) => ({ ...found, before: found.before?.value ?? null, after: found.after?.value ?? null }))
    .sort((one, other) => order.indexOf(one.where) - order.indexOf(other.where));
}

/** Each row that both have, what was lost, and what is new. */
function between(before, after) {
  const [old, now] = [before, after].map((run) => new Map(run.rows.map((row) => [row.at, row])));
  const paired = inTurns(before, after);
  const valid = before.rows.filter((row) => row.why === null);
  const has = (row) => row !== undefined && row.why === null;
  const both = valid.filter((row) => has(now.get(row.at)));
  const lost = valid.filter((row) => !has(now.get(row.at)));
  return {
    paired,
    common: [...old.keys()].some((at) => now.has(at)),
    changes: both.map((row) => changeOf(row, now.get(row.at), paired)).filter(Boolean),
    lost: lost.map((row) => ({ row, why: now.get(row.at)?.why ?? "not in the run" })),
    fresh: after.rows.filter((row) => has(row) && !has(old.get(row.at))),
  };
}

/** Whether block after block of both was measured next to that of the same number in the other. */
function inTurns(before, after) {
  const order = [before, after]
    .flatMap((run, which) => run.starts.map(([block, began]) => ({ which, block, began })))
    .sort((one, other) => one.began - other.began);
  const couples = order.filter((_, at) => at % 2 === 0).map((one, at) => [one, order[2 * at + 1]]);
  const alike = couples.every(([one, other]) => other && one.which !== other.which && one.block === other.block);
  return alike && couples.length >= RULES.fewest && new Set(order.map((one) => one.began)).size === order.length;
}

/** Null where one of them has nothing to be compared by. */
function changeOf(before, after, paired = false) {
  const metric = before.open && after.open ? "response-p99" : "throughput";
  const [old, now] = [before, after].map((row) => new Map(metric === "throughput" ? row.throughput : row.response));
  if (!old.size || !now.size) return null;
  const verdict = paired ? inBlocks(old, now) : asWholes([...old.values()], [...now.values()]);
  return { before, after, metric, verdict };
}

function inBlocks(old, now) {
  const ratios = [...now].filter(([block]) => old.has(block)).map(([block, value]) => value / old.get(block));
  return judge(ratios.length >= RULES.fewest ? center(ratios) : null, median(ratios), ratios.length);
}

function asWholes(old, now) {
  const fewest = Math.min(old.length, now.length);
  return judge(fewest >= RULES.fewest ? apart(now, old) : null, median(now) / median(old), fewest);
}
