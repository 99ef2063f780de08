// A Chrome trace as lanes: one for every stream of every rank that does anything, in the trace's order.

const COLOURS = {
  compute: "--compute", activation: "--wait-activation", gradient: "--wait-gradient", parameter: "--wait-parameter",
  pipeline: "--transfer", host: "--wait-host",
};
const PASS = { F: "--compute", B: "--recompute", I: "--recompute", W: "--axis-4" };

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
    const colour = event.cat === "pass" ? PASS[event.name[0]] ?? "--optimizer" : COLOURS[event.cat] ?? "--optimizer";
    lanes.get(key(event)).slices.push({ ts: event.ts, dur: event.dur, end: event.ts + event.dur, name: event.name, colour, cat: event.cat, args: event.args ?? {} });
    end = Math.max(end, event.ts + event.dur);
    if (event.cat !== "pass") kinds.add(event.cat);
  }
  const used = [...lanes.values()].filter((lane) => lane.slices.length).sort((a, b) => a.pid - b.pid || a.tid - b.tid);
  let before = null;
  for (const lane of used) {
    lane.slices.sort((a, b) => a.ts - b.ts);
    lane.rank = processes.get(lane.pid) ?? `rank ${lane.pid}`;
    lane.first = lane.pid !== before;
    before = lane.pid;
  }
  const backward = used.some((lane) => lane.slices.some((slice) => slice.cat === "pass" && slice.name[0] === "B")) ? [{ name: "backward passes", colour: "--recompute" }] : [];
  return { lanes: used, end_us: end || 1, kinds: backward.concat(Object.keys(COLOURS).filter((kind) => kinds.has(kind)).map((kind) => ({ name: kind === "pipeline" ? "transfers between stages" : kind === "compute" ? "compute, forward passes" : `${kind}s`, colour: COLOURS[kind] }))) };
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
