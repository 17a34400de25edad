// A chart's figures as a table, sorted by a click on a column.

const grouped = (count) => count.toLocaleString("en-US");

const SORTS = { none: "ascending", ascending: "descending", descending: "none" };

function fillTable(region, chart, every, caption, most) {
  const columns = chart.columns.filter((column) => every.some((record) => filled(record[column.key])));
  const records = every.slice(0, most);
  const text =
    every.length > most ? `${caption}. The first ${grouped(most)} of ${grouped(every.length)} rows: the CSV has all` : caption;
  const body = el("tbody", {}, ...records.map((record) => row(record, columns)));
  const heads = columns.map((column) => heading(column, columns, body, records));
  const table = el("table", {}, el("caption", {}, text), el("thead", {}, el("tr", {}, ...heads)), body);
  region.replaceChildren(table);
}

const isNumber = (kind) => kind !== "text";

/** Text of a cell in a chart's table. The texts of figures are part of the record. */
function cellText(record, column) {
  return isNumber(column.kind) ? record.texts[column.key] ?? UNKNOWN : record[column.key] ?? "";
}

const filled = (value) => value !== null && value !== undefined && value !== "";

function row(record, columns) {
  const cells = columns.map((column, at) => {
    const text = cellText(record, column);
    const kind = isNumber(column.kind) ? "number" : column.key === "remarks" || column.key === "why" ? "doubt" : null;
    return at === 0 ? el("th", { scope: "row" }, text) : el("td", { class: kind }, text);
  });
  return el("tr", {}, ...cells);
}

function heading(column, columns, body, records) {
  const button = el("button", { type: "button", class: "sort" }, column.title);
  const head = el("th", { scope: "col", class: isNumber(column.kind) ? "number" : null }, button);
  button.addEventListener("click", () => {
    const sort = SORTS[head.getAttribute("aria-sort") ?? "none"];
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    if (sort !== "none") head.setAttribute("aria-sort", sort);
    body.replaceChildren(...sorted(records, column, sort).map((record) => row(record, columns)));
  });
  return head;
}

/** Sorts the records; unknown figures come last in either order. */
function sorted(records, column, sort) {
  if (sort === "none") return records;
  const way = sort === "ascending" ? 1 : -1;
  return [...records].sort((one, other) => {
    const [mine, theirs] = [one[column.key], other[column.key]];
    if (!filled(mine) || !filled(theirs)) return filled(theirs) - filled(mine);
    return way * (isNumber(column.kind) ? mine - theirs : String(mine).localeCompare(String(theirs)));
  });
}

/** Puts an apostrophe before a text that a spreadsheet would evaluate, as the CSV of `dyno show` does. */
function inert(text) {
  const live = /^[=+\-@\t\r\n＝＋－＠]/.test(text) && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text);
  return live ? `'${text}` : text;
}

/** The figures as CSV, neither rounded nor with units. */
function asCsv(chart, records) {
  const quoted = (value) => {
    const text = filled(value) ? inert(String(value)) : "";
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const params = [...new Set(records.flatMap((record) => Object.keys(record.params)))];
  const keys = [...new Set(["phase", "tier", ...chart.columns.map((column) => column.key)])];
  const lines = records.map((record) => [...keys.map((key) => record[key]), ...params.map((p) => record.params[p])]);
  return [[...keys, ...params.map((name) => `param_${name}`)], ...lines]
    .map((line) => `${line.map(quoted).join(",")}\n`)
    .join("");
}
