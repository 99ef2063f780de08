// The parts of a request that one changes to see what would be: each a control over a place in its body.
import { bytes, count, short } from "../../units.js";
import { Field } from "./field.js";

export const GROUPS = [
  { name: "cluster", title: "Cluster" },
  { name: "work", title: "Work of one step" },
  { name: "memory", title: "Memory" },
  { name: "search", title: "Search" },
];

const RESERVE = 0.1; // of a setup that says nothing
const DEFAULT = { recompute: "none", offload: "none", solver: "auto", axes: "3", pipeline: "1" };
const words = (names) => names.map((name) => [name, name.replaceAll("_", " ")]);

/** asked: the request of the plan; symbols: of its graph; topologies, calibrations: entries of lists. */
export function fieldsOf({ asked, symbols, topologies, calibrations }) {
  const clusters = named(topologies);
  const fitted = named(calibrations);
  const cluster = (name) => topologies.find((own) => own.id === clusters.get(name))?.summary;
  const { batch, ...others } = symbols;
  const sizes = Object.entries(others).map(([name, size]) => new Field({
    name: `size-${name}`, label: name, group: "work", type: "number", min: 1, placeholder: size, pointer: `/setup/symbols/${name}`,
    of: (body) => body.setup.symbols?.[name], write: (body, value) => place(body.setup, "symbols", name, number(value)),
  }, asked));
  return [
    new Field({
      name: "topology", label: "Topology", group: "cluster", offers: [...clusters.keys()], pointer: "/topology", required: true,
      says: "one that is stored, or a preset such as h100-16x8",
      means: (value) => cluster(value) && `${count(cluster(value).devices)} × ${cluster(value).device}`,
      of: (body) => nameOf(clusters, body.topology), write: (body, value) => (body.topology = clusters.get(value) ?? value),
    }, asked),
    new Field({
      name: "calibration", label: "Calibration", group: "cluster", pointer: "/calibration",
      options: [["", "what the service has for the topology"], ...[...fitted.keys()].map((own) => [own, own])],
      of: (body) => body.calibration && nameOf(fitted, body.calibration), write: (body, value) => put(body, "calibration", value && (fitted.get(value) ?? value)),
      // what was fitted on one cluster says nothing of another
      onFollow: (field, topology) => field.set(topology.isChanged() ? "" : field.original),
    }, asked),
    ...(batch === undefined ? [] : [new Field({
      name: "batch", label: "Global batch", group: "work", type: "number", min: 1, placeholder: batch, pointer: "/setup/global_batch",
      of: (body) => body.setup.global_batch ?? body.setup.symbols?.batch, write: (body, value) => put(body.setup, "global_batch", number(value)),
    }, asked)]),
    ...sizes,
    new Field({
      name: "microbatches", label: "Microbatches", group: "work", type: "number", min: 1, placeholder: "the fewest that fit", pointer: "/setup/microbatches",
      of: (body) => body.setup.microbatches, write: (body, value) => put(body.setup, "microbatches", number(value)),
    }, asked),
    new Field({
      name: "pipeline", label: "Pipeline ranks", group: "work", pointer: "/pipeline", says: "a number, or auto", placeholder: DEFAULT.pipeline, pattern: "[0-9]*|auto",
      of: ({ pipeline }) => pipeline && (pipeline.ranks === null ? "auto" : pipeline.ranks),
      write: (body, value) => put(body, "pipeline", value && { ...body.pipeline, ranks: value === "auto" ? null : Number(value) }),
    }, asked),
    new Field({
      name: "reserve", label: "Kept free", unit: "%", group: "memory", type: "number", min: 0, max: 99, step: "any", placeholder: 100 * RESERVE, pointer: "/setup/memory_reserve",
      says: "of a device, for the framework and fragmentation; more of it is less for the plan",
      of: (body) => body.setup.memory_reserve === undefined ? undefined : tidy(100 * body.setup.memory_reserve),
      write: (body, value) => put(body.setup, "memory_reserve", value && Number(value) / 100),
      means: (value, others) => left(cluster(others("topology"))?.memory_bytes, value === "" ? RESERVE : value / 100),
    }, asked),
    new Field({
      name: "recompute", label: "Recompute", group: "memory", options: words(["none", "selective", "cheap", "full", "ops", "auto"]), pointer: "/recompute",
      of: (body) => body.recompute?.policy ?? DEFAULT.recompute, write: (body, value) => put(body, "recompute", { ...body.recompute, policy: value }),
    }, asked),
    new Field({
      name: "zero", label: "In shards", group: "memory", pointer: "/constraints/optimizer_parallel",
      options: [["", "as the search finds best"], ["0", "not (ZeRO 0)"], ["1", "optimizer state (ZeRO 1)"], ["2", "gradients too (ZeRO 2)"], ["3", "values too (ZeRO 3)"]],
      of: (body) => body.constraints?.optimizer_parallel?.level,
      write: (body, value) => place(body, "constraints", "optimizer_parallel", value === "" ? "" : { ...body.constraints?.optimizer_parallel, level: Number(value) }),
    }, asked),
    new Field({
      name: "offload", label: "On the host", group: "memory", options: words(["none", "optimizer", "embeddings", "auto"]), pointer: "/constraints/offload",
      of: (body) => body.constraints?.offload ?? DEFAULT.offload, write: (body, value) => place(body, "constraints", "offload", value),
    }, asked),
    new Field({
      name: "solver", label: "Solver", group: "search", pointer: "/solver",
      options: words(["auto", "dynamic_programming", "recursive_programming", "sharding_propagation", "semi_auto", "exact"]),
      of: (body) => body.solver ?? DEFAULT.solver, write: (body, value) => put(body, "solver", value),
    }, asked),
    new Field({
      name: "seconds", label: "At most", unit: "s", group: "search", type: "number", min: 1, max: 3600, step: "any", placeholder: "no limit", pointer: "/budget/seconds",
      of: (body) => body.budget?.seconds, write: (body, value) => place(body, "budget", "seconds", number(value)),
    }, asked),
    new Field({
      name: "axes", label: "Axes of a mesh", group: "search", type: "number", min: 1, max: 4, placeholder: DEFAULT.axes, pointer: "/budget/max_axes",
      says: "at most; each one more takes about ten times as long",
      of: (body) => body.budget?.max_axes, write: (body, value) => place(body, "budget", "max_axes", number(value)),
    }, asked),
    new Field({
      name: "verify", label: "Execution", group: "search", options: [["", "not asked"], ["yes", "execute the plan too, in numpy"]], pointer: "/verify",
      of: (body) => body.verify && "yes", write: (body, value) => put(body, "verify", value && true),
    }, asked),
  ];
}

function left(capacity, reserve) {
  return capacity && `${bytes(capacity * (1 - reserve))} of ${bytes(capacity)} for the plan`;
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

function put(body, name, value) {
  if (value === "" || value === undefined) delete body[name];
  else body[name] = value;
}

function place(body, part, name, value) {
  body[part] = { ...body[part] };
  put(body[part], name, value);
}

function number(value) {
  return value === "" ? "" : Number(value);
}

/** A share that was written as 0.1 is 10 percent, not 10.000000000000002. */
function tidy(value) {
  return Number(value.toFixed(6));
}
