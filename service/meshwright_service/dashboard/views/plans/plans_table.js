// Plans in a list: the numbers by which people choose.
import { h, link, path, s } from "../../element.js";
import { table } from "../../table.js";
import { bytes, percent, short, time } from "../../units.js";
import { isOverfull, verdict, warningTags } from "../../verdict.js";
import { labels } from "./labels.js";
import { when } from "./when.js";

const BAR = 64; // pixels of a device's memory

export function plansTable(rows, { go, signal, chosen, editable }) {
  const withKeys = rows.some((plan) => plan.key);
  return table({
    label: "Plans", rows, signal, go, key: (plan) => plan.id,
    address: (plan) => path`/plans/${plan.id}`,
    columns: [
      { title: "", value: chosen.box },
      { title: "Model", value: (plan) => link(path`/plans/${plan.id}`, h("span", { class: "clip model", title: plan.name }, plan.name || short(plan.id))), sort: (plan) => plan.name },
      { title: "Topology", value: (plan) => link(path`/topologies/${plan.topology}`, h("span", { class: "clip topology", title: plan.topology_name }, plan.topology_name || short(plan.topology))), sort: (plan) => plan.topology_name },
      { title: "Mesh", value: mesh },
      { title: "Step", number: true, value: (plan) => time(plan.step_ns), sort: (plan) => plan.step_ns },
      { title: "Memory free", says: "of the fullest device, beside what is held back", number: true, value: memory, sort: free },
      { title: "Gap", says: "to what is proved to be impossible", number: true, value: (plan) => percent(plan.gap), sort: (plan) => plan.gap },
      { title: "Proof", value: proof },
      { title: "Labels", value: (plan) => labels(plan, { editable }) },
      withKeys ? { title: "Who", value: (plan) => h("span", { class: "clip who", title: plan.key_name }, plan.key_name ?? "–"), sort: (plan) => plan.key_name } : null,
      { title: "When", value: (plan) => when(plan.created_at), sort: (plan) => plan.created_at },
    ].filter(Boolean),
  });
}

function mesh({ meshes }) {
  const axes = Object.entries(meshes[0] ?? {}).map(([name, size]) => `${name} ${size}`);
  const shown = axes.length ? axes.join(" × ") : "one device";
  return h("span", { class: "clip mesh", title: shown }, meshes.length > 1 ? `${meshes.length} stages of ${shown}` : shown);
}

function free(plan) {
  return plan.capacity_bytes - plan.memory_bytes;
}

function memory(plan) {
  const share = Math.min(1, plan.memory_bytes / plan.capacity_bytes);
  const used = `${bytes(plan.memory_bytes)} of ${bytes(plan.capacity_bytes)} used`;
  return [
    h("span", { class: isOverfull(plan) ? "bad" : null }, bytes(free(plan))), " ",
    s("svg", { class: "used", width: BAR, height: 10, role: "img", "aria-label": used },
      s("title", {}, used),
      s("rect", { width: BAR, height: 10, rx: 2, fill: "var(--idle)" }),
      s("rect", { width: BAR * share, height: 10, rx: 2, fill: isOverfull(plan) ? "var(--bad)" : "var(--parameters)" })),
  ];
}

function proof(plan) {
  return [
    verdict(plan), warningTags(plan.warnings), " ",
    { verified: h("span", { class: "tag good" }, "verified"), failed: h("span", { class: "tag bad" }, "wrong") }[plan.certificate] ?? null,
  ];
}
