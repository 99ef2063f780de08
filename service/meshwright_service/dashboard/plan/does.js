// What it does: the mesh on the cluster, the degrees in Megatron's words, the stages.
import { h, link, path } from "../element.js";
import { table } from "../table.js";
import { bytes, count, linkRate, percent, time } from "../units.js";
import { deviceMap } from "./device_map.js";
import { parallelShares } from "./parallel_shares.js";
import { ROLES, topologyPicture } from "./topology_picture.js";

const MOST = 12; // chosen: of what differs from the degrees; the launch export has all

export function does({ overview, entry, topology }) {
  const { stages, uniform } = overview;
  return h(
    "section", { "aria-labelledby": "does" },
    h("h2", { id: "does" }, "What does it do?"),
    degrees(overview),
    overview.differing_kinds
      ? h("details", {},
          h("summary", {}, otherwise(overview.differing)),
          h("ul", {}, uniform.differing.slice(0, MOST).map((own) => h("li", { class: "name" }, h("code", {}, own.name), own.count > 1 ? ` ×${own.count}` : "", `: ${own.what}`))),
          overview.differing_kinds > MOST ? h("p", { class: "muted" }, `and ${count(overview.differing_kinds - MOST)} kinds more.`) : null)
      : h("p", { class: "muted" }, "Every op is as these degrees say."),
    parallelShares(overview),
    h("h3", {}, "The mesh on the cluster"),
    topologyPicture(overview, topology),
    h("div", { class: "columns" }, uniform.pipeline_ranks > 1 ? deviceMap(overview, topology) : null, levels(overview, topology)),
    stages.length > 1 ? stageTable(entry.id, stages) : null,
  );
}

function otherwise(number) {
  return number === 1 ? "One op or parameter is not as these degrees say" : `${count(number)} ops or parameters are not as these degrees say`;
}

function degrees({ uniform, schedule, microbatches, stages }) {
  const { degrees: own } = uniform;
  const said = [
    ["DP", own.dp ?? 1, "data parallel: parts of the batch"],
    ["TP", own.tp, "tensor parallel: columns and rows of weights, heads"],
    ["PP", uniform.pipeline_ranks, "pipeline ranks"],
    ["CP", own.cp, "context parallel: parts of the sequence"],
    ["EP", own.ep, "expert parallel, over devices of DP"],
    ["ZeRO", own.zero, "1: optimizer state, 2: gradients too, 3: parameters too, over DP and CP"],
  ];
  const more = [
    own.sequence_parallel ? "sequence parallel" : null,
    schedule ? `${schedule.kind}${uniform.stages_per_rank > 1 ? `, ${uniform.stages_per_rank} stages a rank` : ""}` : null,
    `${count(microbatches)} microbatch${microbatches > 1 ? "es" : ""}`,
    uniform.copies > 1 ? `${uniform.copies} copies take turns` : null,
    uniform.is_zigzag ? "sequences in zigzag order" : null,
    recomputes(stages),
  ];
  return h(
    "ul", { class: "degrees", "aria-label": "Degrees" },
    said.map(([name, value, says]) => h("li", { class: value > (name === "ZeRO" ? 0 : 1) ? null : "one", title: says }, `${name} `, h("b", {}, count(value)))),
    more.filter(Boolean).map((text) => h("li", {}, text)),
  );
}

function recomputes(stages) {
  const policies = new Set(stages.map((own) => own.recompute ?? "none"));
  const [one] = policies;
  return policies.size > 1 ? `recompute: ${[...policies].join(", ")}` : one === "none" ? "no recompute" : `recompute ${one}`;
}

function levels({ stages }, topology) {
  const [{ mesh, roles }] = stages;
  return table({
    label: "Levels of the cluster and the axes on them",
    rows: topology.levels,
    columns: [
      { title: "Level", value: (own) => own.name },
      { title: "Of so many", number: true, value: (own) => count(own.size) },
      { title: "A device's link", number: true, value: (own) => linkRate(own.link) },
      {
        title: stages.length > 1 ? "Axes of a stage's mesh" : "Axes of the mesh",
        value: (own) => {
          const axes = mesh.axes.map((axis, at) => ({ ...axis, at })).filter((axis) => axis.level === own.name);
          return axes.length
            ? axes.map((axis) => h("span", { class: "axis", title: ROLES[roles?.[axis.name]] }, h("span", { class: "swatch", style: { background: `var(--axis-${axis.at % 8})` } }), `${axis.name} = ${axis.size}${roles?.[axis.name] ? ` (${roles[axis.name]})` : ""}`))
            : h("span", { class: "muted" }, stages.length > 1 ? "pipeline ranks" : "none");
        },
      },
    ],
  });
}

function stageTable(id, stages) {
  return [
    h("h3", {}, "Stages"),
    table({
      label: "Stages", rows: stages,
      columns: [
        { title: "Stage", number: true, value: (own) => own.stage },
        { title: "Rank", number: true, value: (own) => own.pipeline_rank, sort: (own) => own.pipeline_rank },
        { title: "Devices", number: true, value: (own) => `${count(own.first_rank)}–${count(own.first_rank + own.devices - 1)}` },
        { title: "From", value: (own) => h("code", { class: "name" }, own.first) },
        { title: "Ops", number: true, value: (own) => count(own.ops), sort: (own) => own.ops },
        { title: "Forward", number: true, value: (own) => time(own.passes?.forward_ns), sort: (own) => own.passes?.forward_ns },
        { title: "Backward", number: true, value: (own) => time(own.passes && own.passes.inputs_ns + own.passes.weights_ns), sort: (own) => own.passes && own.passes.inputs_ns + own.passes.weights_ns },
        { title: "Once a step", number: true, value: (own) => time(own.passes?.step_ns) },
        { title: "Receives", number: true, value: (own) => (own.received_bytes ? `${bytes(own.received_bytes)} in ${time(own.received_ns)}` : "–") },
        { title: "In flight", number: true, value: (own) => own.in_flight, says: "Microbatches whose activations it holds at one time" },
        { title: "Memory", number: true, value: (own) => `${bytes(own.memory_bytes)} (${percent(own.memory_bytes / own.capacity_bytes)})`, sort: (own) => own.memory_bytes },
      ],
    }),
    h("p", { class: "muted" }, "Forward and backward of one microbatch. Ops by name: ", link(path`/plans/${id}/graph`, "the graph"), "."),
  ];
}
