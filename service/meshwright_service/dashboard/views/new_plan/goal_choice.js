// The goal of a new plan: a few usual ones, each a choice of fields that stand under More options too.
import { h } from "../../element.js";

const GOALS = [
  { name: "fastest", title: "Fastest plan", says: "any strategy; the runtimes of this project train it", fields: {} },
  { name: "megatron", title: "For Megatron-LM", says: "what its arguments can state", fields: { target: "megatron-core" } },
  { name: "fsdp2", title: "For stock PyTorch", says: "FSDP2 and tensor parallelism", fields: { target: "fsdp2" } },
  { name: "inference", title: "Inference", says: "the forward pass alone; seq 1 with a cache for one token", fields: { phase: "inference" } },
];
const USUAL = { target: "", phase: "training" };

/** {element, follow()}: follow() after every change. */
export function goalChoice(request) {
  const controls = GOALS.map((goal) => h("input", { type: "radio", name: "goal", id: `goal-${goal.name}`, value: goal.name, onchange: () => chosen(goal) }));
  const element = h("fieldset", { class: "goals" }, h("legend", { class: "unseen" }, "Goal"),
    GOALS.map((goal, at) => h("label", {}, controls[at], h("span", {}, goal.title, " ", h("span", { class: "muted" }, goal.says)))));
  return { element, follow };

  function chosen({ fields }) {
    for (const [name, value] of Object.entries({ ...USUAL, ...fields })) request.say(name, value);
  }

  function follow() {
    GOALS.forEach(({ fields }, at) => (controls[at].checked = Object.entries({ ...USUAL, ...fields }).every(([name, value]) => request.field(name).said() === value)));
  }
}
