// The certificate: what is proven of the plan, what its execution showed, and what it was asked to be.
import { h, link, path } from "../element.js";
import { prose } from "../prose.js";
import { change, count, percent, time } from "../units.js";
import { isOverfull, verdict } from "../verdict.js";

export function proof({ overview, entry, certificate, search: job }) {
  const { search } = overview;
  return h(
    "section", { "aria-labelledby": "proof" },
    h("h2", { id: "proof" }, "How sure is that?"),
    h("dl", { class: "facts" },
      h("dt", {}, "Search"), h("dd", {}, verdict(entry), ` ${isOverfull(entry) ? `for this strategy ${search.outcome}, ` : ""}by ${search.found_by.replaceAll("_", " ")} over ${count(search.meshes.length)} mesh${search.meshes.length === 1 ? "" : "es"}`, job ? ["; ", link(path`/jobs/${job}`, "the course of the search")] : null),
      h("dt", {}, "Bound"), h("dd", {}, `objective ${time(search.cost_ns)}; lower bound on these meshes ${time(search.lower_bound_ns)}; gap ${percent(search.gap)}`),
      search.step_bound_ns ? [h("dt", {}, "Step"), h("dd", {}, `${time(overview.cost.step_ns)}; lower bound for every configuration that the request allows ${time(search.step_bound_ns)} (${change(overview.cost.step_ns / search.step_bound_ns - 1)})`)] : null,
      search.faster_ns > 0 || search.simplicity_ns > 0
        ? [h("dt", {}, "Given up"), h("dd", {}, [search.faster_ns > 0 ? `${time(search.faster_ns)} of cost for a shorter step` : null, search.simplicity_ns > 0 ? `${time(search.simplicity_ns)} for a simpler plan` : null].filter(Boolean).join("; "))]
        : null,
      h("dt", {}, "Execution"), h("dd", {}, execution(certificate)),
      overview.unknown_kinds.length ? [h("dt", {}, "Unknown kinds"), h("dd", { class: "name" }, mark("warn", "replicated"), ` ${overview.unknown_kinds.join(", ")}`)] : null,
      overview.asked.length ? [h("dt", {}, "Asked"), h("dd", {}, overview.asked.map((text) => h("div", { class: "name" }, text)))] : null,
    ),
    overview.notes.length ? [h("h3", {}, "Notes of the search"), h("ul", {}, overview.notes.map((note) => h("li", {}, prose(note))))] : null,
  );
}

/** A word with a colour that says the same. */
export function mark(kind, word) {
  return h("span", { class: `tag ${kind}` }, `${{ good: "✓", warn: "!", bad: "✗" }[kind]} ${word}`);
}

export function execution(certificate) {
  if (!certificate) return [mark("warn", "not asked"), " Nobody asked to have it executed: ", h("code", {}, "meshwright verify"), ", or ", h("code", {}, "verify"), " with the request."];
  if (certificate.outcome === "verified") {
    return [mark("good", "verified"), ` ${count(certificate.tensors)} tensors and ${count(certificate.gradients ?? 0)} gradients equal the unsharded run; the worst differs by ${(certificate.worst_error ?? 0).toExponential(1)} of its tensor's largest element`];
  }
  return [mark(certificate.outcome === "failed" ? "bad" : "warn", certificate.outcome), h("span", { class: "name" }, ` ${certificate.detail}`)];
}
