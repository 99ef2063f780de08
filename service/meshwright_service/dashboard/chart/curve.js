// Lines over a common scale: steps or straight, with a grid of round numbers.
import { h, s } from "../element.js";
import { legend } from "./legend.js";

const WIDTH = 900;
const DASHES = "4 3";
const MARGIN = { left: 76, right: 18, top: 10, bottom: 34 };

/**
 * series: {name, colour, points: [[x, y]], stepped, dots}; x, y: {name, text: value => string, zero: begin at 0, binary: bytes};
 * marks: {y, name, colour}: level lines, dashed, named in the legend.
 */
export function curve({ series, x, y, marks = [], label, height = 240 }) {
  const points = series.flatMap((own) => own.points);
  const across = span(points.map((p) => p[0]), x.zero);
  const up = span([...points.map((p) => p[1]), ...marks.map((mark) => mark.y)], y.zero);
  const px = (value) => MARGIN.left + ((value - across[0]) / (across[1] - across[0])) * (WIDTH - MARGIN.left - MARGIN.right);
  const py = (value) => height - MARGIN.bottom - ((value - up[0]) / (up[1] - up[0])) * (height - MARGIN.top - MARGIN.bottom);
  const grid = [
    ticks(up, 5, y).map((value) => [
      s("line", { class: "grid", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: py(value), y2: py(value) }),
      s("text", { class: "muted", x: MARGIN.left - 6, y: py(value) + 4, "text-anchor": "end" }, y.text(value)),
    ]),
    ticks(across, 8, x).map((value) => s("text", { class: "muted", x: px(value), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, x.text(value))),
    s("text", { class: "muted", x: WIDTH - MARGIN.right, y: height - 3, "text-anchor": "end" }, x.name),
  ];
  const lines = series.map((own) => [
    s("path", { class: "curve", d: path(own, px, py), fill: "none", stroke: `var(${own.colour})`, "stroke-width": 2 }),
    own.dots ? own.points.map(([a, b]) => s("circle", { cx: px(a), cy: py(b), r: 3, fill: `var(${own.colour})` }, s("title", {}, `${own.name}: ${x.text(a)}, ${y.text(b)}`))) : null,
  ]);
  const levels = marks.map((mark) =>
    s("line", { x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: py(mark.y), y2: py(mark.y), stroke: `var(${mark.colour})`, "stroke-width": 1.5, "stroke-dasharray": DASHES }));
  return h(
    "figure", { class: "chart" },
    h("figcaption", { class: "muted" }, y.name),
    series.length + marks.length > 1 ? legend([...series, ...marks.map((mark) => ({ ...mark, dashes: DASHES }))]) : null,
    s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label, class: "wide" }, grid, lines, levels),
  );
}

function path({ points, stepped }, px, py) {
  return points
    .map(([a, b], at) => (at === 0 ? `M${px(a)} ${py(b)}` : stepped ? `H${px(a)}V${py(b)}` : `L${px(a)} ${py(b)}`))
    .join("");
}

function span(values, zero) {
  const low = zero ? 0 : Math.min(...values);
  const high = Math.max(...values, low);
  if (!Number.isFinite(low)) return [0, 1];
  const pad = high === low ? Math.abs(high) * 0.05 || 1 : (high - low) * 0.05;
  return [zero ? 0 : low - pad, high + pad];
}

/** Round numbers within a span; of bytes, round in their unit. */
export function ticks([low, high], about, { binary = false } = {}) {
  const unit = binary ? 1024 ** Math.floor(Math.log(Math.max(high, 1)) / Math.log(1024)) : 1;
  const raw = (high - low) / unit / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = unit * power * ([1, 2, 5, 10].find((own) => own * power >= raw) ?? 10);
  const first = Math.ceil(low / step);
  const found = Math.floor(high / step) - first + 1;
  // ends that differ in their last digits only have no steps between them
  if (!(step > 0) || !(found >= 0) || !Number.isSafeInteger(first + found)) return [low];
  return Array.from({ length: found }, (_, n) => (first + n) * step);
}
