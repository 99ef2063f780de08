// The parts of a request that one changes to see what would be: each a control over a place in its body.
import { bytes, count, short } from "../../units.js";
import { Field } from "./field.js";
import { choice, flag, names, placed, share, whole } from "./kinds.js";
import { stackFields } from "./stack.js";
import { pipelineFields, strategyFields } from "./strategy.js";

export const GROUPS = [
  { name: "cluster", title: "Cluster" },
  { name: "work", title: "Work of one step" },
  { name: "strategy", title: "Strategy" },
  { name: "pipeline", title: "Pipeline" },
  { name: "memory", title: "Memory" },
  { name: "search", title: "Search" },
  { name: "stack", title: "How it is run" },
];

const RESERVE = 10; // percent, of a setup that says nothing

/** asked: the request of the plan; symbols: of its graph; topologies, calibrations: entries of lists. */
export function fieldsOf({ asked, symbols, topologies, calibrations }) {
  const clusters = named(topologies);
  const cluster = (name) => topologies.find((own) => own.id === clusters.get(name))?.summary;
  return [
    ...clusterFields(asked, clusters, cluster, named(calibrations)),
    ...workFields(asked, symbols),
    ...strategyFields(asked),
    ...pipelineFields(asked),
    ...memoryFields(asked, cluster),
    ...searchFields(asked),
    ...stackFields(asked),
  ];
}

function clusterFields(asked, clusters, cluster, fitted) {
  const group = "cluster";
  return [
    placed({
      name: "topology", label: "Topology", group, offers: [...clusters.keys()], pointer: "/topology", required: true,
      says: "one that is stored, or a preset such as h100-16x8",
      means: (value) => cluster(value) && `${count(cluster(value).devices)} × ${cluster(value).device}`,
      read: (value) => nameOf(clusters, value), named: (value) => nameOf(clusters, value), write: (value) => clusters.get(value) ?? value,
    }, asked),
    placed({
      name: "calibration", label: "Calibration", group, pointer: "/calibration",
      options: [["", "what the service has for the topology"], ...[...fitted.keys()].map((own) => [own, own])],
      read: (value) => nameOf(fitted, value), named: (value) => nameOf(fitted, value), write: (value) => fitted.get(value) ?? value,
      // what was fitted on one cluster says nothing of another
      onFollow: (field, topology) => field.set(topology.isChanged() ? "" : field.original),
    }, asked),
  ];
}

function workFields(asked, { batch, ...sizes }) {
  const group = "work";
  return [
    ...(batch === undefined ? [] : [new Field({
      name: "batch", label: "Global batch", group, type: "number", min: 1, placeholder: batch, pointer: "/setup/global_batch",
      of: ({ setup }) => setup.global_batch ?? setup.symbols?.batch,
      write: ({ setup }, value) => (value === "" ? delete setup.global_batch : (setup.global_batch = Number(value))),
    }, asked)]),
    ...Object.entries(sizes).map(([name, size]) => whole({ name: `size-${name}`, label: name, group, placeholder: size, pointer: `/setup/symbols/${name}` }, asked)),
    whole({ name: "microbatches", label: "Microbatches", group, placeholder: "the fewest that fit", pointer: "/setup/microbatches" }, asked),
  ];
}

function memoryFields(asked, cluster) {
  const group = "memory";
  const zero = "/constraints/optimizer_parallel";
  return [
    share({
      name: "reserve", label: "Kept free", group, min: 0, max: 99, placeholder: RESERVE, pointer: "/setup/memory_reserve",
      says: "of a device, for the framework and fragmentation; more of it is less for the plan",
      means: (value, said) => left(cluster(said("topology"))?.memory_bytes, value === "" ? RESERVE : Number(value)),
    }, asked),
    choice({ name: "recompute", label: "Recompute", group, options: ["auto", "none", "selective", "cheap", "full", "ops", ["stated", "stated ops"]], pointer: "/recompute/policy" }, asked),
    names({ name: "recompute-ops", label: "Stated ops", group, onlyIf: (said) => said("recompute") === "stated", placeholder: "none", pointer: "/recompute/ops", says: "names or modules, apart by blanks; * for any part of a name" }, asked),
    choice({ name: "recompute-communication", label: "Its communication", group, rare: true, onlyIf: (said) => said("recompute") !== "none", pointer: "/recompute/communication", options: [["auto", "as the search finds best"], ["repeat", "runs again"], ["keep", "is saved"]] }, asked),
    whole({ name: "blocks", label: "In blocks", group, min: 0, placeholder: "all", onlyIf: (said) => said("recompute") !== "none" && said("recompute") !== "stated", pointer: "/recompute/blocks", says: "the first so many of each pipeline stage" }, asked),
    choice({
      name: "zero", label: "In shards", group, pointer: `${zero}/level`, onlyIf: (said) => said("stated") === "", write: Number,
      options: [["", "as the search finds best"], ["0", "not (ZeRO 0)"], ["1", "optimizer state (ZeRO 1)"], ["2", "gradients too (ZeRO 2)"], ["3", "values too (ZeRO 3)"]],
    }, asked),
    choice({ name: "offload", label: "On the host", group, options: ["none", "optimizer", "embeddings", "auto"], pointer: "/constraints/offload" }, asked),
    whole({ name: "shard-size", label: "Shards over", unit: "devices", group, rare: true, placeholder: "all", pointer: `${zero}/shard_size` }, asked),
    whole({ name: "threshold", label: "Whole up to", unit: "KiB", group, rare: true, min: 0, placeholder: 64, pointer: `${zero}/threshold_kb`, says: "parameters so small stay whole" }, asked),
    placed({
      name: "accumulation", label: "Summed gradients", group, rare: true, pointer: `${zero}/gradient_accumulation_shard`,
      options: [["", "as the level says"], ["yes", "in shards"], ["no", "whole"]], read: (value) => (value ? "yes" : "no"), write: (value) => value === "yes",
    }, asked),
    flag({ name: "dealt", label: "Where no dim divides", group, rare: true, pointer: `${zero}/whole_parameters`, words: ["repeated on all", "dealt out whole"] }, asked),
    names({ name: "unsharded", label: "Unsharded", group, rare: true, placeholder: "none", pointer: `${zero}/unsharded`, says: "parameters, apart by blanks; * for any part of a name" }, asked),
    names({ name: "sparse", label: "Sparse gradients", group, rare: true, placeholder: "none", pointer: "/constraints/sparse_gradients", says: "tables, apart by blanks; * for any part of a name" }, asked),
  ];
}

function searchFields(asked) {
  const group = "search";
  return [
    choice({ name: "solver", label: "Solver", group, pointer: "/solver", options: ["auto", "dynamic_programming", "recursive_programming", "sharding_propagation", "semi_auto", "exact"] }, asked),
    choice({ name: "rest", label: "Ops without pins", group, pointer: "/rest", onlyIf: (said) => said("solver") === "semi_auto", options: ["data_parallel", "propagate"] }, asked),
    whole({ name: "seconds", label: "At most", unit: "s", group, max: 3600, step: "any", placeholder: 30, pointer: "/budget/seconds" }, asked),
    whole({ name: "axes", label: "Axes of a mesh", group, max: 4, placeholder: 3, pointer: "/budget/max_axes", says: "at most; each one more takes about ten times as long" }, asked),
    flag({ name: "verify", label: "Execution", group, pointer: "/verify", words: ["not asked", "execute the plan too, in numpy"] }, asked),
    placed({
      name: "unrestricted", label: "Without the target", group, rare: true, pointer: "/budget/unrestricted", onlyIf: (said) => said("target") !== "",
      options: [["", "searched too, to say what the target costs"], ["no", "not searched"]], read: (value) => (value === false ? "no" : ""), write: () => false,
    }, asked),
    share({ name: "simplicity", label: "Simpler for", group, rare: true, min: 0, max: 10, placeholder: 0.5, pointer: "/budget/simplicity", says: "more cost than the best, the plan with fewest re-layouts" }, asked),
    placed({ name: "module", label: "Only ops of", group, rare: true, placeholder: "all modules", pointer: "/module", says: "a glob; the others keep their pins, or are data parallel", read: String, write: String }, asked),
    flag({ name: "all-devices", label: "An op is", group, rare: true, pointer: "/constraints/fully_use_devices", words: ["cut as the search finds best", "over all devices, or whole"] }, asked),
    flag({ name: "follow", label: "Element-wise ops", group, rare: true, pointer: "/constraints/elementwise_follow", words: ["as the search finds best", "take inputs as they lie"] }, asked),
    whole({ name: "alignment", label: "Parts are multiples of", group, rare: true, max: 1024, placeholder: 1, pointer: "/constraints/slice_alignment", says: "elements, of products of matrices" }, asked),
  ];
}

function left(capacity, percent) {
  return capacity && `${bytes(capacity * (1 - percent / 100))} of ${bytes(capacity)} for the plan`;
}

/** Ids by name; those of one name are told apart by their ids. */
function named(entries) {
  const made = new Map();
  for (const { id, name } of entries) made.set(!name || made.has(name) ? `${name} ${short(id)}`.trim() : name, id);
  return made;
}

function nameOf(known, id) {
  return [...known].find(([, own]) => own === id)?.[0] ?? id;
}
