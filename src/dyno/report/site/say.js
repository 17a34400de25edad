// Verdicts and figures in words: dyno.report.words in Python.

let METRICS = {};

/** As Python's 'g' writes it. */
function general(value, digits) {
  const exponent = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
  if (exponent >= -4 && exponent < digits) return String(Number(value.toPrecision(digits)));
  const [number, power] = Number(value.toPrecision(digits)).toExponential().split("e");
  return `${number}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

// A bound that is rounded stays true: the least down, the most up.
function least(share) {
  const found = percent(share, Math.floor);
  return found === "0 %" ? `over ${found}` : `at least ${found}`;
}

const most = (share) => percent(share, Math.ceil);

function percent(share, rounding) {
  const value = share * 100;
  return `${general(rounded(value, value >= 10 ? 0 : value >= 1 ? 1 : 2, rounding), 6)} %`;
}

function times(factor) {
  const digits = factor >= 10 ? 0 : 1;
  const found = rounded(factor, digits, Math.floor);
  return digits ? found.toFixed(digits) : grouped.format(found);
}

function rounded(value, digits, rounding) {
  const step = 10 ** digits;
  // 0.29 * 100 is a little less than 29.
  return rounding(Number((value * step).toFixed(6))) / step;
}

function verdictText(found) {
  if (found.kind === "unclear") return `can't tell, needs ${moreText(found)}`;
  if (found.kind === "alike") return `no difference larger than ${most(found.bound)}`;
  if (found.kind === "faster" && found.low >= RULES.twice) return `at least ${times(found.low)} times as fast`;
  if (found.kind === "slower" && found.high <= 1 / RULES.twice) {
    return `slower by a factor of at least ${times(1 / found.high)}`;
  }
  return `${found.kind} by ${least(found.bound)}`;
}

function moreText({ blocks, more }) {
  const samples = `more sample${more === 1 ? "" : "s"}`;
  if (blocks < RULES.fewest) return `${more} ${samples}, ${RULES.fewest} in all at least`;
  return more === null ? "a quieter machine, or thousands of samples" : `about ${grouped.format(more)} ${samples}`;
}

function ratioText(value) {
  if (value === null) return UNKNOWN;
  if (value >= 99.5) return grouped.format(value);
  if (value >= 10 || value < 0.1) return general(value, 3);
  return value < 2 ? value.toFixed(3) : value.toFixed(2);
}

const intervalText = ({ low, high }) => (low === null ? UNKNOWN : `${ratioText(low)} – ${ratioText(high)}`);

const level = () => `${RULES.confidence * 100} %`;

/** Items a second, or bytes. */
const rateText = (value, unit) => (unit === "B" ? bandwidth(value) : `${rate(value)} ${unit}/s`);

/** A row's median over trials by a metric. */
function figureText({ open, figure, rate: found, unit }, metric) {
  if (metric === "throughput") return found === null ? UNKNOWN : rateText(found, unit);
  return open ? duration(figure[0]) : UNKNOWN;
}

const paramsText = (params, names) => names.map((name) => `${name}=${python(params[name])}`).join(" ");

const python = (value) => (value === true ? "True" : value === false ? "False" : String(value));

const plural = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

/** A table in a region that scrolls; each head is a name and a class, each cell a text or a node. */
function table(label, caption, heads, rows) {
  const cell = (content, at) => {
    const kind = { class: heads[at][1] };
    return at === 0 ? el("th", { scope: "row", ...kind }, content) : el("td", kind, content);
  };
  const head = heads.map(([title, kind]) => el("th", { scope: "col", class: kind }, title));
  const body = rows.map((cells) => el("tr", {}, ...cells.map(cell)));
  const made = el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
  if (caption) made.prepend(el("caption", {}, ...caption));
  return el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, made);
}

/** A verdict with a sign, so that colour is not alone. */
function verdictNode(found) {
  const sign = { faster: "▲", slower: "▼", alike: "=", unclear: "?" }[found.kind];
  const beside = el("span", { class: "sign", "aria-hidden": "true" }, sign);
  return el("span", { class: `verdict ${found.kind}` }, beside, ` ${verdictText(found)}`);
}

const historyLink = (place) =>
  `history.html#${new URLSearchParams({
    suite: place.suite,
    phase: place.phase,
    engine: place.engine,
    tier: place.tier ?? "",
    ...Object.fromEntries(Object.entries(place.params).map(([name, value]) => [`p.${name}`, value])),
  })}`;
