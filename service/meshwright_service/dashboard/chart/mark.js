// Marks of dots: what is told apart by colour is told apart by shape too.
import { s } from "../element.js";

const SHAPES = ["circle", "square", "diamond", "triangle", "cross"];

/** The nth mark at a place; says: what it is, or nothing. */
export function mark(at, x, y, colour, says) {
  const title = says ? s("title", {}, says) : null;
  const shape = SHAPES[at % SHAPES.length];
  const paint = { fill: `var(${colour})`, "fill-opacity": 0.8 };
  if (shape === "circle") return s("circle", { cx: x, cy: y, r: 3, ...paint }, title);
  const d = {
    square: `M${x - 2.8} ${y - 2.8}h5.6v5.6h-5.6z`,
    diamond: `M${x} ${y - 3.8}l3.8 3.8l-3.8 3.8l-3.8 -3.8z`,
    triangle: `M${x} ${y - 3.6}l3.6 6.4h-7.2z`,
    cross: `M${x - 3} ${y - 1}h2v-2h2v2h2v2h-2v2h-2v-2h-2z`,
  }[shape];
  return s("path", { d, ...paint }, title);
}
