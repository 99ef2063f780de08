// A Chrome trace as lanes: one for every stream of every rank that does anything, in the trace's order.
import { TIMES } from "../kinds.js";

// letters of passes; where backward passes are split, I is of inputs and W of weights
const PASSES = {
  F: { name: "compute, forward passes", colour: "--compute" },
  B: { name: "backward passes", colour: "--backward" },
  I: { name: "backward passes to inputs", colour: "--backward" },
  W: { name: "backward passes to weights", colour: "--weights" },
};
const OTHER = "--optimizer";
const SAID = { pipeline: "transfers between stages", host: "to and from the host" };

/** {lanes, end_us, kinds}; of a lane {name, rank, first, slices: [{ts, dur, name, colour, args}]}, by time. */
export function lanesOf({ traceEvents }) {
  const processes = new Map();
  const lanes = new Map();
  const key = (event) => `${event.pid} ${event.tid}`;
  for (const event of traceEvents) {
    if (event.ph !== "M") continue;
    if (event.name === "process_name") processes.set(event.pid, event.args.name);
    if (event.name === "thread_name") lanes.set(key(event), { name: event.args.name, pid: event.pid, tid: event.tid, slices: [] });
  }
  let end = 0;
  const kinds = new Set();
  for (const event of traceEvents) {
    if (event.ph !== "X") continue;
    if (!lanes.has(key(event))) lanes.set(key(event), { name: "passes", pid: event.pid, tid: event.tid, slices: [] });
    const pass = event.cat === "pass" ? PASSES[event.name[0]] : null;
    const colour = (event.cat === "pass" ? pass : TIMES[event.cat])?.colour ?? OTHER;
    lanes.get(key(event)).slices.push({ ts: event.ts, dur: event.dur, end: event.ts + event.dur, name: event.name, colour, cat: event.cat, args: event.args ?? {} });
    end = Math.max(end, event.ts + event.dur);
    kinds.add(event.cat === "pass" ? event.name[0] : event.cat);
  }
  const used = [...lanes.values()].filter((lane) => lane.slices.length).sort((a, b) => a.pid - b.pid || a.tid - b.tid);
  let before = null;
  for (const lane of used) {
    lane.slices.sort((a, b) => a.ts - b.ts);
    lane.rank = processes.get(lane.pid) ?? `rank ${lane.pid}`;
    lane.first = lane.pid !== before;
    before = lane.pid;
  }
  if (kinds.has("compute")) kinds.add("F"); // of one hue, and one line of the legend
  return { lanes: used, end_us: end || 1, kinds: legendOf(kinds) };
}

function legendOf(kinds) {
  const passes = Object.entries(PASSES).filter(([letter]) => kinds.has(letter)).map(([, own]) => own);
  const moved = Object.entries(TIMES).filter(([kind]) => kind !== "compute" && kinds.has(kind));
  return [...passes, ...moved.map(([kind, { colour }]) => ({ name: SAID[kind] ?? `${kind}s`, colour }))];
}

/** The first slice of a lane that ends after a time. */
export function firstAfter(slices, ts) {
  let low = 0;
  let high = slices.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices[middle].end > ts) high = middle;
    else low = middle + 1;
  }
  return low;
}
