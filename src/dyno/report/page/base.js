// Helpers of all pages: elements, packed data, and the charting library.

let UNKNOWN = "–";

const byId = (id) => document.getElementById(id);

/** Creates an element with attributes and children. Strings become text, never HTML. */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Unpacks a part of the page: base64 of gzip in a script element that is not run. */
async function unpack(id) {
  const packed = atob(byId(id).textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

async function unpackText(id) {
  return new TextDecoder().decode(await unpack(id));
}

/** A phase with its tier, if it has one. */
const placeText = (phase, tier, between = ", ") => (tier ? `${phase}${between}tier ${tier}` : phase);

let library = null;

/** Vega-Embed, loaded when the first chart is drawn. */
function charting() {
  library ??= run(byId("library")).then(() => {
    const { vegaEmbed } = window;
    delete window.vegaEmbed;
    return vegaEmbed;
  });
  return library;
}

/** Runs the library: a file beside the page, or packed into it and allowed by its hash in the policy. */
async function run({ dataset, id }) {
  const script = el("script", { src: dataset.src });
  if (!dataset.src) script.textContent = await unpackText(id);
  await new Promise((done, failed) => {
    script.addEventListener("load", done);
    script.addEventListener("error", () => failed(new Error(`${dataset.src} is missing`)));
    document.head.append(script);
    if (!dataset.src) done();
  });
}

/** Makes a box focusable by keyboard only while it scrolls sideways. */
function reach(box) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

function reachAll() {
  document.querySelectorAll(".scroll, .plot").forEach(reach);
}

/** Returns a function that calls `work` once it has not been called again for this long. */
function debounced(work, milliseconds) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(work, milliseconds);
  };
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
