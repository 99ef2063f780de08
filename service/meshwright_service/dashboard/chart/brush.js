// Choice of points of a chart: a rectangle drawn with the pointer, and arrow keys from point to point.
import { s } from "../element.js";

const LEAST = 4; // units of the drawing; chosen: a click that trembles draws no rectangle

/** onDone: (x, y) => whether a place is in the rectangle, after it was drawn. */
export function brushed(svg, onDone) {
  let from = null;
  let area = null;
  svg.classList.add("brush");
  svg.addEventListener("pointerdown", (event) => {
    // a finger scrolls the page
    if (event.button || event.pointerType === "touch" || event.target.closest(".point")) return;
    from = place(svg, event);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    const { x, y, width, height } = rectangle(from, place(svg, event));
    if (!area) svg.append((area = s("rect", { class: "area" })));
    for (const [name, value] of Object.entries({ x, y, width, height })) area.setAttribute(name, value);
  });
  svg.addEventListener("pointerup", (event) => {
    if (!from) return;
    const { x, y, width, height } = rectangle(from, place(svg, event));
    from = null;
    area?.remove();
    area = null;
    if (width >= LEAST && height >= LEAST) onDone((a, b) => a >= x && a <= x + width && b >= y && b <= y + height);
  });
  svg.addEventListener("pointercancel", () => {
    from = null;
    area?.remove();
    area = null;
  });
}

/** Arrow keys go to the next point to the right or to the left; Home and End to the first and the last. */
export function walked(svg, points, px) {
  const order = points.map((_, at) => at).sort((a, b) => px(points[a].x) - px(points[b].x));
  svg.addEventListener("keydown", (event) => {
    const at = order.indexOf(Number(event.target.dataset?.at ?? -1));
    const to = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: order.length - 1 }[event.key];
    if (at < 0 || order[to] === undefined) return;
    event.preventDefault();
    event.target.setAttribute("tabindex", "-1");
    const next = svg.querySelector(`[data-at="${order[to]}"]`);
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

function place(svg, event) {
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return { x, y };
}

function rectangle(one, other) {
  return { x: Math.min(one.x, other.x), y: Math.min(one.y, other.y), width: Math.abs(one.x - other.x), height: Math.abs(one.y - other.y) };
}
