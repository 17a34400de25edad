// What may be said of a ratio: dyno.stats.estimate and dyno.stats.verdict in Python, by the same steps.

// The constants of both, which come with the data.
let RULES = null;

function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Of the logarithms of at least two positive values: their mean, trimmed where there are enough of them, its standard
 * error and degrees of freedom. */
function center(values) {
  const logs = values.map(Math.log).sort((one, other) => one - other);
  const off = logs.length >= RULES.fewest_trimmed ? Math.floor(logs.length * RULES.trimmed) : 0;
  const last = logs.length - off - 1;
  const kept = logs.slice(off, last + 1);
  const drawn = logs.map((_, at) => logs[Math.min(Math.max(at, off), last)]);
  const middle = mean(drawn);
  const squares = drawn.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  const degrees = kept.length - 1;
  return { log: mean(kept), error: Math.sqrt(squares / (kept.length * degrees)), degrees };
}

/** Of the ratio of two medians whose values are not paired: the degrees of freedom are those of Welch and
 * Satterthwaite. */
function apart(values, base) {
  const [one, other] = [center(values), center(base)];
  const variances = [one.error ** 2, other.error ** 2];
  const error = Math.sqrt(variances[0] + variances[1]);
  if (!error) return { log: one.log - other.log, error: 0, degrees: one.degrees + other.degrees };
  const degrees = error ** 4 / (variances[0] ** 2 / one.degrees + variances[1] ** 2 / other.degrees);
  return { log: one.log - other.log, error, degrees };
}

/** Student's t for the confidence, of any degrees of freedom from 1 up: by the series of dyno.stats.student. */
function twoSided(degrees) {
  const x = 2 / degrees - 1;
  let [sum, last] = [0, 0];
  for (const term of RULES.quantiles.slice(1).reverse()) [sum, last] = [2 * x * sum - last + term, sum];
  return Math.exp(x * sum - last + RULES.quantiles[0]);
}

const halfWidth = (found) => twoSided(found.degrees) * found.error;

/** The verdict on a ratio from so many blocks; `found` null where there are too few for an interval. */
function judge(found, ratio, blocks) {
  if (!found || blocks < RULES.fewest) {
    return { kind: "unclear", ratio: null, low: null, high: null, bound: null, blocks, more: RULES.fewest - blocks };
  }
  const half = halfWidth(found);
  // The median is in it: with few, skewed values it may lie outside one around the mean.
  const low = Math.min(Math.exp(found.log - half), ratio);
  const high = Math.max(Math.exp(found.log + half), ratio);
  const kind = kindOf(Math.log(low), Math.log(high));
  const bounds = { faster: low - 1, slower: 1 - high, alike: Math.max(high - 1, 1 / low - 1) };
  const more = kind === "unclear" ? moreBlocks(found, blocks) : null;
  return { kind, ratio, low, high, bound: bounds[kind] ?? null, blocks, more };
}

/** Of the logarithms of an interval. */
function kindOf(low, high) {
  if (low > 0) return "faster";
  if (high < 0) return "slower";
  return Math.max(high, -low) <= Math.log1p(RULES.margin) ? "alike" : "unclear";
}

/** The least further blocks with which the same center and the same spread would give a verdict; null where it would
 * take too many. */
function moreBlocks(found, blocks) {
  const tells = (more) => {
    const error = found.error / Math.sqrt((blocks + more) / blocks);
    const half = halfWidth({ error, degrees: found.degrees + more });
    return kindOf(found.log - half, found.log + half) !== "unclear";
  };
  let [low, high] = [0, 1];
  while (!tells(high)) {
    [low, high] = [high, high * 2];
    if (low > RULES.most_more) return null;
  }
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (tells(middle)) high = middle;
    else low = middle;
  }
  return high <= RULES.most_more ? high : null;
}
