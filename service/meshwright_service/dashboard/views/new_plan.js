// A new plan: of which graph, on which devices, for what; all else has defaults and is folded.
import { get, pages } from "../api.js";
import { may } from "../caller.js";
import { fill, h, path } from "../element.js";
import { press } from "../keys.js";
import { loading } from "../states.js";
import { count, bytes } from "../units.js";
import { deviceChoice } from "./new_plan/device_choice.js";
import { goalChoice } from "./new_plan/goal_choice.js";
import { graphChoice } from "./new_plan/graph_choice.js";
import { changesOf } from "./what_if/changes.js";
import { GROUPS } from "./what_if/fields.js";
import { offersOf, RequestForm, together } from "./what_if/request_form.js";

const GOALS = ["target", "phase", "context"]; // fields that stand with the goal
const MOST = 200; // chosen: of stored graphs that a list offers

export async function show({ root, params, query, signal, go, keep, title }) {
  const id = params.graph ?? query.get("graph");
  title("New plan");
  fill(root, h("h1", {}, "New plan"), loading("graphs and devices"));
  const [graph, graphs, { examples }, { presets }, offers, mayPlan] = await Promise.all([
    id ? get(path`/v1/graphs/${id}/summary`, { signal }) : null,
    stored(signal),
    get("/v1/examples", { signal }),
    get("/v1/presets", { signal }),
    offersOf(signal),
    may("plan"),
  ]);
  if (graph) title(`Plan ${graph.name}`);
  const { batch, ...sizes } = graph?.summary.symbols ?? {};
  const first = [batch === undefined ? null : "batch", ...Object.keys(sizes).map((name) => `size-${name}`)].filter(Boolean);
  const request = new RequestForm({ asked: { graph: id, topology: "", setup: {} }, symbols: graph?.summary.symbols ?? {}, offers, query, onChange: changed });
  const devices = deviceChoice({ presets, request, topologies: offers.topologies, signal });
  const goals = goalChoice(request);
  const summary = h("div", { class: "changes", role: "status" });
  const ask = h("button", { class: "primary" }, "Plan it");
  const wrong = h("div");
  const form = h(
    "form", { class: "what-if new-plan", onsubmit: submitted },
    together("Model", graph ? h("p", {}, h("strong", { class: "name" }, graph.name), `: ${count(graph.summary.ops)} ops, ${count(graph.summary.parameter_elements)} parameters, ${bytes(graph.summary.parameter_bytes)}.`) : null,
      graphChoice({ root, id, graphs, examples, mayPlan, signal, onChosen: chosen })),
    together("Devices", devices.element),
    together("Goal", goals.element, first.map((name) => request.field(name).element), request.field("context").element),
    h("details", { class: "more", open: isMoreSaid([...first, ...GOALS]) }, h("summary", {}, "More options"),
      h("div", { class: "what-if-groups" },
        GROUPS.map((group) => together(group.title, request.group(group.name, ["topology", "context", ...first]))),
        together("Pins", request.pins.element))),
    together("What is asked", summary, h("div", { class: "row" }, ask, h("span", { class: "muted" }, "The search opens, and the plan that it finds.")), wrong),
  );
  fill(root, h("h1", {}, graph ? ["Plan ", h("span", { class: "name" }, graph.name)] : "New plan"), form);
  press({ a: ["ask for the plan", () => form.requestSubmit()] }, signal);
  changed();

  function changed() {
    request.mean();
    keep(request.address());
    devices.follow();
    goals.follow();
    const changes = request.changes().map(({ name, to }) => ({ name, to })); // nothing was said before
    const isReady = Boolean(graph) && request.field("topology").said() !== "";
    fill(summary, isReady ? changesOf(changes) : h("p", { class: "muted" }, graph ? "Nothing yet: choose devices." : "Nothing yet: choose a model."));
    ask.disabled = !isReady || !mayPlan;
  }

  /** Another graph: what else the address says stays. */
  function chosen(next) {
    const rest = new URLSearchParams(location.search);
    rest.set("graph", next);
    go(`/new?${rest}`);
  }

  function isMoreSaid(without) {
    return request.fields.some((field) => field.name !== "topology" && !without.includes(field.name) && field.isChanged()) || request.pins.added().length > 0;
  }

  async function submitted(event) {
    event.preventDefault();
    if (ask.disabled) return;
    ask.disabled = true;
    await request.send({ wrong, beside: null, go, signal });
    ask.disabled = false;
  }
}

async function stored(signal) {
  const found = [];
  for await (const own of pages("/v1/graphs", "graphs", { signal, query: { page_size: MOST } })) if (found.push(own) >= MOST) break;
  return found;
}
