// What if: the request of a plan, or of a search, changed and asked again; what comes of it opens beside the plan.
// Of a graph it is a request that says nothing yet.
import { get, pages, send } from "../api.js";
import { fill, h, link, path } from "../element.js";
import { press } from "../keys.js";
import { Problem } from "../problem.js";
import { failed, loading } from "../states.js";
import { count } from "../units.js";
import { changesOf } from "./what_if/changes.js";
import { fieldsOf, GROUPS } from "./what_if/fields.js";
import { pinsOf } from "./what_if/pins.js";
import { planHead } from "./plan_head.js";

const MOST = 200; // chosen: of topologies and calibrations that a list offers

export async function show({ root, params, query, signal, go, keep, title }) {
  const id = params.plan ?? query.get("beside"); // the plan beside which the new one opens, if any
  const head = h("div", {}, params.plan ? planHead(id, "what-if") : null);
  fill(root, head, loading("what the plan was asked by"));
  if (params.plan) get(path`/v1/plans/${id}/overview`, { signal }).then(named, () => null); // the form does not wait for it, nor need it
  const asked = params.graph ? { graph: params.graph, topology: "", setup: {} } : await get(params.plan ? path`/v1/plans/${id}/request` : path`/v1/jobs/${params.job}/request`, { signal });
  if (!asked.graph) throw new Problem({ title: "Nothing to change", detail: "This job asks for no plan." });
  const [graph, topologies, calibrations] = await Promise.all([
    get(path`/v1/graphs/${asked.graph}/summary`, { signal }),
    some("/v1/topologies", "topologies", signal),
    some("/v1/calibrations", "calibrations", signal),
  ]);
  title(params.graph ? `Plan ${graph.name}` : `What if: ${graph.name}`);
  if (params.graph) fill(head, h("h1", {}, "Plan ", h("span", { class: "name" }, graph.name)), h("p", { class: "muted" }, `${count(graph.summary.ops)} ops, ${count(graph.summary.parameter_elements)} parameters. A topology is enough; the rest has defaults.`));
  if (params.job) fill(head, h("h1", { class: "name" }, graph.name), h("p", { class: "muted" }, "as ", link(path`/jobs/${params.job}`, "a search"), " was asked"));
  const fields = fieldsOf({ asked, symbols: graph.summary.symbols, topologies, calibrations });
  for (const field of fields) field.take(query.get(field.name), changed);
  const pins = pinsOf(asked.pins ?? [], { added: query.getAll("pin"), removed: query.getAll("unpin"), onChange: changed });
  const summary = h("div", { class: "changes", role: "status" });
  const ask = h("button", { class: "primary" }, "Plan it");
  const wrong = h("div");
  const form = h(
    "form", { class: "what-if", onsubmit: submitted },
    h("div", { class: "what-if-groups" },
      GROUPS.map((group) => together(group.title, grouped(fields.filter((field) => field.group === group.name)))),
      together("Pins", pins.element)),
    together(params.graph ? "What is asked" : "What is changed", summary, h("div", { class: "row" }, ask, h("span", { class: "muted" }, hint(params, id))), wrong),
  );
  fill(root, head, form);
  press({ a: ["ask for the changed plan", () => form.requestSubmit()] }, signal);
  changed();

  function named({ entry }) {
    if (!signal.aborted) fill(head, planHead(id, "what-if", { entry }));
  }

  function body() {
    const made = structuredClone(asked);
    for (const field of fields) field.into(made);
    made.pins = pins.pins();
    if (!made.pins.length) delete made.pins;
    return made;
  }

  function changed(field) {
    if (field?.name === "topology") fields.find((own) => own.name === "calibration").follow(field);
    for (const own of fields) own.mean((name) => fields.find((other) => other.name === name)?.said() ?? "");
    keep({ ...Object.fromEntries(fields.map((own) => [own.name, own.isChanged() ? own.said() : null])), pin: pins.added(), unpin: pins.removed() });
    const changes = [...fields.flatMap((own) => own.change()), ...pins.changes()];
    const found = params.graph ? changes.map(({ name, to }) => ({ name, to })) : changes; // nothing was said before
    fill(summary, changesOf(found, params.graph && "Nothing yet: choose a topology."));
    ask.disabled = !found.length;
  }

  async function submitted(event) {
    event.preventDefault();
    fill(wrong);
    for (const field of fields) field.fault(null);
    if (ask.disabled) return;
    ask.disabled = true;
    try {
      const answer = await send("POST", "/v1/plan", body(), { signal });
      if (signal.aborted) return;
      const plan = answer.headers.get("content-location")?.split("/").at(-1);
      const job = answer.headers.get("location")?.split("/").at(-1);
      if (plan === id) fill(wrong, h("p", { class: "warn", role: "alert" }, "It comes to this very plan: the change makes no difference."));
      else if (plan) go(id ? path`/compare?plan=${id}&plan=${plan}` : path`/plans/${plan}`);
      else go(path`/jobs/${job}` + (id ? path`?beside=${id}` : ""));
    } catch (error) {
      if (signal.aborted) return;
      fill(wrong, failed(error));
      for (const { pointer, detail } of [...(error.errors ?? [])].reverse()) fieldAt(fields, pointer ?? "")?.fault(detail);
    }
    ask.disabled = false;
  }
}

function hint({ graph }, beside) {
  if (graph) return "The search opens, and the plan that it finds.";
  return beside ? "The plan stays as it is; the new one opens beside it." : "A new search; the old one stays as it is.";
}

/** The field of a place in the request, of what it is in, or the first of what is in it. */
function fieldAt(fields, pointer) {
  const within = fields.filter((field) => `${pointer}/`.startsWith(`${field.pointer}/`));
  const nearest = within.reduce((best, field) => (!best || field.pointer.length > best.pointer.length ? field : best), null);
  const isPart = pointer.split("/").length > 2; // what is said of all of the setup is of no one field
  return nearest ?? (isPart ? fields.find((field) => field.pointer.startsWith(`${pointer}/`)) : undefined);
}

/** What few look for stands behind a line, unless something of it is said. */
function grouped(fields) {
  const rare = fields.filter((field) => field.rare);
  return [
    fields.filter((field) => !field.rare).map((field) => field.element),
    rare.length ? h("details", { open: rare.some((field) => field.isSaid()) }, h("summary", {}, `${rare.length} more`), rare.map((field) => field.element)) : null,
  ];
}

function together(title, ...content) {
  return h("div", { class: "card", role: "group", "aria-label": title }, h("h2", {}, title), content);
}

async function some(address, noun, signal) {
  const found = [];
  for await (const one of pages(address, noun, { signal, query: { page_size: MOST } })) if (found.push(one) >= MOST) break;
  return found;
}
