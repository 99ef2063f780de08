// The shelf: plans, newest first.
import { get } from "../api.js";
import { fill, h, path } from "../element.js";
import { empty } from "../states.js";
import { table } from "../table.js";
import { ago, bytes, moment, percent, short, time } from "../units.js";

export async function show({ root, signal, go, title }) {
  title("Plans");
  const { plans } = await get("/v1/plans", { signal });
  if (!plans.length) {
    fill(root, h("h1", {}, "Plans"), empty("No plan yet", "Ask for one: ", h("code", {}, "meshwright plan GRAPH TOPOLOGY --server URL"), " or ", h("code", {}, "POST /v1/plan"), "."));
    return;
  }
  fill(root, h("h1", {}, "Plans"), table({
    label: "Plans", rows: plans, signal, go,
    address: (plan) => path`/plans/${plan.id}`,
    columns: [
      { title: "Plan", value: (plan) => h("span", { class: "name" }, plan.name || short(plan.id)) },
      { title: "Step", number: true, value: (plan) => time(plan.step_ns), sort: (plan) => plan.step_ns },
      { title: "Memory free", number: true, value: (plan) => bytes(plan.capacity_bytes - plan.memory_bytes), sort: (plan) => plan.capacity_bytes - plan.memory_bytes },
      { title: "Gap", number: true, value: (plan) => percent(plan.gap), sort: (plan) => plan.gap },
      { title: "When", value: (plan) => h("time", { datetime: plan.created_at, title: moment(plan.created_at) }, ago(plan.created_at)) },
    ],
  }));
}
