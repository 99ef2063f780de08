// Observed over predicted, over time: a dot for each observation with the interval of its prediction.
import { h, s } from "../element.js";
import { ticks } from "./curve.js";
import { legend } from "./legend.js";
import { mark } from "./mark.js";

const WIDTH = 900;
const MARGIN = { left: 64, right: 18, top: 12, bottom: 34 };

/**
 * points: {at: milliseconds, ratio, interval: [low, high] or nothing, series: an index, says}; series: {name, colour};
 * date: milliseconds => string; label: of the drawing.
 */
export function ratios({ points, series, date, label, height = 260 }) {
  const across = widened(points.map((own) => own.at), 60_000);
  const up = widened([1, ...points.flatMap((own) => [own.ratio, ...(own.interval ?? [])])], 0.05);
  const px = (value) => MARGIN.left + ((value - across[0]) / (across[1] - across[0])) * (WIDTH - MARGIN.left - MARGIN.right);
  const py = (value) => height - MARGIN.bottom - ((value - up[0]) / (up[1] - up[0])) * (height - MARGIN.top - MARGIN.bottom);
  const ends = [[across[0], "start"], [across[1], "end"]];
  return h(
    "figure", { class: "chart" },
    h("figcaption", { class: "muted" }, "Observed step over predicted step, by the time of the report; vertical lines are the 80 % intervals of the predictions"),
    legend(series.map((own, at) => ({ ...own, mark: at }))),
    s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label, class: "wide" },
      ticks(up, 5).map((value) => [
        s("line", { class: "grid", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: py(value), y2: py(value) }),
        s("text", { class: "muted", x: MARGIN.left - 6, y: py(value) + 4, "text-anchor": "end" }, `×${value.toFixed(2)}`),
      ]),
      s("line", { x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: py(1), y2: py(1), stroke: "var(--ink-2)", "stroke-width": 1.5, "stroke-dasharray": "4 3" }),
      s("text", { x: WIDTH - MARGIN.right, y: py(1) - 4, "text-anchor": "end" }, "as predicted"),
      ends.map(([value, anchor]) => s("text", { class: "muted", x: px(value), y: height - 12, "text-anchor": anchor }, date(value))),
      points.map(({ at, ratio, interval, series: own, says }) => s("g", { class: "observation" },
        interval ? s("path", { d: `M${px(at)} ${py(interval[0])}V${py(interval[1])}m-4 0h8M${px(at) - 4} ${py(interval[0])}h8`, stroke: `var(${series[own].colour})`, "stroke-width": 1, fill: "none" }) : null,
        mark(own, px(at), py(ratio), series[own].colour, says)))),
  );
}

function widened(values, least) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = Math.max((high - low) * 0.08, least);
  return [low - pad, high + pad];
}
