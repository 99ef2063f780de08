// What a search said of itself, event by event.
import { stepOf } from "../../job_kinds.js";

/** phases: {name, from_ns, done, total}; incumbents, bounds: [[ns, cost]], each another than before. Times since the search began. */
export class Course {
  phases = [];
  incumbents = [];
  bounds = [];
  count = 0;
  #begun = null;
  #attempt = 0;

  add(kind, data) {
    if (kind === "state" && data.state === "running" && data.attempt !== this.#attempt) this.#begin(data);
    if (kind !== "progress") return;
    this.count += 1;
    const ns = this.at(data.at);
    const { phase, done, total, best, bound } = stepOf(data.progress);
    const last = this.phases.at(-1);
    if (last?.name === phase) Object.assign(last, { done, total });
    else this.phases.push({ name: phase, from: ns, done, total });
    if (best !== undefined) step(this.incumbents, ns, best);
    if (bound !== undefined) step(this.bounds, ns, bound);
  }

  /** Nanoseconds from the start of the search to a moment. */
  at(iso) {
    return this.#begun === null ? 0 : Math.max(0, Date.parse(iso) - this.#begun) * 1e6;
  }

  /** An attempt begins anew, with what it finds. */
  #begin({ at, attempt }) {
    this.#begun = Date.parse(at);
    this.#attempt = attempt;
    this.phases = [];
    this.incumbents = [];
    this.bounds = [];
  }
}

function step(points, ns, cost) {
  if (points.at(-1)?.[1] !== cost) points.push([ns, cost]);
}
