// A strategy that is stated instead of searched: degrees in Megatron's words, and the pipeline.
import { TARGETS } from "../../targets.js";
import { choice, flag, names, placed, whole } from "./kinds.js";

const DEGREES = {
  dp: ["Data parallel (dp)", "the rest"],
  tp: ["Tensor parallel (tp)", 1],
  cp: ["Context parallel (cp)", 1],
  ep: ["Expert parallel (ep)", 1],
};

export function strategyFields(asked) {
  const group = "strategy";
  const onlyIf = (said) => said("target") === "" && said("stated") === "stated";
  return [
    choice({ name: "target", label: "Framework", group, pointer: "/target", options: [["", "any strategy"], ...TARGETS] }, asked),
    placed({
      name: "stated", label: "Strategy", group, onlyIf: (said) => said("target") === "", pointer: "/degrees", options: [["", "the search finds it"], ["stated", "as the degrees say"]],
      read: () => "stated", write: () => ({}),
      means: (value) => value && "What the degrees leave open is searched; it is answered whether it fits or not.",
    }, asked),
    ...Object.entries(DEGREES).map(([name, [label, placeholder]]) => whole({ name, label, group, onlyIf, placeholder, pointer: `/degrees/${name}` }, asked)),
    placed({
      name: "degrees-zero", label: "ZeRO", group, onlyIf, pointer: "/degrees/zero", unsaid: "0", read: String, write: Number,
      options: [["0", "0: nothing in shards"], ["1", "1: optimizer state"], ["2", "2: gradients too"], ["3", "3: parameters too"]],
    }, asked),
    flag({ name: "sequence-parallel", label: "Sequence parallel", group, onlyIf, pointer: "/degrees/sequence_parallel", words: ["no", "over the devices of tp"] }, asked),
  ];
}

export function pipelineFields(asked) {
  const group = "pipeline";
  const onlyIf = (said) => said("pipeline") !== "1";
  return [
    placed({
      name: "pipeline", label: "Pipeline ranks", group, pointer: "/pipeline/ranks", says: "a number, or auto; 1: no pipeline", placeholder: "auto", pattern: "[0-9]*|auto", nullable: true,
      read: (value) => (value === null ? "auto" : String(value)), write: (value) => (value === "auto" ? null : Number(value)),
    }, asked),
    choice({
      name: "schedule", label: "Schedule", group, onlyIf, pointer: "/pipeline/schedule",
      options: [["", "the fastest that fits"], ["gpipe", "GPipe"], ["1f1b", "1F1B"], ["interleaved_1f1b", "interleaved 1F1B"], ["zb_h1", "zero bubble H1"], ["zb_v", "zero bubble V"]],
    }, asked),
    whole({ name: "stages-per-rank", label: "Stages a rank", group, onlyIf, placeholder: "the best", max: 32, pointer: "/pipeline/stages_per_rank", says: "more than one with interleaved 1F1B, two with zero bubble V" }, asked),
    names({ name: "cuts", label: "Cuts", group, onlyIf, placeholder: "as the search finds best", pointer: "/pipeline/cuts", says: "the op with which each stage but the first begins, apart by blanks" }, asked),
    placed({
      name: "stage-layers", label: "Layers of stages", group, onlyIf, pointer: "/pipeline/layers", says: "layers of every stage, as 7,8,8,9; * for an equal part of the rest", placeholder: "as the search finds best", pattern: "([1-9][0-9]*|\\*)(,([1-9][0-9]*|\\*))*", nullable: true,
      read: (value) => (value ?? []).map((count) => count ?? "*").join(","), write: (value) => (value ? value.split(",").map((count) => (count === "*" ? null : Number(count))) : null),
    }, asked),
  ];
}
