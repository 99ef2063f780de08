// Lanes with their minimap, moved by pointer, wheel and keys.
import { h } from "../element.js";
import { press } from "../keys.js";
import { Canvas } from "./canvas.js";
import { Minimap } from "./minimap.js";

/**
 * found: {lanes, end_us}; label: of the lanes; onSelect: ({slice, lane}) or nothing; onOpen: of what Enter opens;
 * at: "from-to" in µs, the part that is shown first; onMove: at => …, null for the whole step.
 * Returns {element, canvas, buttons}.
 */
export function laneViewer(found, { label, at, onSelect, onOpen, onMove, signal }) {
  const element = h("canvas", { class: "timeline", tabindex: "0", role: "application", "aria-label": `${label}; the keys are listed under ?` });
  const scroller = h("div", { class: "lanes" }, element, h("div"));
  const canvas = new Canvas(element, scroller, found, { onSelect, onDraw: () => map.draw() });
  const moved = () => onMove(canvas.span < found.end_us * 0.999 ? `${canvas.from.toFixed(2)}-${canvas.to.toFixed(2)}` : null);
  const map = new Minimap(canvas, found.lanes.filter((lane) => lane.is_main), signal, moved);
  const then = (does) => () => {
    does();
    moved();
  };
  const ways = {
    in: then(() => canvas.zoom(0.5)),
    out: then(() => canvas.zoom(2)),
    whole: then(() => canvas.move(0, canvas.end)),
  };
  const [from, to] = (at ?? "").split("-").map(Number);
  if (to > from) canvas.move(from, to - from);
  pointers(element, canvas, scroller, signal, moved);
  themes(canvas, map, signal);
  keys(canvas, ways, then, onOpen, signal);
  scroller.addEventListener("scroll", () => canvas.draw(), { signal });
  canvas.draw();
  const buttons = [["Zoom in", ways.in], ["Zoom out", ways.out], ["Whole step", ways.whole]].map(([says, does]) => h("button", { type: "button", onclick: does }, says));
  return { element: h("div", {}, map.element, scroller), canvas, buttons };
}

function pointers(element, canvas, scroller, signal, moved) {
  const listen = (target, type, does, options) => target.addEventListener(type, does, { signal, ...options });
  listen(element, "wheel", (event) => {
    if (document.activeElement !== element) return;
    event.preventDefault();
    canvas.zoom(event.deltaY > 0 ? 1.25 : 0.8, canvas.ts(event.offsetX));
    moved();
  }, { passive: false });
  let held = null;
  listen(element, "pointerdown", (event) => {
    held = { x: event.offsetX, y: event.offsetY, from: canvas.from, top: scroller.scrollTop, moved: false };
    element.setPointerCapture(event.pointerId);
  });
  listen(element, "pointermove", (event) => {
    if (held) {
      held.moved ||= Math.hypot(event.offsetX - held.x, event.offsetY - held.y) > 3;
      if (!held.moved) return;
      canvas.move(held.from - ((event.offsetX - held.x) / canvas.wide) * canvas.span, canvas.span);
      scroller.scrollTop = held.top - (event.offsetY - held.y);
      return;
    }
    const found = canvas.under(event.offsetX, event.offsetY);
    element.title = found ? found.slice.label : "";
  });
  listen(element, "pointerup", (event) => {
    if (held && !held.moved) canvas.select(canvas.under(event.offsetX, event.offsetY));
    held = null;
    moved();
  });
  const watch = new ResizeObserver(() => canvas.draw()); // also once it has a place on the page
  watch.observe(element);
  signal.addEventListener("abort", () => watch.disconnect());
}

function themes(canvas, map, signal) {
  const repaint = () => {
    map.repaint();
    canvas.repaint();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint, { signal });
  const watch = new MutationObserver(repaint);
  watch.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  signal.addEventListener("abort", () => watch.disconnect());
}

function keys(canvas, ways, then, onOpen, signal) {
  press({
    w: ["zoom in", then(() => canvas.zoom(0.7))],
    s: ["zoom out", then(() => canvas.zoom(1 / 0.7))],
    a: ["earlier", then(() => canvas.pan(-0.2))],
    d: ["later", then(() => canvas.pan(0.2))],
    0: ["whole step", ways.whole],
    ArrowLeft: ["slice before", () => canvas.step(-1, 0)],
    ArrowRight: ["next slice", () => canvas.step(1, 0)],
    ArrowUp: ["lane above", () => canvas.step(0, -1)],
    ArrowDown: ["lane below", () => canvas.step(0, 1)],
    f: ["zoom to the selected slice", then(() => canvas.selected && canvas.show(canvas.selected))],
    ...(onOpen ? { o: ["open the selected slice in the timeline", () => canvas.selected && onOpen(canvas.selected)] } : {}),
  }, signal);
}
