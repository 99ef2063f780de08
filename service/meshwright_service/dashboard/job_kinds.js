// Kinds of job: what people call them, and how their costs are written.
import { count, short, time } from "./units.js";

const KINDS = {
  plan: { noun: "search", title: "Search", now: "searching", past: "searched", who: "a worker", answer: "plan" },
  solution: { noun: "search", title: "Search", now: "searching", past: "searched", who: "a worker", answer: "choice" },
  measurement: { noun: "measurement", title: "Measurement", now: "measuring", past: "measured", who: "an agent", answer: "calibration" },
};

/** The words of a job's kind. */
export function words(job) {
  return KINDS[job.kind] ?? KINDS.plan;
}

/** What a job is of. */
export function subject(job) {
  if (job.kind === "measurement") return "measurement";
  if (job.kind === "solution") return job.cost_graph_name || `cost graph ${short(job.cost_graph)}`;
  return job.graph_name || short(job.graph ?? job.id);
}

/** A cost as text: of a step in time, of a cost graph without a unit. */
export function costText(job, cost) {
  return job.kind === "solution" ? count(cost) : time(cost);
}

/** A step of the progress of any kind: {phase, done, total, best, bound}. */
export function stepOf(progress) {
  if (!progress) return null;
  const { phase, engine, done = 0, total = 0 } = progress;
  return {
    phase: phase ?? engine, done, total,
    best: progress.incumbent_ns ?? progress.cost,
    bound: progress.lower_bound_ns ?? progress.lower_bound,
  };
}
