// The parallelism of the modules: how their ops are cut, by share of the compute time.
import { h } from "../element.js";
import { table } from "../table.js";
import { count, percent } from "../units.js";

const WAYS = { dp: ["DP", "the batch"], ep: ["EP", "the experts"], cp: ["CP", "the sequence"], tp: ["TP", "columns, rows or heads"] };

/** Nothing where all modules are cut alike: the degrees say it. */
export function parallelShares({ parallelism = [], stages }) {
  const kinds = new Set(parallelism.filter((own) => own.modules).map((own) => JSON.stringify(own.ways)));
  if (kinds.size < 2) return null;
  const devices = stages[0].devices;
  return [
    h("h3", {}, "Parallelism by module"),
    table({
      label: "Parallelism by module", rows: parallelism,
      columns: [
        { title: "Modules", value: (own) => (own.modules ? [h("code", { class: "name" }, own.modules), own.count > 1 ? h("span", { class: "muted" }, ` ×${count(own.count)}`) : null] : h("span", { class: "muted" }, `${count(own.count)} smaller groups`)) },
        { title: "Cut over devices", value: (own) => (own.modules ? ways(own.ways, devices) : null), says: "DP cuts the batch, CP the sequence, EP the experts, TP columns, rows or heads" },
        { title: "Compute", number: true, value: (own) => percent(own.share), sort: (own) => own.share, says: "Share of the compute time of a step" },
      ],
    }),
  ];
}

function ways(own = {}, devices) {
  const cut = Object.entries(WAYS).filter(([role]) => own[role]);
  const repeated = devices / cut.reduce((product, [role]) => product * own[role], 1);
  return [
    cut.map(([role, [short, long]], at) => [at ? " · " : "", h("span", { title: `${long} in ${count(own[role])} parts` }, `${short} ${count(own[role])}`)]),
    repeated > 1 ? h("span", { class: "muted" }, `${cut.length ? " · " : ""}${count(repeated)} devices compute the same`) : null,
  ];
}
