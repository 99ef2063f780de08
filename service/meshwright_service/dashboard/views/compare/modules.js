// The changes from one plan to another by module, with repeated modules in one row.
import { delta } from "../../delta.js";
import { h } from "../../element.js";
import { table } from "../../table.js";
import { bytes, time } from "../../units.js";

export function modules({ modules: groups = [], small_modules: small, all_modules: all, per_sample: perSample }) {
  if (!all) return null;
  const large = groups.filter((group) => !group.small);
  return h(
    "section", { "aria-labelledby": "modules" },
    h("h2", { id: "modules" }, "By module"),
    h("p", { class: "muted" }, `Times are for ${perSample ? "a sample" : "a step"} on one device, in a pipeline the mean of its ranks, with the communication that computation hides. Memory is of parameters with their states and of saved activations.`),
    rowsOf([...large, ...(small ? [small] : []), all], "By module"),
    small ? h("details", {}, h("summary", {}, named(small)), rowsOf(groups.filter((group) => group.small), "Small changes by module")) : null,
  );
}

function rowsOf(rows, label) {
  return table({
    label, rows,
    columns: [
      { title: "Module", width: "30%", value: (group) => h("span", { class: group.part === "modules" ? "mono name" : null }, named(group), group.part === "modules" && group.count > 1 ? h("span", { class: "muted" }, ` ×${group.count}`) : null) },
      { title: "A", number: true, value: (group) => time(total(group.first)) },
      { title: "B", number: true, value: (group) => time(total(group.second)) },
      { title: "Time", number: true, value: (group) => delta(total(group.first), total(group.second), { text: time }) },
      { title: "Compute", number: true, value: (group) => delta(group.first.compute_ns, group.second.compute_ns, { text: time }) },
      { title: "Communication", number: true, value: (group) => delta(group.first.communication_ns, group.second.communication_ns, { text: time }) },
      { title: "Memory", number: true, value: (group) => delta(held(group.first), held(group.second), { text: bytes }) },
    ],
  });
}

function named({ part, module, count }) {
  if (part === "small") return `${count} more below 0.1 %`;
  if (part !== "modules") return part;
  return module || "outside modules";
}

function total(cost) {
  return cost.compute_ns + cost.communication_ns;
}

function held(cost) {
  return cost.parameter_bytes + cost.saved_bytes;
}
