// Jobs in lists: those under way, with how far they are, and those that ended without a plan.
import { send } from "../../api.js";
import { fill, h, link, path } from "../../element.js";
import { table } from "../../table.js";
import { percent, short, time } from "../../units.js";
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
      { title: "Best so far", number: true, value: (job) => time(job.progress?.incumbent_ns) },
      { title: "Bound", says: "no plan on the mesh at hand costs less", number: true, value: (job) => time(job.progress?.lower_bound_ns) },
      { title: "Since", value: (job) => when(job.started_at ?? job.created_at) },
      { title: "", value: (job) => h("button", { type: "button", onclick: () => cancel(job) }, "Cancel") },
    ],
  });
  fill(root, root.heading, root.table);

  async function cancel(job) {
    await send("POST", path`/v1/jobs/${job.id}/cancel`, undefined, { signal });
    await onCancel();
  }
}

/** Jobs that ended without a plan, with why. */
export function ended(rows, { go, signal }) {
  return table({
    label: "Searches", rows, signal, go, key: (job) => job.id,
    address: (job) => path`/jobs/${job.id}`,
    columns: [
      { title: "Model", value: (job) => link(path`/jobs/${job.id}`, name(job)), sort: (job) => job.graph_name },
      { title: "Topology", value: topology, sort: (job) => job.topology_name },
      { title: "Came to", value: (job) => h("span", { class: `tag ${job.state === "failed" ? "bad" : "warn"}` }, job.outcome === "infeasible" ? "nothing fits" : job.state) },
      { title: "Why", value: (job) => h("span", { class: "clip why", title: why(job) }, why(job)) },
      { title: "Who", value: (job) => job.key_name ?? "–" },
      { title: "When", value: (job) => when(job.finished_at ?? job.created_at), sort: (job) => job.finished_at },
    ],
  });
}

export function name(job) {
  const said = job.kind === "measurement" ? "measurement" : job.graph_name || short(job.graph ?? job.id);
  return h("span", { class: "clip model", title: said }, said);
}

function topology(job) {
  if (!job.topology) return "–";
  return h("span", { class: "clip topology", title: job.topology_name }, job.topology_name || short(job.topology));
}

function why(job) {
  if (job.infeasible) return job.infeasible.detail;
  if (job.problem) return job.problem.detail ?? job.problem.title;
  return job.plan ? "the best plan until then is kept" : "before there was a plan";
}

function progress(job) {
  if (job.state === "queued") return h("span", { class: "tag" }, "queued");
  const { phase, done, total } = job.progress ?? { phase: "starting", done: 0, total: 1 };
  const share = total > 0 ? done / total : 0;
  return h("span", { class: "progress" },
    h("progress", { max: 1, value: share, "aria-label": `${phase}: ${percent(share)}` }), " ",
    h("span", { class: "clip phase", title: phase }, phase));
}
