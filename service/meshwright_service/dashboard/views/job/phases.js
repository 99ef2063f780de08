// What the search did one after the other, and how long each took.
import { fill, h } from "../../element.js";
import { count, time } from "../../units.js";

const SHOWN = 12; // chosen: the last ones; of hundreds of meshes nobody reads the first while it runs

export function phases(root, job, course) {
  const all = course.phases.map((own, at) => ({ ...own, until: course.phases[at + 1]?.from ?? null }));
  const told = `${all.length} ${job.state} ${all.at(-1)?.done}`;
  if (root.told === told) return;
  root.told = told;
  if (!all.length) return void fill(root);
  const before = all.slice(0, -SHOWN);
  const wasOpen = root.querySelector("details")?.open ?? false;
  fill(root, h("h2", {}, "What it did"),
    before.length ? h("details", { open: wasOpen }, h("summary", {}, `${count(before.length)} before`), rows(before, job, course, "Earlier phases")) : null,
    rows(all.slice(-SHOWN), job, course, "Phases"));
}

function rows(own, job, course, label) {
  return h("div", { class: "scroll" }, h("table", { class: "phases", "aria-label": label },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Phase"), h("th", { scope: "col", class: "number" }, "Began after"), h("th", { scope: "col", class: "number" }, "Took"), h("th", { scope: "col", class: "number" }, "Steps done"))),
    h("tbody", {}, own.map((phase) => h("tr", {},
      h("td", {}, h("span", { class: "name" }, phase.name)),
      h("td", { class: "number" }, time(phase.from)),
      h("td", { class: "number" }, took(phase, job, course)),
      h("td", { class: "number" }, phase.total ? `${count(phase.done)} of ${count(phase.total)}` : "–"))))));
}

function took({ from, until }, job, course) {
  if (until !== null) return time(until - from);
  return job.finished_at ? time(course.at(job.finished_at) - from) : "under way";
}
