// A plan, in the order in which one would ask: does it fit, how fast is it, what does it do, how sure is that.
import { download, get } from "../api.js";
import { may } from "../caller.js";
import { fill, h, link, path } from "../element.js";
import { does } from "../plan/does.js";
import { fast } from "../plan/fast.js";
import { fits } from "../plan/fits.js";
import { execution, mark, proof } from "../plan/proof.js";
import { removal } from "../plan/removal.js";
import { failed, loading } from "../states.js";
import { bytes, count, percent, time } from "../units.js";
import { isOverfull, verdictOf } from "../verdict.js";
import { planHead } from "./plan_head.js";
import { labels } from "./plans/labels.js";

export async function show({ root, params, query, signal, keep, title, go }) {
  const id = params.plan;
  fill(root, planHead(id, ""), loading("the plan"));
  const memory = fits(id, { signal, query, keep }).catch((problem) => problem);
  const rights = Promise.all([may("plan"), may("admin")]);
  const found = await get(path`/v1/plans/${id}/overview`, { signal });
  const [mayLabel, mayDelete] = await rights;
  title(found.entry.name || "Plan");
  fill(
    root,
    planHead(id, "", { entry: found.entry, title: `${found.entry.name || "Plan"} on ${found.overview.topology_name}`, warnings: found.overview.warnings }),
    warnings(found.overview),
    h("div", { class: "row called" }, h("span", { class: "muted" }, "Labels"), labels(found.entry, { editable: mayLabel })),
    answers(found),
    h("div", { class: "beside" }, await memory.then((made) => { if (made instanceof Error) throw made; return made; }), fast(found)),
    does(found),
    proof(found),
    files(id, found.entry, signal),
    mayDelete ? removal(found, { signal, gone: () => go("/") }) : null,
  );
}

// The first line is of idle devices; all others stand below it.
function warnings({ warnings: all }) {
  const idle = all.filter((warning) => warning.code === "idle-devices");
  const others = all.filter((warning) => warning.code !== "idle-devices");
  return [
    idle.map((warning) => h("p", { class: "state failed", role: "alert" }, warning.text)),
    others.length ? h("ul", { class: "warnings", "aria-label": "Warnings" }, others.map((warning) => h("li", {}, mark("warn", warning.code.replaceAll("-", " ")), ` ${warning.text}`))) : null,
  ];
}

function answers({ overview, entry, certificate, observations }) {
  const left = entry.capacity_bytes - entry.memory_bytes;
  const share = entry.memory_bytes / entry.capacity_bytes;
  const measured = observations[0];
  const rates = [
    overview.samples_per_s ? `${count(overview.samples_per_s)} samples/s` : null,
    overview.tokens_per_s ? `${count(overview.tokens_per_s)} tokens/s` : null,
  ].filter(Boolean).join(", ");
  const devices = Math.max(...overview.stages.map((own) => own.first_rank + own.devices));
  return h(
    "div", { class: "answers" },
    isOverfull(entry)
      ? card("Memory", h("span", { class: "bad" }, bytes(-left)), [" more than the ", bytes(entry.capacity_bytes), " of a device"], mark("bad", `${percent(share)} taken`))
      : card("Fits", bytes(left), [" free of ", bytes(entry.capacity_bytes)], [mark(share > 0.97 ? "warn" : "good", `${percent(share)} taken`), overview.fits_probability === null ? null : h("span", { class: "muted" }, ` fits with probability ${overview.fits_probability.toFixed(2)}`)]),
    card("One step", time(entry.step_ns), measured ? null : likely(overview.step_interval_ns), measured ? h("span", {}, `measured ${time(measured.observation.step_ns)}`) : h("span", { class: "muted" }, rates || "not measured")),
    card("Devices", count(devices), [` in ${count(overview.uniform.pipeline_ranks)} pipeline rank${overview.uniform.pipeline_ranks > 1 ? "s" : ""}`], h("span", { class: "muted" }, `${percent(overview.cost.compute_ns / overview.cost.step_ns)} of the step is compute`)),
    !overview.utilization ? null : card("Utilization", percent(overview.utilization), " of the peak, by model FLOPs", h("span", { class: "muted" }, overview.tokens_per_s_per_device ? `${count(overview.tokens_per_s_per_device)} tokens/s per device` : "")),
    card("Proof", h("span", { class: verdictOf({ ...entry, warnings: overview.warnings }).kind }, verdictOf(entry).word), [` objective ${overview.search.outcome}`, overview.warnings.length ? `, ${overview.warnings.length} warning${overview.warnings.length > 1 ? "s" : ""}` : null], certificate ? execution(certificate)[0] : h("span", { class: "muted" }, "execution not asked")),
  );
}

/** interval: in which 80 % of published steps lie around their prediction, in ns. */
function likely(interval) {
  return interval ? ` predicted, 80 % within ${time(interval[0])} to ${time(interval[1])}` : " predicted";
}

function card(title, big, beside, below) {
  return h("div", { class: "card" }, h("h2", {}, title), h("p", {}, h("span", { class: "big" }, big), h("span", { class: "muted" }, beside)), h("p", {}, below));
}

function files(id, entry, signal) {
  const trouble = h("div");
  const button = (says, address, name) => h("button", { type: "button", onclick: () => fetched(address, name) }, says);
  const name = (entry.name || "plan").replaceAll(/[^\w.-]+/g, "_").slice(0, 60);
  return h(
    "section", { "aria-labelledby": "files", class: "no-print" },
    h("h2", { id: "files" }, "Take it along"),
    h("div", { class: "row" },
      button("Plan (JSON)", path`/v1/plans/${id}`, `${name}.json`),
      button("Chrome trace", path`/v1/plans/${id}/timeline`, `${name}.trace.json`),
      h("button", { type: "button", onclick: () => print() }, "Print"),
    ),
    trouble,
    h("p", {}, link(path`/plans/${id}/launch`, "Launch"), " has the plan for PyTorch, JAX, MindSpore, Megatron-LM, torchtitan and others."),
  );

  async function fetched(address, file) {
    fill(trouble);
    try {
      await download(address, file, { signal });
    } catch (problem) {
      if (!signal.aborted) fill(trouble, failed(problem));
    }
  }
}
