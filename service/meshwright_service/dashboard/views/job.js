// A search: how far it is, how good the best plan so far is, and what came of it.
import { events, get } from "../api.js";
import { askToCancel } from "../cancellation.js";
import { fill, h, link, path } from "../element.js";
import { subject, words } from "../job_kinds.js";
import { failed, loading } from "../states.js";
import { ago, moment, short, time } from "../units.js";
import { Course } from "./job/course.js";
import { costs } from "./job/costs.js";
import { answer } from "./job/answer.js";
import { phases } from "./job/phases.js";

const DRAW_MS = 250; // chosen: a search says more than an eye follows

export async function show({ root, params, query, signal, go, title }) {
  const at = path`/v1/jobs/${params.job}`;
  let job = await get(at, { signal });
  const course = new Course();
  const own = { head: h("div"), answer: h("div"), costs: h("div"), phases: h("div") };
  const beside = query.get("beside"); // the plan that this search is to stand beside
  const wasOpen = isOpen(job);
  let limit = null; // seconds
  if (wasOpen) get(`${at}/request`, { signal }).then((asked) => (limit = asked.budget?.seconds ?? asked.seconds ?? null), () => {});
  let answered = null; // the state of which the answer is drawn
  let found; // the overview of its plan, which may be here before the events that led to it
  let due = null;
  title(job.kind === "measurement" ? "Measurement" : `${isOpen(job) ? "Searching" : "Search"}: ${subject(job)}`);
  fill(root, own.head, own.answer, own.costs, own.phases);
  fill(own.answer, loading("the search"));
  draw();
  signal.addEventListener("abort", () => clearTimeout(due));
  follow(); // goes on while the page is shown
  const clock = setInterval(() => isOpen(job) && soon(), 1000);
  signal.addEventListener("abort", () => clearInterval(clock));

  async function follow() {
    try {
      let last;
      do {
        for await (const event of events(`${at}/events`, { signal, last })) {
          last = event.id ?? last;
          if (event.event === "job") job = event.data;
          else took(event);
          soon();
        }
      } while (!signal.aborted && isOpen(job)); // the service stopped, and is there again
      draw();
    } catch (error) {
      if (!signal.aborted) fill(own.phases, failed(error, follow));
    }
  }

  function took({ event, data }) {
    course.add(event, data);
    if (event === "state") job = { ...job, state: data.state, attempt: data.attempt, started_at: job.started_at ?? (data.state === "running" ? data.at : null) };
    if (event === "plan") job = { ...job, plan: data.plan };
    if (event === "solution") job = { ...job, solution: data.solution };
  }

  function soon() {
    due ??= setTimeout(draw, DRAW_MS);
  }

  function draw() {
    clearTimeout(due);
    due = null;
    if (signal.aborted) return;
    head();
    const now = [job.state, job.plan, job.solution, job.finished_at, isOpen(job) ? [course.count, limit, Math.floor(ran() / 1000)] : 0].join();
    if (now !== answered) {
      answered = now;
      answer(own.answer, job, course, { signal, beside, onEnd, limit });
    }
    if (isOpen(job) || found) costs(own.costs, job, course, found);
    phases(own.phases, job, course);
  }

  function onEnd(overview) {
    found = overview;
    costs(own.costs, job, course, found);
    const isNew = wasOpen && job.state === "succeeded" && job.plan !== beside;
    if (beside && isNew) go(path`/compare?plan=${beside}&plan=${job.plan}`);
  }

  function head() {
    const key = JSON.stringify([job.state, job.attempt, job.worker, Math.floor(ran() / 1000)]);
    if (own.head.drawn === key) return;
    own.head.drawn = key;
    const button = own.head.querySelector("button");
    const hadFocus = button !== null && document.activeElement === button;
    const again = isOpen(job) ? button ?? h("button", { type: "button", onclick: cancel }, `Cancel the ${words(job).noun}`) : null;
    fill(own.head,
      h("div", { class: "row spread" }, h("h1", {}, name(job), " ", tag(job)), again),
      h("p", { class: "muted job-head" },
        job.topology ? ["on ", link(path`/topologies/${job.topology}`, h("span", { class: "clip", title: job.topology_name }, job.topology_name || short(job.topology))), " · "] : null,
        "asked ", h("time", { datetime: job.created_at, title: moment(job.created_at) }, ago(job.created_at)),
        job.key_name ? [" by ", h("span", { class: "name" }, job.key_name)] : null,
        job.started_at ? [isOpen(job) ? ` · ${words(job).now} for ` : ` · ${words(job).past} for `, time(ran() * 1e6)] : ` · waits for ${words(job).who}`,
        job.attempt > 1 ? [" · attempt ", job.attempt, ": those before ended without an answer"] : null,
        " · ", h("span", { class: "mono", title: job.id }, short(job.id))));
    if (hadFocus && again === button) button.focus();
  }

  function ran() {
    if (!job.started_at) return 0;
    return Math.max(0, (job.finished_at ? Date.parse(job.finished_at) : Date.now()) - Date.parse(job.started_at));
  }

  function cancel() {
    askToCancel(job, {
      signal,
      done: (cancelled) => {
        job = { ...job, ...cancelled };
        draw();
      },
    });
  }
}

function isOpen(job) {
  return job.state === "queued" || job.state === "running";
}

function name(job) {
  return job.kind === "measurement" ? "Measurement" : h("span", { class: "name" }, subject(job));
}

function tag(job) {
  const without = { infeasible: "nothing fits", unknown: "no choice found" }[job.outcome];
  const says = without ?? job.state;
  const kind = { failed: "bad", cancelled: "warn", succeeded: without ? "warn" : "good" }[job.state] ?? "";
  return h("span", { class: `tag ${kind}`, role: "status" }, says);
}
