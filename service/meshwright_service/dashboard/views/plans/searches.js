// Jobs in lists: those under way, with how far they are, and those that ended without a plan.
import { askToCancel } from "../../cancellation.js";
import { fill, h, link, path } from "../../element.js";
import { costText, stepOf, subject, words } from "../../job_kinds.js";
import { table } from "../../table.js";
import { percent, short } from "../../units.js";
import { when } from "./when.js";

/** Jobs under way, drawn into `root`, brought up to date where they are drawn already. */
export function underWay(root, jobs, { go, signal, onCancel }) {
  if (!jobs.length) {
    if (root.contains(document.activeElement)) document.getElementById("view")?.focus();
    fill(root);
    root.table = null;
    return;
  }
  const says = jobs.length === 1 ? "1 search under way" : `${jobs.length} searches under way`;
  if (root.table) {
    root.table.update(jobs);
    root.heading.textContent = says;
    return;
  }
  root.heading = h("h2", { role: "status" }, says);
  root.table = table({
    label: "Searches under way", rows: jobs, go, key: (job) => job.id,
    address: (job) => path`/jobs/${job.id}`,
    columns: [
      { title: "Model", value: (job) => link(path`/jobs/${job.id}`, name(job)) },
      { title: "Topology", value: (job) => topology(job) },
      { title: "Progress", value: progress },
      { title: "Best so far", number: true, value: (job) => costText(job, stepOf(job.progress)?.best) },
      { title: "Bound", says: "no plan on the mesh at hand, and no choice, costs less", number: true, value: (job) => costText(job, stepOf(job.progress)?.bound) },
      { title: "Since", value: (job) => when(job.started_at ?? job.created_at) },
      { title: "", value: (job) => h("button", { type: "button", onclick: () => askToCancel(job, { signal, done: onCancel }) }, "Cancel") },
    ],
  });
  fill(root, root.heading, root.table);
}

/** Jobs that ended without a plan, with why. */
export function ended(rows, { go, signal }) {
  return table({
    label: "Searches", rows, signal, go, key: (job) => job.id,
    address: (job) => path`/jobs/${job.id}`,
    columns: [
      { title: "Model", value: (job) => link(path`/jobs/${job.id}`, name(job)), sort: subject },
      { title: "Topology", value: topology, sort: (job) => job.topology_name },
      { title: "Came to", value: (job) => h("span", { class: `tag ${job.state === "failed" ? "bad" : "warn"}` }, job.outcome === "infeasible" ? "nothing fits" : job.state) },
      { title: "Why", value: (job) => h("span", { class: "clip why", title: why(job) }, why(job)) },
      { title: "Who", value: (job) => job.key_name ?? "–" },
      { title: "When", value: (job) => when(job.finished_at ?? job.created_at), sort: (job) => job.finished_at },
    ],
  });
}

export function name(job) {
  const said = subject(job);
  return h("span", { class: "clip model", title: said }, said);
}

function topology(job) {
  if (!job.topology) return "–";
  return h("span", { class: "clip topology", title: job.topology_name }, job.topology_name || short(job.topology));
}

function why(job) {
  if (job.infeasible) return job.infeasible.detail;
  if (job.problem) return job.problem.detail ?? job.problem.title;
  if (job.kind === "solution" && job.state === "succeeded") return job.outcome === "unknown" ? "it ended before it had a choice" : "no choice is within the usage limit";
  const { answer } = words(job);
  return job.plan || job.solution ? `the best ${answer} until then is kept` : `before there was a ${answer}`;
}

function progress(job) {
  if (job.state === "queued") return h("span", { class: "tag" }, "queued");
  const { phase, done, total } = stepOf(job.progress) ?? { phase: "starting", done: 0, total: 1 };
  const share = total > 0 ? done / total : 0;
  return h("span", { class: "progress" },
    h("progress", { max: 1, value: share, "aria-label": `${phase}: ${percent(share)}` }), " ",
    h("span", { class: "clip phase", title: phase }, phase));
}
