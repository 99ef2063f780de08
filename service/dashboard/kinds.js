// Names and colours of collectives, and of the kernels that agents measure.
export const COLLECTIVES = {
  all_reduce: { name: "all-reduce", colour: "--all-reduce" },
  all_gather: { name: "all-gather", colour: "--all-gather" },
  reduce_scatter: { name: "reduce-scatter", colour: "--reduce-scatter" },
  all_to_all: { name: "all-to-all", colour: "--all-to-all" },
  permute: { name: "permute", colour: "--permute" },
  broadcast: { name: "broadcast", colour: "--permute" },
  send: { name: "send", colour: "--transfer" },
};
export const KERNELS = {
  matmul: "products of matrices",
  attention: "attention",
  memory: "memory traffic",
  launch: "launches",
};

/** What people call a kind of sample. */
export function named(kind) {
  return COLLECTIVES[kind]?.name ?? KERNELS[kind] ?? kind;
}

/** A colour for the nth of things that have none of their own. */
export function plain(at) {
  return `--series-${at % 6}`;
}
