// Why nothing fits: the constraint that binds, by how much it is missed, and what takes the most.
import { bars } from "../../chart/bars.js";
import { h } from "../../element.js";
import { PARTS } from "../../kinds.js";
import { table } from "../../table.js";
import { bytes, count } from "../../units.js";

const TITLES = { memory: "Nothing fits in memory", pins: "No plan keeps all pins", time: "The time was over" };

export function infeasible({ constraint, detail, needed_bytes: needed, available_bytes: available, least, largest, pins }) {
  const short = needed !== undefined && available !== undefined ? needed - available : null;
  return h(
    "section", { "aria-label": TITLES[constraint] },
    h("div", { class: "card binding" },
      h("h2", {}, TITLES[constraint] ?? "Nothing fits"),
      short === null ? null : h("p", {}, h("span", { class: "big" }, bytes(short)), h("span", { class: "muted" }, " short on a device: "), `${bytes(needed)} needed at least, ${bytes(available)} there.`),
      h("p", { class: "name" }, detail),
      pins?.length ? h("ul", {}, pins.map((pin) => h("li", { class: "name" }, h("code", {}, pin)))) : null,
      pins?.length ? h("p", { class: "muted" }, "With any one of these left out there is a plan.") : null),
    least ? [h("h3", {}, "What every plan takes, at least"), parts(least, available)] : null,
    largest?.length ? [h("h3", {}, "Of which tensors most"), consumers(largest)] : null,
    constraint === "memory" ? h("p", {}, "Less is taken by more devices, a smaller batch, shorter sequences, more microbatches, recompute, pipeline stages, or the optimizer's state on the host.") : null,
  );
}

function parts(least, available) {
  const { reserved, ...kinds } = PARTS; // what is there is without it
  return bars({
    rows: [{ name: "a device", parts: Object.fromEntries(Object.keys(kinds).map((name) => [name, least[name]])) }],
    kinds, text: bytes, label: "What every plan takes of a device's memory, in parts",
    limit: available === undefined ? undefined : { amount: available, name: "there is", colour: "--capacity" },
  });
}

function consumers(rows) {
  return table({
    label: "Largest tensors", rows,
    columns: [
      { title: "Tensor", value: (row) => h("span", { class: "name" }, row.tensor) },
      { title: "How many", number: true, value: (row) => count(row.count), sort: (row) => row.count },
      { title: "On a device together", number: true, value: (row) => bytes(row.bytes), sort: (row) => row.bytes },
    ],
  });
}
