// Elements, and what is packed into the page.

let UNKNOWN = "–";

const byId = (id) => document.getElementById(id);

/** An element with attributes and children; text is always set as text. */
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** The bytes of a part: base64 of gzip in a script element that is none. */
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

/** A phase, and its tier if it has one. */
const placeText = (phase, tier, between = ", ") => (tier ? `${phase}${between}tier ${tier}` : phase);

let library = null;

/** Vega-Embed, run when the first chart is drawn. */
function charting() {
  library ??= run(byId("library")).then(() => {
    const { vegaEmbed } = window;
    delete window.vegaEmbed;
    return vegaEmbed;
  });
  return library;
}

/** The library is packed into the page, whose policy knows it by its hash; or it is a file beside it. */
async function run({ dataset, id }) {
  const script = el("script", { src: dataset.src });
  if (!dataset.src) script.textContent = await unpackText(id);
  await new Promise((done, failed) => {
    script.addEventListener("load", done);
    script.addEventListener("error", () => failed(new Error(`${dataset.src} is not there`)));
    document.head.append(script);
    if (!dataset.src) done();
  });
}

/** What scrolls sideways must be in reach of the keyboard, and what does not is not in its way. */
function reach(box) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  else box.removeAttribute("tabindex");
}

function reachAll() {
  document.querySelectorAll(".scroll, .plot").forEach(reach);
}

/** Calls `work` once, when it has not been asked for again for a while. */
function calmed(work, milliseconds) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(work, milliseconds);
  };
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
