// Any two runs: what differs between them first, then each row that both have.

const KINDS = [
  ["", "all rows"],
  ["faster", "faster"],
  ["slower", "slower"],
  ["alike", "equally fast"],
  ["unclear", "can't tell"],
];

class Compare {
  constructor(site) {
    this.runs = site.runs;
    this.form = byId("filters");
    const newest = [...site.runs].sort((one, other) => (one.created < other.created ? 1 : -1));
    this.options = newest.map((run) => [run.name, `${run.name} (${run.suite}, ${run.day})`]);
    this.newest = newest;
    const { elements } = this.form;
    fill(elements.a, this.options);
    fill(elements.b, this.options);
    fill(elements.kind, KINDS);
  }

  run(name) {
    return this.runs.find((run) => run.name === name);
  }

  /** The two of the address; of what it does not say, the newest pair of one suite. */
  follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const newest = (wanted) => this.newest.find(wanted);
    const after = this.run(asked.get("b")) ?? newest((run) => run.name !== asked.get("a")) ?? this.newest[0];
    const before = this.run(asked.get("a")) ?? newest((run) => run !== after && run.suite === after.suite) ?? after;
    const kind = KINDS.some(([name]) => name === asked.get("kind")) ? asked.get("kind") : "";
    this.strange = ["a", "b"].map((name) => asked.get(name)).filter((name) => name !== null && !this.run(name));
    this.show(before, after, kind);
  }

  choose(a, b, kind) {
    history.replaceState(null, "", `#${new URLSearchParams({ a, b, ...(kind ? { kind } : {}) })}`);
    this.follow();
  }

  show(before, after, kind) {
    const { elements } = this.form;
    [elements.a.value, elements.b.value, elements.kind.value] = [before.name, after.name, kind];
    const found = between(before, after);
    const refused = refusal(before, after, found);
    document.title = `${before.name} and ${after.name}: compared by Dyno`;
    byId("headline").textContent = refused ?? headline(found);
    byId("about").replaceChildren(
      el("a", { href: before.page }, before.name), ` of ${before.day} before, `,
      el("a", { href: after.page }, after.name), ` of ${after.day} after. `,
    );
    this.against(before, after, found);
    this.differs(before, after);
    for (const id of ["rows-title", "reading", "rows"]) byId(id).hidden = refused !== null;
    byId("reading").textContent = reading(found);
    byId("rows").replaceChildren(...(refused ? [] : tablesOf(found, after.varying, kind)));
    this.gone(refused ? { lost: [], fresh: [] } : found, [...new Set([...before.varying, ...after.varying])]);
  }

  /** What makes any difference between the two doubtful. */
  against(before, after, found) {
    const incomplete = [before, after].filter((run) => run.incomplete);
    const lines = [
      ...this.strange.map((name) => `No run here is called ${name}: another is shown.`),
      ...incomplete.map((run) => `${run.name} is not complete: ${run.incomplete}.`),
      ...(before.machine === after.machine ? [] : [`Two machines: ${before.machine}; and ${after.machine}.`]),
      ...(before.name === after.name ? ["It is one run, compared with itself."] : []),
      ...(found.paired || before.name === after.name
        ? []
        : ["A drift of the machine from one run to the other is in the ratios and not in their intervals."]),
    ];
    byId("against").hidden = !lines.length;
    byId("against").querySelector("ul").replaceChildren(...lines.map((line) => el("li", {}, line)));
  }

  differs(before, after) {
    const rows = differences(before, after).map((found) => [
      found.where, found.what.replaceAll(".", " "), found.before ?? UNKNOWN, found.after ?? UNKNOWN,
    ]);
    const heads = [["where"], ["what"], ["before"], ["after"]];
    const same = "Nothing that is recorded: the same machine, plan, settings and versions.";
    const nothing = el("p", { class: "empty" }, same);
    byId("differs").replaceChildren(rows.length ? table("What differs", null, heads, rows) : nothing);
  }

  gone(found, varying) {
    const item = ({ place }, text) => {
      const params = varying.length ? `, ${paramsText(place.params, varying)}` : "";
      return el("li", {}, el("b", {}, place.engine), `, ${placeText(place.phase, place.tier)}${params}: ${text}`);
    };
    const lines = [
      ...found.lost.map(({ row, why }) => item(row, `only before; after: ${why}`)),
      ...found.fresh.map((row) => item(row, "only after")),
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

function refusal(before, after, found) {
  if (before.suite !== after.suite) {
    return `${before.name} is of suite ${before.suite} and ${after.name} of ${after.suite}: nothing to compare.`;
  }
  if (before.awake !== after.awake) {
    const [kept, other] = before.awake ? [before.name, after.name] : [after.name, before.name];
    return `${kept} was measured with the cores kept awake and ${other} without: nothing to compare.`;
  }
  return found.common ? null : "They have no engine with the same phase, tier and parameters.";
}

/** How many rows came out how. */
function headline({ changes }) {
  if (!changes.length) return "No row has a number in both.";
  const words = { faster: "faster", slower: "slower", alike: "equally fast", unclear: "can't tell" };
  const parts = Object.entries(words)
    .map(([kind, text]) => [text, changes.filter((change) => change.verdict.kind === kind).length])
    .filter(([, number]) => number)
    .map(([text, number], at) => `${text} in ${number}${at ? "" : ` of ${plural(changes.length, "row")}`}`);
  return `After against before: ${parts.join(", ")}.`;
}

function reading({ paired }) {
  const ratios = paired
    ? "The runs were measured in turns: ratios of speed, after to before, block by block"
    : "Ratios of speed, after to before";
  return (
    `${ratios}, with ${level()} intervals: of 100 comparisons between equals, one is called a difference by chance.` +
    ` Rows are called equal where a difference of over ${RULES.margin * 100} % can be ruled out.` +
    " Figures are medians over trials. An engine's name leads to its history."
  );
}

/** A table for each phase and tier, in the order of the run. */
function tablesOf({ changes }, varying, kind) {
  const groups = new Map();
  for (const change of changes.filter((one) => !kind || one.verdict.kind === kind)) {
    const { phase, tier } = change.after.place;
    const name = JSON.stringify([phase, tier, change.metric]);
    groups.set(name, [...(groups.get(name) ?? []), change]);
  }
  if (!groups.size) return [el("p", { class: "empty" }, "No row came out like that.")];
  const params = varying.length ? [["parameters"]] : [];
  const numbers = ["before", "after", "ratio", level()].map((title) => [title, "number"]);
  const heads = [["engine"], ...params, ...numbers, ["verdict", "words"], ["remarks", "doubt"]];
  return [...groups].map(([name, group]) => {
    const [phase, tier, metric] = JSON.parse(name);
    const by = metric === "throughput" ? "" : `by the ${METRICS[metric]}: a ratio over 1 is a shorter time`;
    const rows = group.map((change) => line(change, varying));
    const title = placeText(phase, tier);
    return table(title, [`${title} `, el("small", {}, by)], heads, rows);
  });
}

function line({ before, after, metric, verdict }, varying) {
  const { place } = after;
  return [
    el("a", { href: historyLink(place) }, place.engine),
    ...(varying.length ? [paramsText(place.params, varying)] : []),
    figureText(before, metric),
    figureText(after, metric),
    ratioText(verdict),
    intervalText(verdict),
    verdictNode(verdict),
    remarksOf(before, after).join("; "),
  ];
}

/** What is doubted of one of the figures is said with which one it is. */
function remarksOf(before, after) {
  const both = before.remarks.filter((remark) => after.remarks.includes(remark));
  const only = (row) => row.remarks.filter((remark) => !both.includes(remark)).join(", ");
  const [old, now] = [only(before), only(after)];
  return [both.join(", "), old && `before: ${old}`, now && `after: ${now}`].filter(Boolean);
}

themed(async () => {
  watchTheme(() => {});
  const page = new Compare(await runsOfSite());
  page.watch();
  page.follow();
  root.classList.add("ready");
});
