// Figures as text, the same as dyno.report.tables.units in Python.

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

const counted = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

function threeDigits(value) {
  if (value < 9.995) return value.toFixed(2);
  return value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

function rate(value) {
  return value >= 100 ? grouped.format(value) : String(Number(value.toPrecision(3)));
}

function duration(ns) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= size * 0.9995) return `${threeDigits(ns / size)} ${unit}`;
  }
  return `${ns.toFixed(0)} ns`;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let left = value;
  while (left >= 999.5 && units.length > 1) {
    left /= 1024;
    units.shift();
  }
  return `${units[0] === "B" ? value : threeDigits(left)} ${units[0]}`;
}

/** Bytes a second. */
function bandwidth(value) {
  const [size, unit] = value >= 999.5e6 ? [1e9, "GB/s"] : [1e6, "MB/s"];
  const scaled = value / size;
  return `${scaled < 99.95 ? Number(scaled.toPrecision(3)) : grouped.format(scaled)} ${unit}`;
}

function ratio(value) {
  if (value >= 99.5) return grouped.format(value);
  if (value >= 10 || value < 0.1) return String(Number(value.toPrecision(3)));
  return value < 2 ? value.toFixed(3) : value.toFixed(2);
}

const WRITE = {
  text: String,
  rate,
  bandwidth,
  ns: duration,
  bytes,
  ratio,
  count: (value) => counted.format(value),
  seconds: (value) => `${Number(value.toPrecision(4))} s`,
  percent: (value) => `${Number(value.toPrecision(3))} %`,
};

/** Text of a cell in a chart's table. In a column of kind "own", the record says how it is written. */
function cellText(record, column) {
  return written(record[column.key], column.kind === "own" ? record.write : column.kind);
}

const isNumber = (kind) => kind !== "text";

function written(value, kind) {
  if (value === null || value === undefined || value === "") return isNumber(kind) ? UNKNOWN : "";
  return WRITE[kind](value);
}
