// What if: the request of a plan, or of a search, changed and asked again; what comes of it opens beside the plan.
import { get } from "../api.js";
import { fill, h, link, path } from "../element.js";
import { press } from "../keys.js";
import { Problem } from "../problem.js";
import { loading } from "../states.js";
import { changesOf } from "./what_if/changes.js";
import { GROUPS } from "./what_if/fields.js";
import { offersOf, RequestForm, together } from "./what_if/request_form.js";
import { planHead } from "./plan_head.js";

export async function show({ root, params, query, signal, go, keep, title }) {
  const id = params.plan ?? query.get("beside"); // the plan beside which the new one opens, if any
  const head = h("div", {}, params.plan ? planHead(id, "what-if") : null);
  fill(root, head, loading("what the plan was asked by"));
  if (params.plan) get(path`/v1/plans/${id}/overview`, { signal }).then(named, () => null); // the form does not wait for it, nor need it
  const asked = await get(params.plan ? path`/v1/plans/${id}/request` : path`/v1/jobs/${params.job}/request`, { signal });
  if (!asked.graph) throw new Problem({ title: "Nothing to change", detail: "This job asks for no plan." });
  const [graph, offers] = await Promise.all([get(path`/v1/graphs/${asked.graph}/summary`, { signal }), offersOf(signal)]);
  title(`What if: ${graph.name}`);
  if (params.job) fill(head, h("h1", { class: "name" }, graph.name), h("p", { class: "muted" }, "as ", link(path`/jobs/${params.job}`, "a search"), " was asked"));
  const request = new RequestForm({ asked, symbols: graph.summary.symbols, offers, query, onChange: changed });
  const summary = h("div", { class: "changes", role: "status" });
  const ask = h("button", { class: "primary" }, "Plan it");
  const wrong = h("div");
  const form = h(
    "form", { class: "what-if", onsubmit: submitted },
    h("div", { class: "what-if-groups" },
      GROUPS.map((group) => together(group.title, request.group(group.name))),
      together("Pins", request.pins.element)),
    together("What is changed", summary, h("div", { class: "row" }, ask, h("span", { class: "muted" }, id ? "The plan stays as it is; the new one opens beside it." : "A new search; the old one stays as it is.")), wrong),
  );
  fill(root, head, form);
  press({ a: ["ask for the changed plan", () => form.requestSubmit()] }, signal);
  changed();

  function named({ entry }) {
    if (!signal.aborted) fill(head, planHead(id, "what-if", { entry }));
  }

  function changed() {
    request.mean();
    keep(request.address());
    const changes = request.changes();
    fill(summary, changesOf(changes));
    ask.disabled = !changes.length;
  }

  async function submitted(event) {
    event.preventDefault();
    if (ask.disabled) return;
    ask.disabled = true;
    await request.send({ wrong, beside: id, go, signal });
    ask.disabled = false;
  }
}
