// Which colour is what, beside every drawing that has more than one.
import { h, s } from "../element.js";
import { mark } from "./mark.js";

const ANGLE = "135deg";

/** items: {name, colour: "--compute", value: text or nothing, mark: of its dots, or nothing; dashes: of a line, or nothing; hatched, alpha}. */
export function legend(items) {
  return h(
    "ul", { class: "legend" },
    items.map(({ name, colour, value, mark: shape, dashes, hatched, alpha }) =>
      h("li", {}, dashes ? line(colour, dashes) : swatch(colour, shape, hatched, alpha), h("span", {}, name), value ? h("span", { class: "muted" }, value) : null),
    ),
  );
}

function swatch(colour, shape, hatched, alpha = 1) {
  if (shape === null || shape === undefined) {
    const background = hatched ? `repeating-linear-gradient(${ANGLE}, var(${colour}) 0 2px, transparent 2px 4px)` : `var(${colour})`;
    return h("span", { class: "swatch", style: { background, opacity: String(alpha) } });
  }
  return s("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" }, mark(shape, 5, 5, colour));
}

function line(colour, dashes) {
  return s("svg", { class: "swatch", viewBox: "0 0 11 10", "aria-hidden": "true" }, s("line", { x1: 0, x2: 11, y1: 5, y2: 5, stroke: `var(${colour})`, "stroke-width": 2, "stroke-dasharray": dashes }));
}
