// Which colour is what, beside every drawing that has more than one.
import { h } from "../element.js";

/** items: {name, colour: "--compute", value: text, or nothing}. */
export function legend(items) {
  return h(
    "ul", { class: "legend" },
    items.map(({ name, colour, value }) =>
      h("li", {}, h("span", { class: "swatch", style: { background: `var(${colour})` } }), h("span", {}, name), value ? h("span", { class: "muted" }, value) : null),
    ),
  );
}
