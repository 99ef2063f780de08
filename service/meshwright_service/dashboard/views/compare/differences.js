// The ops that differ between two plans, with repeats in one row.
import { delta, strategy } from "../../delta.js";
import { fill, h } from "../../element.js";
import { table } from "../../table.js";
import { bytes, count, time } from "../../units.js";

const SHOWN = 40; // rows of differences at first; chosen: a person reads the largest
const COSTS = ["strategy", "layout", "stage", "cost", "only in one"];

export function differences({ alike, differences: all }) {
  const held = h("div");
  const shown = new Set(COSTS);
  const boxes = COSTS.filter((kind) => all.some((own) => own.differing.includes(kind))).map((kind) =>
    h("label", {}, h("input", { type: "checkbox", checked: true, onchange: (event) => { if (event.target.checked) shown.add(kind); else shown.delete(kind); draw(SHOWN); } }), kind));
  draw(SHOWN);
  return h(
    "section", { "aria-labelledby": "differences" },
    h("h2", { id: "differences" }, "Ops that differ"),
    h("p", { class: "muted" }, `${count(alike)} ops differ in nothing. Repeats are one line; times are over one step on a device of their stage, of all repeats together.`),
    all.length ? [h("fieldset", { class: "row" }, h("legend", {}, "Show what differs in"), boxes), held] : h("p", {}, "No op differs."),
  );

  function draw(most) {
    const rows = all.filter((own) => own.differing.some((kind) => shown.has(kind)));
    fill(held,
      table({
        label: "Ops that differ", rows: rows.slice(0, most),
        columns: [
          { title: "Op", width: "21%", value: (own) => [h("code", { class: "name" }, own.label), own.count > 1 ? h("span", { class: "muted" }, ` ×${own.count}`) : null] },
          { title: "Differs in", value: (own) => own.differing.map((kind, at) => [at ? ", " : "", h("span", { class: "kind" }, kind)]) },
          { title: "A", width: "19%", value: (own) => side(own.first, own.second) },
          { title: "B", width: "19%", value: (own) => side(own.second, own.first) },
          { title: "Compute", number: true, value: (own) => apart(own, "compute_ns", time), sort: (own) => difference(own, "compute_ns") },
          { title: "Communication", number: true, value: (own) => apart(own, "communication_ns", time), sort: (own) => difference(own, "communication_ns") },
          { title: "Saved", number: true, value: (own) => apart(own, "saved_bytes", bytes), sort: (own) => difference(own, "saved_bytes") },
          { title: "Parameters", number: true, value: (own) => apart(own, "parameter_bytes", bytes), sort: (own) => difference(own, "parameter_bytes") },
        ],
      }),
      rows.length > most ? h("button", { type: "button", onclick: () => draw(Infinity) }, `Show all ${count(rows.length)}`) : null,
    );
  }
}

function side(own, other) {
  if (!own) return h("span", { class: "muted" }, "is not there");
  const [layout] = own.outputs;
  return [
    h("code", { class: "name" }, strategy(own)),
    other && other.outputs[0] !== layout ? h("div", { class: "muted mono name" }, layout) : null,
    other && String(other.stages) !== String(own.stages) ? h("div", { class: "muted" }, `stage ${spans(own.stages)}`) : null,
  ];
}

// 0, 1, 2, 5 as 0–2, 5
function spans(numbers) {
  const found = [];
  for (const own of numbers) {
    if (found.at(-1)?.[1] === own - 1) found.at(-1)[1] = own;
    else found.push([own, own]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

function difference(own, field) {
  return (own.second?.[field] ?? 0) - (own.first?.[field] ?? 0);
}

function apart(own, field, text) {
  return delta(own.first?.[field] ?? 0, own.second?.[field] ?? 0, { text });
}
