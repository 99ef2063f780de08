// A Chrome trace as lanes: one for every stream of every rank that does anything, in the trace's order.
import { PASSES, TIMES } from "../kinds.js";

const OTHER = "--optimizer";
const FAINT = 0.45; // chosen: seen on both papers, and told from what is shown task by task
const SAID = { pipeline: "transfers between stages", host: "to and from the host" };

/** {lanes, end_us, kinds}; of a lane {name, rank, first, is_main, slices: [{ts, dur, end, label, colour, hatched, alpha, cat, args}]}, by time. */
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
  const kinds = new Map();
  for (const event of traceEvents) {
    if (event.ph !== "X") continue;
    if (!lanes.has(key(event))) lanes.set(key(event), { name: "passes", pid: event.pid, tid: event.tid, slices: [] });
    const look = lookOf(event);
    lanes.get(key(event)).slices.push({ ts: event.ts, dur: event.dur, end: event.ts + event.dur, label: event.name, cat: event.cat, args: event.args ?? {}, ...look });
    end = Math.max(end, event.ts + event.dur);
    kinds.set(look.name, look);
  }
  const used = [...lanes.values()].filter((lane) => lane.slices.length).sort((a, b) => a.pid - b.pid || a.tid - b.tid);
  let before = null;
  for (const lane of used) {
    lane.slices.sort((a, b) => a.ts - b.ts);
    lane.rank = processes.get(lane.pid) ?? `rank ${lane.pid}`;
    lane.first = lane.is_main = lane.pid !== before;
    before = lane.pid;
  }
  return { lanes: used, end_us: end || 1, kinds: legendOf(kinds) };
}

/** {name, colour, hatched, alpha} of a slice, by the category of its event. */
function lookOf({ name, cat, args }) {
  const letter = cat === "pass" ? name[0] : args?.pass;
  if (cat === "pass") return PASSES[letter] ?? { name: "other", colour: OTHER };
  if (cat === "idle") {
    const { name: says, colour } = TIMES[args.traffic];
    return { name: says, colour, hatched: true };
  }
  if (cat === "merged") return { name: "microbatches that are not shown task by task", colour: (PASSES[letter] ?? TIMES[args.traffic]).colour, alpha: FAINT };
  if (cat === "compute") {
    if (args?.what === "again") return PASSES.again;
    return PASSES[letter] ?? { name: "optimizer", colour: OTHER };
  }
  return { name: SAID[cat] ?? `${cat}s`, colour: TIMES[cat]?.colour ?? OTHER };
}

/** Every look once, in the order of passes, traffic and waits. */
function legendOf(kinds) {
  const order = [...Object.values(PASSES), { name: "optimizer" }, ...Object.keys(TIMES).map((kind) => ({ name: SAID[kind] ?? `${kind}s` })), ...Object.values(TIMES)].map((own) => own.name);
  return [...kinds.values()].sort((a, b) => place(order, a.name) - place(order, b.name));
}

function place(order, name) {
  const at = order.indexOf(name);
  return at < 0 ? order.length : at;
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
