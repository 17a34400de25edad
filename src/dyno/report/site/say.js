// Verdicts and figures in words: dyno.report.tables.wording in Python.

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
  if (more === null) return "a quieter machine, or thousands of samples";
  return `about ${more < 100 ? more : twoDigits(more, Math.ceil)} ${samples}`;
}

/** A ratio: at most three digits after the point around 1, and fewer if its interval is wide. */
function ratioFigure(value, width = 0) {
  if (value === null) return UNKNOWN;
  if (width > 0 && value > 0) {
    const allowed = Math.floor(Math.log10(RULES.fineness / width));
    const usual = value >= 99.5 ? 0 : value >= 10 ? 1 : value >= 2 ? 2 : 3;
    if (allowed < usual) return fixed(Number(`${Math.round(`${value}e${allowed}`)}e${-allowed}`), allowed);
  }
  if (value >= 99.5) return grouped.format(value);
  if (value >= 10 || value < 0.1) return general(value, 3);
  return value < 2 ? value.toFixed(3) : value.toFixed(2);
}

function fixed(value, digits) {
  const fractions = Math.max(digits, 0);
  return value.toLocaleString("en-US", { minimumFractionDigits: fractions, maximumFractionDigits: fractions });
}

const wide = (low, high) => high > low * RULES.wide;

function twoDigits(value, rounding) {
  if (value <= 0) return "0";
  const digits = 1 - Math.floor(Math.log10(value));
  return fixed(rounded(value, digits, rounding), digits);
}

/** The ratio, as precise as its interval allows; of a wide interval the end nearer to 1, if any. */
function ratioText({ ratio, low, high }) {
  if (low === null) return ratioFigure(ratio);
  if (!wide(low, high)) return ratioFigure(ratio, high - low);
  if (low > 1) return `≥ ${twoDigits(low, Math.floor)}`;
  return high < 1 ? `≤ ${twoDigits(high, Math.ceil)}` : UNKNOWN;
}

function intervalText({ low, high }) {
  if (low === null) return UNKNOWN;
  if (wide(low, high)) return `${twoDigits(low, Math.floor)} – ${twoDigits(high, Math.ceil)}`;
  return `${ratioFigure(low, high - low)} – ${ratioFigure(high, high - low)}`;
}

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
