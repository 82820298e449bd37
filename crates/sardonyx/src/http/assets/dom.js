// Elements, made without markup: text is always text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

function put(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** An HTML element: h("p", {class: "x"}, "text", other). */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Puts other children into an element. */
export function show(element, ...children) {
  element.replaceChildren();
  put(element, children);
}

/** A number that a person can take in. */
export function count(n) {
  if (n >= 10e6) return `${(n / 1e6).toFixed(1)} M`;
  if (n >= 10e3) return `${(n / 1e3).toFixed(1)} k`;
  return String(Math.round(n));
}

/** One thing, several things. */
export function several(n, one, many) {
  return `${n} ${n === 1 ? one : many}`;
}

const COLOURS = 8;
const coloured = new Map();

/** Whose figures are shown, and which are missing. */
export function whose(sources) {
  const left = sources["left-out"];
  return [`on ${several(sources.nodes, "node", "nodes")}`,
    left > 0 && `without ${several(left, "task", "tasks")} of nodes that have too many to tell`,
    !sources.whole && "others could not be asked"].filter(Boolean).join("; ");
}

/** The colour of a job: the same wherever it is shown, and another for each of the first few. */
export function colour(job) {
  if (!coloured.has(job)) coloured.set(job, coloured.size % COLOURS);
  return `c${coloured.get(job)}`;
}

/** Runs `work` at most once in so many milliseconds, and always once more after the last call. */
export function calmly(milliseconds, work) {
  let timer = null;
  let again = false;
  const run = async () => {
    again = false;
    try { await work(); } finally {
      timer = setTimeout(() => { timer = null; if (again) call(); }, milliseconds);
    }
  };
  const call = () => { again = true; if (timer === null) { timer = -1; run(); } };
  return call;
}
