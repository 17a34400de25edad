// Shared by the pages that compare runs: their data, tables and verdicts.

/** The page's data. It refers to places, runs and remarks by number. */
async function siteData() {
  const site = JSON.parse(await unpackText("data"));
  UNKNOWN = site.unknown;
  return site;
}

const paramsText = (params, names) => names.map((name) => `${name}=${params[name]}`).join(" ");

const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** A table in a scrolling region. A head is a name and a class, a cell a text or a node. */
function table(label, caption, heads, rows) {
  const cell = (content, at) => {
    const kind = { class: heads[at][1] };
    return at === 0 ? el("th", { scope: "row", ...kind }, content) : el("td", kind, content);
  };
  const head = heads.map(([title, kind]) => el("th", { scope: "col", class: kind }, title));
  const body = rows.map((cells) => el("tr", {}, ...cells.map(cell)));
  const content = el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
  if (caption) content.prepend(el("caption", {}, ...caption));
  return el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": label }, content);
}

/** A verdict with a sign: colour alone would not be enough. */
function verdictNode([kind, text]) {
  const sign = { faster: "▲", slower: "▼", alike: "=", unclear: "?" }[kind];
  const beside = el("span", { class: "sign", "aria-hidden": "true" }, sign);
  return el("span", { class: `verdict ${kind}` }, beside, ` ${text}`);
}
