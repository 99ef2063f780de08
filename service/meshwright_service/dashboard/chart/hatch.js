// A hatch as a fill of SVG.
import { s } from "../element.js";

/** The definition of a hatch, to stand in the drawing; fill with `url(#id)`. */
export function hatch(id, colour) {
  return s("defs", {}, s("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 2.5, height: 6, fill: `var(${colour})` })));
}
