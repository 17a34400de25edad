// Two runs: first the differences between them, then each row that both have.

const KINDS = [
  ["", "all rows"],
  ["faster", "faster"],
  ["slower", "slower"],
  ["alike", "equally fast"],
  ["unclear", "can't tell"],
];

class Compare {
  constructor(site) {
    this.site = site;
    this.runs = site.runs.map((run, at) => ({ ...run, at, varying: site.varying[at], rows: rowsOf(site, at) }));
    this.form = byId("filters");
    const options = this.runs.map((run) => [run.name, `${run.name} (${run.suite}, ${run.day})`]);
    const { elements } = this.form;
    fill(elements.a, options);
    fill(elements.b, options);
    fill(elements.kind, KINDS);
  }

  run(name) {
    return this.runs.find((run) => run.name === name);
  }

  /** Shows the two runs of the address. Those it does not name are the newest two of one suite. */
  follow() {
    const words = new URLSearchParams(location.hash.slice(1));
    const newest = (matches) => this.runs.find(matches);
    const after = this.run(words.get("b")) ?? newest((run) => run.name !== words.get("a")) ?? this.runs[0];
    const before = this.run(words.get("a")) ?? newest((run) => run !== after && run.suite === after.suite) ?? after;
    const kind = KINDS.some(([name]) => name === words.get("kind")) ? words.get("kind") : "";
    this.unknown = ["a", "b"].map((name) => words.get(name)).filter((name) => name !== null && !this.run(name));
    this.show(before, after, kind);
  }

  choose(a, b, kind) {
    history.replaceState(null, "", `#${new URLSearchParams({ a, b, ...(kind ? { kind } : {}) })}`);
    this.follow();
  }

  show(before, after, kind) {
    const { elements } = this.form;
    [elements.a.value, elements.b.value, elements.kind.value] = [before.name, after.name, kind];
    const pair = between(this.site, before, after);
    const refused = refusal(before, after, pair);
    document.title = `${before.name} and ${after.name}: compared by Dyno`;
    byId("headline").textContent = refused ?? headline(pair);
    byId("about").replaceChildren(
      el("a", { href: before.page }, before.name), ` of ${before.day} before, `,
      el("a", { href: after.page }, after.name), ` of ${after.day} after. `,
    );
    this.against(before, after, pair);
    this.differs(before, after);
    for (const id of ["rows-title", "reading", "rows"]) byId(id).hidden = refused !== null;
    byId("reading").textContent = reading(this.site, pair);
    byId("rows").replaceChildren(...(refused ? [] : tablesOf(this.site, pair, after.varying, kind)));
    this.gone(refused ? { lost: [], added: [] } : pair, [...new Set([...before.varying, ...after.varying])]);
  }

  /** Reasons to doubt any difference between the two. */
  against(before, after, pair) {
    const incomplete = [before, after].filter((run) => run.incomplete);
    const lines = [
      ...this.unknown.map((name) => `No run here is called ${name}: another is shown.`),
      ...incomplete.map((run) => `${run.name} is not complete: ${run.incomplete}.`),
      ...(before.machine === after.machine ? [] : [`Two machines: ${before.machine}; and ${after.machine}.`]),
      ...(before.name === after.name ? ["The run is compared with itself."] : []),
      ...(pair.paired || before.name === after.name
        ? []
        : ["Drift of the machine between the runs is part of the ratios, but not of their intervals."]),
    ];
    byId("against").hidden = !lines.length;
    byId("against").querySelector("ul").replaceChildren(...lines.map((line) => el("li", {}, line)));
  }

  differs(before, after) {
    const rows = differences(this.site, before, after);
    const heads = [["where"], ["what"], ["before"], ["after"]];
    const same = "No recorded difference: the same machine, plan, settings and versions.";
    const nothing = el("p", { class: "empty" }, same);
    byId("differs").replaceChildren(rows.length ? table("What differs", null, heads, rows) : nothing);
  }

  gone(pair, varying) {
    const item = ({ place }, text) => {
      const params = varying.length ? `, ${paramsText(place.params, varying)}` : "";
      return el("li", {}, el("b", {}, place.engine), `, ${placeText(place.phase, place.tier)}${params}: ${text}`);
    };
    const lines = [
      ...pair.lost.map(({ row, why }) => item(row, `only before; after: ${why}`)),
      ...pair.added.map((row) => item(row, "only after")),
    ];
    byId("gone").hidden = !lines.length;
    byId("gone").querySelector("ul").replaceChildren(...lines);
  }

  watch() {
    const { elements } = this.form;
    this.form.addEventListener("change", () => this.choose(elements.a.value, elements.b.value, elements.kind.value));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    byId("swap").addEventListener("click", () => {
      this.choose(elements.b.value, elements.a.value, elements.kind.value);
    });
    addEventListener("hashchange", () => this.follow());
  }
}

function fill(select, values) {
  select.replaceChildren(...values.map(([value, text]) => el("option", { value }, text)));
}

function refusal(before, after, pair) {
  if (before.suite !== after.suite) {
    return `${before.name} is of suite ${before.suite} and ${after.name} of ${after.suite}: nothing to compare.`;
  }
  if (before.awake !== after.awake) {
    const [awake, other] = before.awake ? [before.name, after.name] : [after.name, before.name];
    return `${awake} was measured with the cores kept awake and ${other} without: nothing to compare.`;
  }
  if (!pair.common) return "The runs have no engine in common with the same phase, tier and parameters.";
  return pair.changes ? null : "The site compares its newest runs. For older ones, use dyno compare.";
}

/** The rows of a run, with their places and remarks. */
const rowsOf = (site, at) =>
  site.rows[at].map((row) => ({
    ...row,
    at: row.place,
    place: site.places[row.place],
    remarks: row.remarks.map((remark) => site.remarks[remark]),
  }));

/** Settings and facts that differ: where, what, before and after. Of engines, only those in both runs. */
function differences(site, before, after) {
  const facts = [before, after].map(
    (run) => new Map(site.run_facts[run.at].map((id) => [JSON.stringify(site.facts[id].slice(0, 2)), id])),
  );
  const wheres = facts.map((known) => new Set([...known.keys()].map((key) => JSON.parse(key)[0])));
  const order = [...new Set([...wheres[0], ...wheres[1]])];
  const shown = (where) => ["machine", "dyno", "plan"].includes(where) || (wheres[0].has(where) && wheres[1].has(where));
  const text = (known, key) => (known.has(key) ? site.facts[known.get(key)][2] : UNKNOWN);
  return [...new Set([...facts[0].keys(), ...facts[1].keys()])]
    .filter((key) => shown(JSON.parse(key)[0]) && facts[0].get(key) !== facts[1].get(key))
    .map((key) => [...JSON.parse(key), text(facts[0], key), text(facts[1], key)])
    .sort((one, other) => order.indexOf(one[0]) - order.indexOf(other[0]))
    .map(([where, what, ...values]) => [where, what.replaceAll(".", " "), ...values]);
}

/** Rows that both runs have, with their verdicts; rows that were lost; and rows that were added. `changes` is null if the
 * site has no verdicts on this pair. */
function between(site, before, after) {
  const [old, now] = [before, after].map((run) => new Map(run.rows.map((row) => [row.at, row])));
  const valid = (row) => row !== undefined && row.why === null;
  const rows = before.rows.filter(valid);
  const both = rows.filter((row) => valid(now.get(row.at)));
  const [paired, numbers] = site.pairs[`${before.at} ${after.at}`] ?? [false, null];
  const change = (row, at) => {
    const [verdict, ratio, interval] = numbers.slice(3 * at, 3 * at + 3);
    if (verdict < 0) return null;
    return {
      before: row,
      after: now.get(row.at),
      verdict: site.verdicts[verdict],
      ratio: site.texts[ratio],
      interval: site.texts[interval],
    };
  };
  return {
    paired,
    common: before.rows.some((row) => now.has(row.at)),
    changes: numbers && both.map(change).filter(Boolean),
    lost: rows
      .filter((row) => !valid(now.get(row.at)))
      .map((row) => ({ row, why: now.get(row.at)?.why ?? "not in the run" })),
    added: after.rows.filter((row) => valid(row) && !valid(old.get(row.at))),
  };
}

/** How many rows have which verdict. */
function headline({ changes }) {
  if (!changes.length) return "No row has a number in both.";
  const words = { faster: "faster", slower: "slower", alike: "equally fast", unclear: "can't tell" };
  const parts = Object.entries(words)
    .map(([kind, text]) => [text, changes.filter((change) => change.verdict[0] === kind).length])
    .filter(([, number]) => number)
    .map(([text, number], at) => `${text} in ${number}${at ? "" : ` of ${plural(changes.length, "row")}`}`);
  return `After against before: ${parts.join(", ")}.`;
}

function reading(site, { paired }) {
  const ratios = paired
    ? "The runs were measured in turns: ratios of speed, after to before, block by block"
    : "Ratios of speed, after to before";
  return (
    `${ratios}, with ${site.level} intervals: of 100 comparisons between equals, one is called a difference by chance.` +
    ` Rows are called equal where a difference of over ${site.margin} can be ruled out.` +
    " Figures are medians over trials. An engine's name leads to its history."
  );
}

/** A table for each phase and tier, in the order of the run. */
function tablesOf(site, { changes }, varying, kind) {
  const groups = new Map();
  for (const change of changes.filter((one) => !kind || one.verdict[0] === kind)) {
    const { phase, tier } = change.after.place;
    const name = JSON.stringify([phase, tier, isPaced(change)]);
    groups.set(name, [...(groups.get(name) ?? []), change]);
  }
  if (!groups.size) return [el("p", { class: "empty" }, "No row has this verdict.")];
  const params = varying.length ? [["parameters"]] : [];
  const numbers = ["before", "after", "ratio", site.level].map((title) => [title, "number"]);
  const heads = [["engine"], ...params, ...numbers, ["verdict", "words"], ["remarks", "doubt"]];
  return [...groups].map(([name, group]) => {
    const [phase, tier, paced] = JSON.parse(name);
    const by = paced ? `by the ${site.response}: a ratio over 1 is a shorter time` : "";
    const rows = group.map((change) => line(change, varying));
    const title = placeText(phase, tier);
    return table(title, [`${title} `, el("small", {}, by)], heads, rows);
  });
}

/** Whether two rows are compared by their response times. */
const isPaced = ({ before, after }) => before.paced && after.paced;

function line(change, varying) {
  const { before, after, verdict, ratio, interval } = change;
  const { place } = after;
  const metric = isPaced(change) ? "response" : "throughput";
  return [
    el("a", { href: place.link }, place.engine),
    ...(varying.length ? [paramsText(place.params, varying)] : []),
    before[metric],
    after[metric],
    ratio,
    interval,
    verdictNode(verdict),
    remarksOf(before, after).join("; "),
  ];
}

/** Remarks on both figures, and remarks on one of them with which one it is. */
function remarksOf(before, after) {
  const both = before.remarks.filter((remark) => after.remarks.includes(remark));
  const only = (row) => row.remarks.filter((remark) => !both.includes(remark)).join(", ");
  const [old, now] = [only(before), only(after)];
  return [both.join(", "), old && `before: ${old}`, now && `after: ${now}`].filter(Boolean);
}

themed(async () => {
  watchTheme(() => {});
  const page = new Compare(await siteData());
  page.watch();
  page.follow();
  root.classList.add("ready");
});
