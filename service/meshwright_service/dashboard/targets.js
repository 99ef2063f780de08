// Frameworks that a search may be for, in the order of lists.
export const TARGETS = ["megatron-core", "torchtitan", "fsdp2", "accelerate", "deepspeed", "mindformers"];
