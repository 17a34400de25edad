// What the pages that compare runs share: their data, and how they show it.

/** The page's data, in which places, runs and remarks are referred to by number. */
async function siteData() {
  const site = JSON.parse(await unpackText("data"));
  UNKNOWN = site.unknown;
  return site;
}

const paramsText = (params, names) => names.map((name) => `${name}=${params[name]}`).join(" ");

const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

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
function verdictNode([kind, text]) {
  const sign = { faster: "▲", slower: "▼", alike: "=", unclear: "?" }[kind];
  const beside = el("span", { class: "sign", "aria-hidden": "true" }, sign);
  return el("span", { class: `verdict ${kind}` }, beside, ` ${text}`);
}
