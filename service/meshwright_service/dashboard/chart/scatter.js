// Points on two scales, each of which can be reached by keyboard.
import { h, s } from "../element.js";
import { legend } from "./legend.js";
import { ticks } from "./curve.js";
import { brushed, walked } from "./brush.js";
import { logScale, logSpan, powers } from "./loglog.js";

const WIDTH = 900;
const MARGIN = { left: 84, right: 24, top: 22, bottom: 40 };

/**
 * points: {x, y, kind, name, says, hollow, isChosen: pressed or not, where points are chosen}; kinds: {key: {name, colour, shape: "circle" | "square" | "diamond"}};
 * front: [[x, y]] in order of x; limit: {x, name}; onPick: point => …;
 * onBrush: points => …, of those in a rectangle that is drawn with the pointer; then arrow keys go from point to point; x, y: {name, text, binary, base: of a logarithmic scale}.
 */
export function scatter({ points, kinds, front = [], limit, x, y, label, onPick, onBrush, height = 380 }) {
  const xs = points.map((own) => own.x).concat(limit ? [limit.x] : []);
  const across = x.base ? logSpan(xs) : span(xs);
  const ys = points.map((own) => own.y);
  const up = y.base ? logSpan(ys) : span(ys);
  const px = (x.base ? logScale : linearScale)(across, MARGIN.left, WIDTH - MARGIN.right);
  const py = (y.base ? logScale : linearScale)(up, height - MARGIN.bottom, MARGIN.top);
  const ups = y.base ? powers(up, y.base, 6) : ticks(up, 6, y);
  const acrosses = x.base ? powers(across, x.base, 8) : ticks(across, 8, x);
  const marks = points.map((own, at) => {
    const kind = kinds[own.kind];
    const pick = (event) => {
      if (event.type === "click" || event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        onPick(own);
      }
    };
    return s("path", {
      d: shape(kind.shape, px(own.x), py(own.y), kind.large ? 8 : 5), class: `point${own.hollow ? " hollow" : ""}${own.isChosen ? " chosen" : ""}`, style: { color: `var(${kind.colour})` },
      tabindex: onBrush && at ? "-1" : "0", role: "button", "aria-pressed": own.isChosen === undefined ? null : String(own.isChosen), "data-at": onBrush ? at : null, "aria-label": `${own.name}: ${x.text(own.x)}, ${y.text(own.y)}. ${own.says}`, onclick: pick, onkeydown: pick,
    }, s("title", {}, `${own.name}\n${x.text(own.x)}, ${y.text(own.y)}\n${own.says}`));
  });
  const steps = front.length ? s("path", { class: "front", d: front.map(([a, b], at) => (at ? `H${px(a)}V${py(b)}` : `M${px(a)} ${py(b)}`)).join("") }) : null;
  const used = Object.entries(kinds).filter(([key]) => points.some((own) => own.kind === key));
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "group", "aria-label": label, class: "wide" },
      ups.map((value) => [s("line", { class: "grid", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: py(value), y2: py(value) }), s("text", { class: "muted", x: MARGIN.left - 6, y: py(value) + 4, "text-anchor": "end" }, y.text(value))]),
      acrosses.map((value) => [s("line", { class: "grid", x1: px(value), x2: px(value), y1: MARGIN.top, y2: height - MARGIN.bottom }), s("text", { class: "muted", x: px(value), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }, x.text(value))]),
      s("text", { class: "muted", x: WIDTH - MARGIN.right, y: height - 6, "text-anchor": "end" }, x.name),
      limit ? [s("line", { x1: px(limit.x), x2: px(limit.x), y1: MARGIN.top, y2: height - MARGIN.bottom, stroke: "var(--capacity)", "stroke-width": 1.5, "stroke-dasharray": "4 3" }), s("text", { x: px(limit.x), y: MARGIN.top - 7, "text-anchor": "end" }, `${limit.name} ${x.text(limit.x)}`)] : null,
      steps, marks);
  if (onBrush) {
    walked(svg, points, px);
    brushed(svg, (within) => onBrush(points.filter((own) => within(px(own.x), py(own.y)))));
  }
  return h(
    "figure", { class: "chart" },
    h("figcaption", { class: "muted" }, `${y.name} (up) against ${x.name} (right)${front.length ? "; the line joins the front" : ""}`),
    used.length > 1 || !onBrush ? legend(used.map(([, kind]) => kind)) : null,
    svg);
}

function shape(kind, x, y, r) {
  if (kind === "square") return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
  if (kind === "diamond") return `M${x} ${y - r * 1.4}l${r * 1.4} ${r * 1.4}l${-r * 1.4} ${r * 1.4}l${-r * 1.4} ${-r * 1.4}z`;
  return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
}

function linearScale([low, high], from, to) {
  return (value) => from + ((value - low) / (high - low)) * (to - from);
}

function span(values) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const pad = high === low ? Math.abs(high) * 0.1 || 1 : (high - low) * 0.08;
  return [low < 0 ? low - pad : Math.max(0, low - pad), high + pad];
}
