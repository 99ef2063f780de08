// Plans in a list: the numbers by which people choose.
import { h, link, path, s } from "../../element.js";
import { table } from "../../table.js";
import { bytes, count, known, number, percent, short, time } from "../../units.js";
import { isOverfull, verdict, warningTags } from "../../verdict.js";
import { labels } from "./labels.js";
import { when } from "./when.js";

const BAR = 40; // pixels of a device's memory

/** The columns that can be chosen: {id, title, says}. */
export const CHOICES = [
  ["topology", "Topology"], ["batch", "Batch"], ["devices", "Devices"], ["degrees", "Degrees", "of most of the arithmetic; ≈: some ops differ"],
  ["differs", "Differs in", "the options that the request states and not all plans of the graph do"], ["microbatches", "Microbatches"], ["recompute", "Recompute"],
  ["step", "Step"], ["throughput", "Throughput"], ["device", "A device", "throughput of one device"], ["utilization", "MFU", "model FLOPs utilization"],
  ["memory", "Memory free", "of the device with the highest peak, beyond the reserve"], ["gap", "Gap", "of the step to the bound on every configuration that the request allows"],
  ["proof", "Proof"], ["labels", "Labels"], ["stored", "Stored"],
].map(([id, title, says]) => ({ id, title, says }));
export const DEFAULTS = CHOICES.map(({ id }) => id).filter((id) => !["devices", "microbatches", "recompute"].includes(id));

/** columns: the ids of the columns that are shown. */
export function plansTable(rows, { go, signal, chosen, editable, remote, columns }) {
  const withKeys = rows.some((plan) => plan.key);
  const rate = rows.some((plan) => known(plan.figures?.tokens_per_s)) ? "Tokens/s" : "Samples/s";
  const cells = {
    topology: { value: (plan) => link(path`/topologies/${plan.topology}`, h("span", { class: "clip topology", title: plan.topology_name }, plan.topology_name || short(plan.topology))) },
    batch: { number: true, value: (plan) => count(plan.figures?.batch), by: "batch" },
    devices: { number: true, value: (plan) => count(plan.figures?.devices), by: "devices" },
    degrees: { value: degrees },
    microbatches: { number: true, value: (plan) => count(plan.figures?.microbatches) },
    recompute: { value: (plan) => plan.figures?.recompute ?? "–" },
    step: { number: true, value: (plan) => time(plan.step_ns), by: "step", ascends: true },
    throughput: { title: rate, number: true, value: (plan) => count(plan.figures?.tokens_per_s ?? plan.figures?.samples_per_s), by: "throughput" },
    device: { number: true, value: (plan) => perDevice(plan.figures), by: "device_throughput" },
    utilization: { number: true, value: (plan) => percent(plan.figures?.utilization), by: "utilization" },
    memory: { number: true, value: memory, by: "headroom" },
    gap: { number: true, value: (plan) => percent(plan.step_gap ?? plan.gap) },
    proof: { value: proof },
    labels: { value: (plan) => labels(plan, { editable }) },
    stored: { value: (plan) => when(plan.created_at), by: "created" },
  };
  const key = { title: "Key", says: "that requested the plan first", value: (plan) => plan.key_name ? h("span", { class: "clip who", title: plan.key_name }, plan.key_name) : "–" };
  const shown = CHOICES.filter(({ id }) => columns.has(id) && cells[id]).flatMap((choice) => [...(choice.id === "stored" && withKeys ? [key] : []), { ...choice, ...cells[choice.id] }]);
  return table({
    label: "Plans", rows, signal, go, remote, key: (plan) => plan.id,
    address: (plan) => path`/plans/${plan.id}`,
    columns: [
      { title: h("span", { class: "unseen" }, "Select"), value: chosen.box },
      { title: "Model", value: (plan) => [link(path`/plans/${plan.id}`, h("span", { class: "clip model", title: plan.name }, plan.name || short(plan.id))), columns.has("differs") ? differs(plan) : null] },
      ...shown,
    ],
  });
}

/** The options that tell the plan from the others of its graph, below its name. */
function differs({ differs_in: text }) {
  return text ? h("div", {}, h("span", { class: "clip differs muted", title: `Differs in: ${text}` }, text)) : null;
}

/** The degrees and the target; of a plan of an earlier version the mesh. */
function degrees(plan) {
  const target = plan.target ? [" ", h("span", { class: "tag" }, plan.target)] : null;
  if (!plan.figures) return [mesh(plan), target];
  const text = (plan.figures.differing ? "≈ " : "") + plan.figures.degrees;
  return [h("span", { class: "clip mesh", title: text }, text), target];
}

function perDevice(figures) {
  const rate = figures?.tokens_per_s ?? figures?.samples_per_s;
  return known(rate) ? number(rate / figures.devices) : "–";
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
