// What time and memory go to: names and colours, in the order in which they are drawn.

/** Of a step. */
export const TIMES = {
  compute: { name: "compute", colour: "--compute" },
  activation: { name: "waits for activations", colour: "--wait-activation" },
  gradient: { name: "waits for gradients", colour: "--wait-gradient" },
  parameter: { name: "waits for parameters", colour: "--wait-parameter" },
  pipeline: { name: "waits for transfers between stages", colour: "--transfer" },
  host: { name: "waits for the host", colour: "--wait-host" },
  bubble: { name: "bubble", colour: "--bubble" },
};

/** Of passes, by their letters; again: forward ops that a backward pass recomputes. */
export const PASSES = {
  F: { name: "forward passes", colour: "--compute" },
  B: { name: "backward passes", colour: "--backward" },
  I: { name: "backward passes for inputs", colour: "--backward" },
  W: { name: "backward passes for weights", colour: "--weights" },
  again: { name: "recomputed forward ops", colour: "--compute", alpha: 0.6 },
};

/** Of a device's memory. */
export const PARTS = {
  parameters: { name: "parameters", colour: "--parameters" },
  gradients: { name: "gradients", colour: "--gradients" },
  optimizer: { name: "optimizer state", colour: "--states" },
  activations: { name: "saved activations", colour: "--activations" },
  cache: { name: "keys and values", colour: "--cache" },
  recomputed: { name: "recomputed activations", colour: "--made-again" },
  working: { name: "working memory", colour: "--temporary" },
  gathered: { name: "gathered parameters, unreduced gradients", colour: "--gathered" },
  buffers: { name: "buffers of transfers", colour: "--buffers" },
  reserved: { name: "reserve for the framework", colour: "--reserved" },
};

/** Of what moves. */
export const COLLECTIVES = {
  all_reduce: { name: "all-reduce", colour: "--all-reduce" },
  all_gather: { name: "all-gather", colour: "--all-gather" },
  reduce_scatter: { name: "reduce-scatter", colour: "--reduce-scatter" },
  all_to_all: { name: "all-to-all", colour: "--all-to-all" },
  permute: { name: "permute", colour: "--permute" },
  broadcast: { name: "broadcast", colour: "--permute" },
  send: { name: "send", colour: "--transfer" },
};

/** Of what agents measure beside collectives. */
export const KERNELS = {
  matmul: "products of matrices",
  attention: "attention",
  memory: "memory traffic",
  launch: "launches",
};

/** The parts of a step, which add up to it. */
export function timesOf(cost) {
  return { compute: cost.compute_ns, ...cost.exposed_ns, bubble: cost.bubble_ns ?? 0 };
}

/** What people call a kind of sample. */
export function named(kind) {
  return COLLECTIVES[kind]?.name ?? KERNELS[kind] ?? kind;
}

/** A colour for the nth of things that have none of their own. */
export function plain(at) {
  return `--series-${at % 6}`;
}
