// Dots and lines over logarithmic scales: what was measured, and what is said of it.
import { h, s } from "../element.js";
import { legend } from "./legend.js";
import { mark } from "./mark.js";

const MARGIN = { left: 84, right: 14, top: 10, bottom: 36 };

/**
 * series: {name, colour, line: [[x, y]], ticks: [[x, y]], dots: [[x, y, says]]}; a line that lies upon another is
 * dashed, so that both are seen. x, y: {name, text: value => string,
 * base: 2 or 10, from, to: at least so much of the scale}; levels: {y, name, colour}.
 */
export function loglog({ series, x, y, levels = [], label, width = 620, height = 250 }) {
  const points = series.flatMap((own) => [...(own.line ?? []), ...(own.ticks ?? []), ...(own.dots ?? [])]).filter(positive);
  const across = logSpan([...points.map((own) => own[0]), x.from, x.to]);
  const up = logSpan([...points.map((own) => own[1]), ...levels.map((own) => own.y), y.from, y.to]);
  const px = logScale(across, MARGIN.left, width - MARGIN.right);
  const py = logScale(up, height - MARGIN.bottom, MARGIN.top);
  const grid = [
    powers(up, y.base ?? 10, 6).map((value) => [
      s("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: py(value), y2: py(value) }),
      s("text", { class: "muted", x: MARGIN.left - 6, y: py(value) + 4, "text-anchor": "end" }, y.text(value)),
    ]),
    powers(across, x.base ?? 10, 6).map((value) => [
      s("line", { class: "grid", x1: px(value), x2: px(value), y1: MARGIN.top, y2: height - MARGIN.bottom }),
      s("text", { class: "muted", x: px(value), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, x.text(value)),
    ]),
    s("text", { class: "muted", x: width - MARGIN.right, y: height - 4, "text-anchor": "end" }, x.name),
  ];
  const before = [];
  const drawn = series.map((own, at) => {
    const places = (own.line ?? []).filter(positive).map(([a, b]) => [px(a), py(b)]);
    const line = places.map(([a, b], to) => `${to ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
    const under = before.filter((other) => upon(places, other)).length;
    before.push(places);
    return [
      line ? s("path", { d: line, fill: "none", stroke: `var(${own.colour})`, "stroke-width": 1.5, "stroke-dasharray": under ? `7 ${7 * under}` : null }) : null,
      (own.ticks ?? []).filter(positive).map(([a, b]) => s("path", { d: `M${px(a) - 6} ${py(b)}h12`, stroke: `var(${own.colour})`, "stroke-width": 1.5 })),
      (own.dots ?? []).filter(positive).map(([a, b, says]) => mark(at, px(a), py(b), own.colour, says)),
    ];
  });
  const lines = levels.map((own) => [
    s("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: py(own.y), y2: py(own.y), stroke: `var(${own.colour})`, "stroke-width": 1.5, "stroke-dasharray": "4 3" }),
    s("text", { x: MARGIN.left + 6, y: py(own.y) - 4 }, own.name),
  ]);
  return h(
    "figure", { class: "chart" },
    h("figcaption", { class: "muted" }, y.name),
    s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "wide half" }, grid, lines, drawn),
    series.length > 1 ? legend(series.map((own, at) => ({ ...own, mark: own.dots ? at : null }))) : null,
  );
}

/** Whether one line hides another: no place is further from its like than a line is wide. */
function upon(one, other) {
  return one.length > 0 && one.length === other.length && one.every(([x, y], at) => Math.hypot(x - other[at][0], y - other[at][1]) < 1.5);
}

function positive([a, b]) {
  return a > 0 && b > 0;
}

export function logScale([low, high], from, to) {
  const [a, b] = [Math.log(low), Math.log(high)];
  return (value) => from + ((Math.log(value) - a) / (b - a)) * (to - from);
}

export function logSpan(values) {
  const own = values.filter((value) => value > 0);
  if (!own.length) return [1, 10];
  const [low, high] = [Math.min(...own), Math.max(...own)];
  const pad = high / low < 1.1 ? 1.5 : (high / low) ** 0.04;
  return [low / pad, high * pad];
}

/** Powers of the base within a span, about so many; of 10 also halves and fifths where few fit. */
export function powers([low, high], base, about) {
  const from = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const to = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  const every = Math.max(1, Math.ceil((to - from + 1) / about));
  const found = [];
  for (let power = Math.ceil(from / every) * every; power <= to; power += every) found.push(base ** power);
  if (base !== 10 || found.length > 2) return found;
  for (let power = from - 1; power <= to; power += 1) {
    for (const factor of [2, 5]) {
      const value = factor * 10 ** power;
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found.sort((a, b) => a - b);
}
