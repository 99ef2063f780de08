// Elements. What comes from users ends in text nodes and attributes of known names, never in markup.
import { withRoot } from "./root_path.js";

const SVG = "http://www.w3.org/2000/svg";
const LOCAL = /^(\/(?!\/)|#|\?|blob:)/;

/** An HTML element. Attributes: `onclick: f` listens, `style: {width: "3px"}` sets properties, null and false are left out. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same of SVG. */
export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** A link within the dashboard or to the API. */
export function link(path, ...children) {
  return h("a", { href: path }, ...children);
}

/** Everything in `parent` gives way to these. */
export function fill(parent, ...children) {
  parent.replaceChildren(...nodes(children));
  return parent;
}

/** A path with its parts and query quoted: path`/v1/plans/${id}`. */
export function path(parts, ...values) {
  return parts.reduce((made, part, at) => made + encodeURIComponent(values[at - 1]) + part);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [property, own] of Object.entries(value)) element.style.setProperty(property, own);
    else if (name === "href" && !LOCAL.test(value)) throw new Error("a link leads out of the dashboard");
    else if (name === "href") element.setAttribute(name, withRoot(value));
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}
