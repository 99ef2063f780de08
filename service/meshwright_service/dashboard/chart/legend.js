// Which colour is what, beside every drawing that has more than one.
import { h, s } from "../element.js";
import { mark } from "./mark.js";

/** items: {name, colour: "--compute", value: text or nothing, mark: of its dots, or nothing}. */
export function legend(items) {
  return h(
    "ul", { class: "legend" },
    items.map(({ name, colour, value, mark: shape }) =>
      h("li", {}, swatch(colour, shape), h("span", {}, name), value ? h("span", { class: "muted" }, value) : null),
    ),
  );
}

function swatch(colour, shape) {
  if (shape === null || shape === undefined) return h("span", { class: "swatch", style: { background: `var(${colour})` } });
  return s("svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" }, mark(shape, 5, 5, colour));
}
