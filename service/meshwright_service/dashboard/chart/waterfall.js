// A waterfall: from one amount to another by the changes of their parts, each beginning where the one before it ends.
import { h, s } from "../element.js";

const WIDTH = 900;
const NAMES = 240; // of the names, to the left
const VALUES = 150; // of the changes, to the right of a bar
const HEIGHT = 20;
const GAP = 7;
const LEAST_SHARE = 0.1; // chosen: changes within a smaller share of the amounts get an axis that begins later

/**
 * from, to: {name, amount}; changes: {name, colour, amount, until}: until is the amount after the change;
 * text: amount => string with its unit; label: of the drawing.
 */
export function waterfall({ from, to, changes, text, label }) {
  const reached = [from.amount, ...changes.map((change) => change.until), to.amount];
  const [low, high] = [Math.min(...reached), Math.max(...reached) || 1];
  const isWide = (high - low) / high >= LEAST_SHARE;
  const origin = isWide ? 0 : Math.max(0, low - (high - low) / 2);
  const x = (amount) => NAMES + ((amount - origin) / (high - origin || 1)) * (WIDTH - NAMES - VALUES);
  const rows = [
    { ...from, begin: origin, end: from.amount, colour: "--series-plain", value: text(from.amount) },
    ...changes.map((change, at) => ({ ...change, begin: at ? changes[at - 1].until : from.amount, end: change.until, value: signed(change.amount, text) })),
    { ...to, begin: origin, end: to.amount, colour: "--series-plain", value: text(to.amount) },
  ];
  const height = rows.length * (HEIGHT + GAP);
  const says = rows.map((row) => `${row.name} ${row.value}`).join(", ");
  return h(
    "figure", { class: "chart" },
    isWide ? null : h("figcaption", { class: "muted" }, `The axis begins at ${text(origin)}.`),
    s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${label}: ${says}`, class: "wide waterfall" },
      rows.map((row, at) => bar(row, at, x, rows[at + 1]))),
  );
}

function bar({ name, begin, end, colour, value, amount }, at, x, next) {
  const y = at * (HEIGHT + GAP) + 2;
  const [left, right] = [Math.min(x(begin), x(end)), Math.max(x(begin), x(end))];
  return s("g", {},
    s("title", {}, `${name} ${value}`),
    s("text", { x: NAMES - 8, y: y + 14, "text-anchor": "end" }, name),
    s("rect", { x: left, y, width: Math.max(right - left, 1), height: HEIGHT, fill: `var(${colour})` }),
    next ? s("line", { class: "grid", x1: x(end), x2: x(end), y1: y + HEIGHT, y2: y + HEIGHT + GAP }) : null,
    s("text", { x: right + 6, y: y + 14, "data-amount": amount }, value));
}

function signed(amount, text) {
  return `${amount > 0 ? "▲ +" : "▼ −"}${text(Math.abs(amount))}`;
}
