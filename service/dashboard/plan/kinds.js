// What time and memory of a plan are spent on, in the order in which they are drawn: names, colours.

export const TIMES = {
  compute: { name: "compute", colour: "--compute" },
  activation: { name: "waits for activations", colour: "--wait-activation" },
  gradient: { name: "waits for gradients", colour: "--wait-gradient" },
  parameter: { name: "waits for parameters", colour: "--wait-parameter" },
  pipeline: { name: "waits for transfers between stages", colour: "--transfer" },
  host: { name: "waits for the host", colour: "--wait-host" },
  bubble: { name: "bubble", colour: "--bubble" },
};

export const PARTS = {
  parameters: { name: "parameters", colour: "--parameters" },
  gradients: { name: "gradients", colour: "--gradients" },
  optimizer: { name: "optimizer state", colour: "--states" },
  activations: { name: "saved activations", colour: "--activations" },
  cache: { name: "keys and values", colour: "--cache" },
  recomputed: { name: "made again", colour: "--recompute" },
  working: { name: "working", colour: "--temporary" },
  gathered: { name: "gathered", colour: "--gathered" },
  buffers: { name: "buffers of transfers", colour: "--buffers" },
  reserved: { name: "kept free for the framework", colour: "--reserved" },
};

/** The parts of a step, which add up to it. */
export function timesOf(cost) {
  return { compute: cost.compute_ns, ...cost.exposed_ns, bubble: cost.bubble_ns ?? 0 };
}
