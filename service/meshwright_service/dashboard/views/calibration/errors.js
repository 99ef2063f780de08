// Predicted over measured, kind by kind: quartiles as bars about 1, the worst as a mark.
import { h, s } from "../../element.js";
import { named } from "../../kinds.js";
import { table } from "../../table.js";
import { count } from "../../units.js";

const WIDTH = 320;
const REACH = 4; // chosen: a factor either way; what is further stands at the edge

export function errors(found) {
  return h("section", {},
    h("h2", {}, "Predicted over measured"),
    h("p", { class: "muted" }, "1 is right; above it is slower on paper than on the machine."),
    table({
      label: "Predicted over measured", rows: found.residuals,
      columns: [
        { title: "Kind", value: (own) => named(own.kind) },
        { title: "Samples", number: true, value: (own) => count(own.samples), sort: (own) => own.samples },
        { title: "Median", number: true, value: (own) => own.median.toFixed(2), sort: (own) => Math.abs(Math.log(own.median)) },
        { title: "Quartiles", number: true, value: (own) => `${own.low.toFixed(2)} to ${own.high.toFixed(2)}`, sort: (own) => Math.log(own.high / own.low) },
        { title: "¼  to  4 times", value: (own) => bar(own) },
        { title: "Worst", number: true, value: (own) => own.worst.toFixed(2), sort: (own) => Math.abs(Math.log(own.worst)) },
        { title: "of", value: (own) => h("span", { class: "name" }, own.worst_of) },
      ],
    }));
}

function bar(own) {
  const x = (ratio) => {
    const share = Math.log(ratio) / Math.log(REACH);
    return (WIDTH / 2) * (1 + Math.max(-1, Math.min(1, share)));
  };
  const [low, high] = [x(own.low), x(own.high)];
  return s(
    "svg", { class: "quartiles", viewBox: `0 0 ${WIDTH} 16`, "aria-hidden": "true" },
    [0.5, 2].map((ratio) => s("line", { class: "grid", x1: x(ratio), x2: x(ratio), y1: 0, y2: 16 })),
    s("line", { class: "frame", x1: x(1), x2: x(1), y1: 0, y2: 16 }),
    s("rect", { x: low, y: 4, width: Math.max(2, high - low), height: 8, fill: "var(--one)" }),
    s("line", { x1: x(own.median), x2: x(own.median), y1: 2, y2: 14, stroke: "var(--ink)", "stroke-width": 2 }),
    s("circle", { cx: x(own.worst), cy: 8, r: 3, fill: "var(--other)" }),
  );
}
