// Stacked areas over a common scale, in steps, under a limit whose upper part is a reserve.
import { h, s } from "../element.js";
import { ticks } from "./curve.js";
import { hatch } from "./hatch.js";
import { legend } from "./legend.js";

const WIDTH = 900;
const MARGIN = { left: 76, right: 18, top: 20, bottom: 34 };

/**
 * at: of each step its place on the x axis, from 0 on; end: of the last one; layers: {name, colour, values: of each step}, from
 * below; limit: {amount, name, colour}; reserve: {amount, name, colour}: hatched, below the limit; peak: {at, amount, text};
 * x, y: {name, text: value => string, binary}.
 */
export function areas({ at, end, layers, limit, reserve, peak, x, y, label, height = 280 }) {
  const sums = at.map((_, step) => layers.reduce((all, layer) => all + layer.values[step], 0));
  const most = Math.max(limit.amount, ...sums) * 1.04;
  const px = (value) => MARGIN.left + (value / (end || 1)) * (WIDTH - MARGIN.left - MARGIN.right);
  const py = (value) => height - MARGIN.bottom - (value / most) * (height - MARGIN.top - MARGIN.bottom);
  const below = at.map(() => 0);
  const shapes = layers.map((layer) => {
    const low = [...below];
    layer.values.forEach((value, step) => (below[step] += value));
    return s("path", { class: "area", d: shape(at, end, low, below, px, py), fill: `var(${layer.colour})` }, s("title", {}, layer.name));
  });
  const level = py(limit.amount);
  return h(
    "figure", { class: "chart" },
    h("figcaption", { class: "muted" }, y.name),
    legend([...layers, { ...reserve, hatched: true }]),
    s(
      "svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label, class: "wide" },
      hatch("reserve", reserve.colour), grid(),
      shapes,
      s("rect", { class: "reserve", x: MARGIN.left, y: level, width: WIDTH - MARGIN.left - MARGIN.right, height: py(limit.amount - reserve.amount) - level, fill: "url(#reserve)" }, s("title", {}, reserve.name)),
      s("line", { x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: level, y2: level, stroke: `var(${limit.colour})`, "stroke-width": 1.5, "stroke-dasharray": "4 3" }),
      s("text", { x: WIDTH - MARGIN.right, y: level - 5, "text-anchor": "end" }, limit.name),
      peak ? flag() : null,
    ),
  );

  function grid() {
    return [
      ticks([0, most], 5, y).map((value) => [
        s("line", { class: "grid", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: py(value), y2: py(value) }),
        s("text", { class: "muted", x: MARGIN.left - 6, y: py(value) + 4, "text-anchor": "end" }, y.text(value)),
      ]),
      ticks([0, end || 1], 8, x).map((value) => s("text", { class: "muted", x: px(value), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, x.text(value))),
      s("text", { class: "muted", x: WIDTH - MARGIN.right, y: height - 3, "text-anchor": "end" }, x.name),
    ];
  }

  function flag() {
    const [left, top] = [px(peak.at), py(peak.amount)];
    const ahead = left < WIDTH / 2; // the text has room on this side
    return s(
      "g", { class: "peak" },
      s("line", { x1: left, x2: left, y1: MARGIN.top - 6, y2: height - MARGIN.bottom }),
      s("circle", { cx: left, cy: top, r: 4 }),
      s("text", { x: left + (ahead ? 6 : -6), y: MARGIN.top - 8, "text-anchor": ahead ? "start" : "end" }, peak.text),
    );
  }
}

/** The area between two lines of steps. */
function shape(at, end, low, high, px, py) {
  const right = (step) => px(at[step + 1] ?? end).toFixed(1);
  const up = high.map((value, step) => `${step ? "V" : `M${px(at[0]).toFixed(1)} `}${py(value).toFixed(1)}H${right(step)}`);
  const down = low.map((value, step) => `V${py(value).toFixed(1)}H${px(at[step]).toFixed(1)}`).reverse();
  return `${up.join("")}${down.join("")}Z`;
}
