// Stacked bars on one scale, each with its name and its total.
import { h, s } from "../element.js";
import { legend } from "./legend.js";

const HEIGHT = 18;
const GAP = 8;

/**
 * rows: {name, parts: {key: amount}, total: text, href, mark}; kinds: {key: {name, colour}} in the order of
 * stacking; limit: {amount, name, colour}: a line through all of them; text: amount => string.
 */
export function bars({ rows, kinds, limit, text, label, names = 150, totals = 120, width = 900 }) {
  const sum = (row) => Object.keys(kinds).reduce((all, key) => all + (row.parts[key] ?? 0), 0);
  const most = Math.max(limit?.amount ?? 0, ...rows.map(sum)) || 1;
  const scale = (width - names - totals) / most;
  const top = limit ? 18 : 2;
  const height = top + rows.length * (HEIGHT + GAP);
  const drawn = rows.map((row, at) => {
    let x = names;
    const y = top + at * (HEIGHT + GAP);
    const parts = Object.entries(kinds).map(([key, { name, colour }]) => {
      const amount = row.parts[key] ?? 0;
      const wide = amount * scale; // those that are wide enough end a pixel early, so that edges show without hues
      const piece = amount > 0 ? s("rect", { x, y, width: Math.max(wide > 4 ? wide - 1 : wide, 0.5), height: HEIGHT, fill: `var(${colour})` }, s("title", {}, `${row.name}: ${name} ${text(amount)}`)) : null;
      x += wide;
      return piece;
    });
    const says = s("text", { x: names - 8, y: y + 13, "text-anchor": "end" }, row.name);
    const end = Math.max(x, names);
    const line = limit ? names + limit.amount * scale : 0;
    const beside = end < line && line < end + totals ? line : end; // not across the line of the limit
    return s("g", {}, says, parts, s("text", { x: beside + 6, y: y + 13, class: "muted" }, row.total ?? text(sum(row))));
  });
  const edge = limit
    ? s("g", {}, s("line", { x1: names + limit.amount * scale, x2: names + limit.amount * scale, y1: top - 4, y2: height, stroke: `var(${limit.colour})`, "stroke-width": 1.5, "stroke-dasharray": "4 3" }),
        s("text", { x: names + limit.amount * scale, y: 11, "text-anchor": "middle" }, `${limit.name} ${text(limit.amount)}`))
    : null;
  const used = Object.entries(kinds).filter(([key]) => rows.some((row) => (row.parts[key] ?? 0) > 0));
  return h(
    "figure", { class: "chart" },
    legend(used.map(([key, kind]) => ({ ...kind, value: rows.length === 1 ? text(rows[0].parts[key]) : null }))),
    s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "wide" }, drawn, edge),
  );
}
