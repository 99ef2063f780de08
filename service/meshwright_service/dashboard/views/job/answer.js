// What came of a search, as somebody who waits for it wants to know it.
import { download, get } from "../../api.js";
import { fill, h, link, path } from "../../element.js";
import { costText, stepOf, words } from "../../job_kinds.js";
import { failed } from "../../states.js";
import { bytes, count, percent, short, time } from "../../units.js";
import { isOverfull, verdictOf } from "../../verdict.js";
import { infeasible } from "./infeasible.js";

const ADVICE = {
  "worker-lost": "Every attempt ended without an answer. The log of the workers says when and how.",
  "timed-out": "It had found no plan when its time was over. Ask with fewer axes (budget.max_axes), or let the service search longer (MESHWRIGHT_SOLVE_S).",
  "out-of-memory": "Ask with fewer axes (budget.max_axes), or let the service's searches take more (MESHWRIGHT_SOLVE_MEMORY_BYTES).",
  "no-agent": "No agent is alive that could measure. Start one: meshwright agent --serve --server URL.",
  internal: "This is a fault of Meshwright's own; the server's log has the trace under the id of the job.",
};

/** Draws into `root`; onEnd(overview) once the plan is known; limit: seconds that the request gives the search, or nothing. */
export async function answer(root, job, course, { signal, beside, onEnd, limit }) {
  if (job.state === "queued") return void fill(root, h("p", {}, `It waits for ${words(job).who} that is free.`));
  if (job.state === "running") return running(root, job, course, limit);
  if (job.state === "failed") return void fill(root, refused(job), again(job, beside));
  if (job.infeasible && !job.plan) return void fill(root, infeasible(job.infeasible), again(job, beside));
  if (job.kind === "measurement" && job.calibration) return void fill(root, measured(job));
  if (job.solution) return solution(root, job, { signal });
  if (job.plan) return found(root, job, { signal, beside, onEnd });
  fill(root, h("div", { class: "card" }, h("p", {}, h("strong", {}, "Cancelled. "), `A ${words(job).answer} that it has found by now is kept, and shown here in a moment.`)), again(job, beside));
}

/** The way to ask otherwise, where there is no plan to begin with. */
function again(job, beside) {
  if (job.kind !== "plan") return null;
  return h("p", {}, h("a", { class: "button", href: path`/jobs/${job.id}/what-if` + (beside ? path`?beside=${beside}` : "") }, "Ask again with a change"));
}

function running(root, job, course, limit) {
  const ran = course.at(new Date().toISOString());
  const last = stepOf(job.progress);
  const phase = course.phases.at(-1) ?? (last && { name: last.phase, ...last });
  const share = phase?.total ? phase.done / phase.total : 0;
  const best = course.incumbents.at(-1)?.[1] ?? last?.best;
  const bound = course.bounds.at(-1)?.[1] ?? last?.bound;
  const plans = job.kind === "measurement" ? null : [
    job.kind === "solution"
      ? card("Best choice so far", best === undefined ? "none yet" : costText(job, best), "cost, in the unit of the file")
      : card("Best plan of this pass", best === undefined ? "none yet" : costText(job, best), "cost of one step, as the search counts it"),
    card("Bound", bound === undefined ? "none yet" : costText(job, bound), job.kind === "solution" ? "no choice costs less" : "no plan on the mesh at hand costs less"),
  ];
  fill(root, h("div", { class: "answers" },
    plans,
    h("div", { class: "card wide" }, h("h2", {}, "At work on"), h("p", { class: "name" }, phase?.name ?? "starting"),
      h("progress", { max: 1, value: share, "aria-label": `${percent(share)} of the steps done` }), " ",
      h("span", { class: "muted" }, phase?.total ? `${phase.done} of ${phase.total} steps${course.passes > 1 ? ` of pass ${count(course.passes)}` : ""}` : ""),
      limit ? h("p", { class: "muted" }, `Time limit ${time(limit * 1e9)}: at most ${time(Math.max(0, limit * 1e9 - ran))} more.`) : null)));
}

async function found(root, job, { signal, beside, onEnd }) {
  let made;
  try {
    made = await get(path`/v1/plans/${job.plan}/overview`, { signal });
  } catch (error) {
    if (signal.aborted) return;
    return void fill(root, early(job), h("p", {}, "It found the plan ", link(path`/plans/${job.plan}`, short(job.plan)), "."), failed(error));
  }
  if (signal.aborted) return;
  const { entry, overview } = made;
  fill(root,
    early(job),
    h("div", { class: "answers" },
      card("One step", time(entry.step_ns), "predicted"),
      isOverfull(entry)
        ? card("Memory", h("span", { class: "bad" }, bytes(entry.memory_bytes - entry.capacity_bytes)), `more than the ${bytes(entry.capacity_bytes)} of a device`)
        : card("Memory free", bytes(entry.capacity_bytes - entry.memory_bytes), `of ${bytes(entry.capacity_bytes)} a device`),
      card("Proof", h("span", { class: verdictOf(entry).kind }, verdictOf(entry).word), `gap ${percent(entry.gap)}`),
      execution(job)),
    h("p", { class: "row" },
      h("a", { class: "button primary", href: path`/plans/${job.plan}` }, "Open the plan"),
      beside && beside !== job.plan ? h("a", { class: "button", href: path`/compare?plan=${beside}&plan=${job.plan}` }, "Beside the old one") : null,
      beside && beside === job.plan ? h("span", { class: "warn" }, "It is the plan that there was already: the change makes no difference.") : null,
      h("a", { class: "button", href: path`/plans/${job.plan}/what-if` }, "Ask again with a change")));
  onEnd(overview);
}

function early(job) {
  if (job.state === "cancelled") return h("p", {}, h("strong", {}, "Cancelled. "), `The best ${words(job).answer} until then is kept; it answers nobody else who asks the same.`);
  if (job.ended_early && job.problem) return h("p", {}, h("strong", { class: "warn" }, "This is the best plan until its search was cut short. "), job.problem.detail ?? job.problem.title);
  if (job.ended_early) return h("p", {}, h("strong", { class: "warn" }, "Its time was over. "), `This is the best ${words(job).answer} until then.`);
  return null;
}

async function solution(root, job, { signal }) {
  const at = path`/v1/solutions/${job.solution}`;
  const save = h("button", { type: "button", onclick: () => download(at, `${job.solution}.json`, { signal }) }, "Save the solution");
  let made;
  try {
    made = (await get(`${at}/summary`, { signal })).summary;
  } catch (error) {
    if (signal.aborted) return;
    return void fill(root, early(job), failed(error));
  }
  if (signal.aborted) return;
  const notes = made.notes.map((note) => h("p", { class: "muted" }, note));
  const limit = made.usage_limit === null ? "without a limit" : `of ${count(made.usage_limit)} at one time`;
  if (made.cost === null) {
    const says = made.status === "infeasible" ? `No choice fits, ${made.usage_limit === null ? "as all take what is forbidden" : `within the usage limit of ${count(made.usage_limit)}`}.` : "The search ended before it had a choice.";
    return void fill(root, h("div", { class: "card" }, h("p", {}, says), notes), h("p", { class: "row" }, save));
  }
  fill(root, early(job),
    h("div", { class: "answers" },
      card("Cost", count(made.cost), "in the unit of the file"),
      card("Proof", made.status === "optimal" ? "optimal" : made.gap === null ? "gap unknown" : `gap ${percent(made.gap)}`, made.lower_bound === null ? "no bound is proved" : `bound ${count(made.lower_bound)}`),
      card("Peak usage", made.peak_usage === null ? "none" : count(made.peak_usage), limit)),
    notes, h("p", { class: "row" }, save));
}

function execution(job) {
  if (!job.verify) return null;
  const { certificate } = job;
  if (!certificate) return card("Execution", "under way", "in numpy, device by device");
  return card("Execution", { verified: "verified", failed: "wrong" }[certificate.outcome] ?? certificate.outcome, "all tensors against the unsharded run");
}

function refused(job) {
  const slug = job.problem?.type?.split(":").at(-1);
  return h("div", {}, failed(job.problem ?? { title: "It failed", detail: "No reason was given." }),
    ADVICE[slug] ? h("p", {}, ADVICE[slug]) : null);
}

function measured(job) {
  return h("div", { class: "card" }, h("p", {}, "Measured. ",
    link(path`/calibrations/${job.calibration}`, "The calibration"), " of ",
    job.topology ? link(path`/topologies/${job.topology}`, job.topology_name || "the topology") : "the topology"));
}

function card(title, big, beside) {
  return h("div", { class: "card" }, h("h2", {}, title), h("p", {}, h("span", { class: "big" }, big)), h("p", { class: "muted" }, beside));
}
