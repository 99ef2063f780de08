// Ops of repeated modules: names that differ in numbers, and the glob that matches all of them.

/** The glob of the ops that repeat one: model.layers.3.mlp.up -> model.layers.*.mlp.up; null where no part is a number. */
export function globOf(op) {
  const glob = op.split(".").map((part) => (/^\d+$/.test(part) ? "*" : part)).join(".");
  return glob === op ? null : glob;
}

/** One pattern for the names of equal ops, * where they differ; the first name where they have no common form. */
export function pattern(ops) {
  const [first, ...others] = ops.map((op) => op.split("."));
  if (others.some((parts) => parts.length !== first.length)) return ops[0];
  return first.map((part, at) => (others.every((parts) => parts[at] === part) ? part : "*")).join(".");
}
