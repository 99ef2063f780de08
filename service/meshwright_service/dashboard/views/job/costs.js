// The best plan so far, and what none can go below, over the time of the search.
import { curve } from "../../chart/curve.js";
import { fill, h } from "../../element.js";
import { costText, words } from "../../job_kinds.js";
import { time } from "../../units.js";
import { envelope, risen } from "./envelope.js";

const COSTS = { plan: "Cost that the search minimises, of one step", solution: "Cost of the choice" };

/**
 * overview: of the plan that was found, which knows the steps to it exactly. Before, the costs are those of each pass: a
 * pass may allow less memory than the one before it, so that its best plan costs more.
 */
export function costs(root, job, course, overview) {
  const cost = COSTS[job.kind] ?? COSTS.plan;
  const now = course.at(job.finished_at ?? new Date().toISOString());
  const begun = course.phases[0]?.from ?? 0; // before that its process started
  const history = overview?.search.history ?? [];
  const exact = job.seconds?.length && job.seconds.length === history.length ? history.map((own, at) => [begun + job.seconds[at] * 1e9, own.cost_ns]) : null;
  const found = exact ?? course.incumbents;
  if (!found.length && !course.bounds.length) return fill(root);
  const end = Math.max(now, ...found.map(([ns]) => ns), 1);
  const isSolution = job.kind === "solution";
  const bounds = isSolution ? risen(course) : envelope({ phases: course.phases, incumbents: exact ?? [] }, end);
  const series = [
    found.length ? { name: isSolution || exact ? `best ${words(job).answer} so far` : "best plan of each pass", colour: "--incumbent", points: lasting(found, end), stepped: true, dots: found.length <= 40 } : null,
    bounds.length ? { name: isSolution ? "lower bound" : "lower bound of the meshes searched so far", colour: "--bound", points: lasting(bounds, end), stepped: true } : null,
  ].filter(Boolean);
  const proved = overview ? [{ y: overview.search.lower_bound_ns, name: `proved for all: none costs less than ${time(overview.search.lower_bound_ns)}`, colour: "--bound" }] : [];
  return fill(root, h("h2", {}, "How good is it?"),
    curve({
      series, marks: proved,
      x: { name: "time since the search began", text: time, zero: true },
      y: { name: cost, text: (value) => costText(job, value) },
      label: `${cost}, over the time of the search`,
    }),
    series.length === 1 ? h("p", { class: "muted" }, `The line is the ${series[0].name}.`) : null);
}

/** The last of it holds until the end. */
function lasting(points, end) {
  return [...points, [end, points.at(-1)[1]]];
}
