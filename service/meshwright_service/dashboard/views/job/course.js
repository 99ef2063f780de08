// What a search said of itself, event by event.
import { stepOf } from "../../job_kinds.js";

/**
 * phases: {name, from, done, total, bounds}; incumbents, bounds: [[ns, cost]], each another than before. Times in
 * nanoseconds since the search began. The bounds of a phase hold for its mesh alone.
 */
export class Course {
  phases = [];
  incumbents = [];
  bounds = [];
  count = 0;
  passes = 0;
  #step = null;
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
    else this.phases.push({ name: phase, from: ns, done, total, bounds: [] });
    this.#count(done, total);
    if (best !== undefined) step(this.incumbents, ns, best);
    if (bound === undefined) return;
    step(this.bounds, ns, bound);
    const own = this.phases.at(-1).bounds;
    if (!own.length || bound > own.at(-1)[1]) own.push([ns, bound]);
  }

  /** A search goes over its meshes in passes, with other recomputation or less memory: steps are counted anew. */
  #count(done, total) {
    if (this.#step?.total !== total || done < this.#step.done) this.passes += 1;
    this.#step = { done, total };
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
    this.passes = 0;
    this.#step = null;
  }
}

function step(points, ns, cost) {
  if (points.at(-1)?.[1] !== cost) points.push([ns, cost]);
}
