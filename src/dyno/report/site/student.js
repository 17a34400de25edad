// Student's t: what dyno.stats.student is in Python, by the same steps. A test holds the two together.

const PRECISION = 1e-13;
const MOST_TERMS = 500;
const TINY = 1e-300;

// Of Lanczos's approximation, for g = 7.
const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
];

/** The logarithm of the gamma function, of a positive number from a half up. */
function lgamma(value) {
  const x = value - 1;
  const sum = LANCZOS.slice(1).reduce((total, term, at) => total + term / (x + at + 1), LANCZOS[0]);
  const t = x + LANCZOS.length - 1.5;
  return Math.log(2 * Math.PI) / 2 + (x + 0.5) * Math.log(t) - t + Math.log(sum);
}

const nonzero = (value) => (Math.abs(value) > TINY ? value : TINY);

/** A continued fraction by Lentz's method, from the front. */
function fraction(x, a, b) {
  let c = 1;
  let d = 1 / nonzero(1 - ((a + b) * x) / (a + 1));
  let value = d;
  for (let m = 1; m < MOST_TERMS; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    for (const term of [even, odd]) {
      d = 1 / nonzero(1 + term * d);
      c = nonzero(1 + term / c);
      value *= c * d;
    }
    if (Math.abs(c * d - 1) < PRECISION) break;
  }
  return value;
}

/** The regularized incomplete beta function. */
function beta(x, a, b) {
  if (x <= 0 || x >= 1) return Math.min(Math.max(x, 0), 1);
  if (x > (a + 1) / (a + b + 2)) return 1 - beta(1 - x, b, a);
  const front = lgamma(a + b) - lgamma(a) - lgamma(b) + a * Math.log(x) + b * Math.log1p(-x);
  return (Math.exp(front) * fraction(x, a, b)) / a;
}

/** The probability of a value above `t`, which is not negative. */
const tail = (t, degrees) => beta(degrees / (degrees + t * t), degrees / 2, 0.5) / 2;

const quantiles = new Map();

/** The t within which a share `confidence` of the distribution lies, on both sides together. */
function twoSided(confidence, degrees) {
  if (!quantiles.has(degrees)) quantiles.set(degrees, bisected((1 - confidence) / 2, degrees));
  return quantiles.get(degrees);
}

function bisected(wanted, degrees) {
  let [low, high] = [0, 2];
  while (tail(high, degrees) > wanted) [low, high] = [high, high * 2];
  while (high - low > PRECISION * high) {
    const middle = (low + high) / 2;
    if (middle === low || middle === high) break;
    if (tail(middle, degrees) > wanted) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
