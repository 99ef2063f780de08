// How the graph is run: what of the setup is neither the work of a step nor its memory.
import { choice, dtype, flag, placed, whole } from "./kinds.js";

const BUCKETS = { all_reduce: "Buckets, all-reduce", all_gather: "Buckets, all-gather", reduce_scatter: "Buckets, reduce-scatter" };

export function stackFields(asked) {
  const group = "stack";
  const trains = (said) => said("phase") === "training";
  return [
    choice({ name: "phase", label: "Phase", group, pointer: "/setup/phase", options: ["training", "inference"] }, asked),
    choice({ name: "execution", label: "Kernels are", group, pointer: "/setup/execution", options: [["compiled", "compiled"], ["eager", "eager"], ["graphs", "compiled, recorded, replayed"]] }, asked),
    choice({ name: "precision", label: "Precision", group, pointer: "/setup/precision", options: [["graph", "as the graph says"], ["fp8_tensorwise", "8 bits, a scale a tensor"], ["fp8_blockwise", "8 bits, a scale a block"], ["mxfp8", "8 bits, MX scales"]] }, asked),
    whole({ name: "context", label: "Cache", unit: "positions", group, onlyIf: (said) => !trains(said), placeholder: "none", pointer: "/setup/cache/context", says: "of keys and values, for every sequence" }, asked),
    dtype({ name: "cache-dtype", label: "Cache holds", group, rare: true, onlyIf: (said) => said("context") !== "", unsaid: ["", "as they are made"], pointer: "/setup/cache/dtype" }, asked),
    choice({ name: "copies", label: "Copies", group, rare: true, pointer: "/setup/copies", options: [["1", "one"], ["2", "two take turns"], ["auto", "two where that is faster"]], write: (value) => (value === "auto" ? value : Number(value)) }, asked),
    choice({ name: "order", label: "Sequence order", group, rare: true, pointer: "/setup/sequence_order", options: ["contiguous", "zigzag"] }, asked),
    whole({ name: "imbalance", label: "Busiest expert", unit: "× the mean", group, rare: true, step: "any", placeholder: 1, pointer: "/setup/expert_imbalance", says: "its tokens over the mean of all" }, asked),
    choice({ name: "dispatch", label: "Tokens travel", group, rare: true, pointer: "/setup/expert_dispatch", options: [["expert", "to each expert"], ["node", "once to each node"]] }, asked),
    whole({ name: "expert-nodes", label: "Nodes of a token", group, rare: true, onlyIf: (said) => said("dispatch") === "node", placeholder: "any", pointer: "/setup/expert_nodes", says: "to which the router sends it at most" }, asked),
    choice({ name: "framework", label: "Software stack", group, rare: true, pointer: "/setup/stack", options: [["", "none stated"], "megatron-core", "megatron-deepspeed", "torchtitan", "llm-foundry", "internevo"] }, asked),
    choice({ name: "uneven", label: "Sizes that do not divide", group, rare: true, pointer: "/setup/uneven", options: [["refuse", "stay whole"], ["chunk", "last parts are short"], ["pad", "are filled up"]] }, asked),
    flag({ name: "all-to-all", label: "All-to-all", group, rare: true, pointer: "/setup/allow_all_to_all", usual: true, words: ["allowed", "not allowed"] }, asked),
    choice({
      name: "dataset", label: "Inputs are loaded", group, rare: true, pointer: "/setup/dataset",
      options: [["any", "each part where it is needed"], ["full_batch", "whole by every device"], ["data_parallel", "cut over all devices"], ...(Array.isArray(asked.setup?.dataset) ? [["cuts", "cut as the request says"]] : [])],
      read: (value) => (Array.isArray(value) ? "cuts" : value),
    }, asked),
    ...Object.entries(BUCKETS).map(([kind, label]) => buckets({ name: `buckets-${kind}`, label, group, rare: true, pointer: `/setup/fusion/${kind}` }, asked)),
    ...optimizer(asked, { group, rare: true, onlyIf: trains }),
  ];
}

function optimizer(asked, given) {
  return [
    placed({ ...given, name: "optimizer", label: "Optimizer", placeholder: "adamw", pointer: "/setup/optimizer/name", read: String, write: String }, asked),
    whole({ ...given, name: "states", label: "Optimizer states", min: 0, max: 64, placeholder: 2, pointer: "/setup/optimizer/states", says: "values that it keeps for an element" }, asked),
    dtype({ ...given, name: "state-dtype", label: "They are", unsaid: "float32", pointer: "/setup/optimizer/state_dtype" }, asked),
    dtype({ ...given, name: "gradient-dtype", label: "Gradients are", unsaid: "float32", pointer: "/setup/gradient_dtype" }, asked),
    masters({ ...given, name: "master-dtype", label: "Master copy", pointer: "/setup/master_dtype" }, asked),
    choice({ ...given, name: "gradients", label: "Over the batch", pointer: "/setup/gradients", options: [["mean", "gradients are the mean"], ["sum", "gradients are the sum"]] }, asked),
  ];
}

// no copy is null, which is said
function masters(given, asked) {
  return choice({
    ...given, nullable: true, options: ["float32", ["none", "none"], "bfloat16", "float16", "float64"],
    read: (value) => value ?? "none", write: (value) => (value === "none" ? null : value),
  }, asked);
}

// as a number of MiB, or the numbers of collectives behind which a group ends
function buckets(given, asked) {
  return placed({
    ...given, placeholder: "25 MiB", pattern: "[0-9]+|after [0-9 ]+", says: "MiB, 0 for none; or after 3 7: groups end behind these collectives",
    read: ({ size_mb: size, index }) => (index?.length ? `after ${index.join(" ")}` : size === undefined || size === null ? "" : String(size)),
    write: (value) => (value.startsWith("after") ? { mode: "index", index: value.match(/\d+/g).map(Number) } : { mode: "size", size_mb: Number(value) }),
  }, asked);
}
