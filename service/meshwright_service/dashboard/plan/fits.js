// Does it fit: memory of every stage against what its devices have, split into parts, and over time.
import { get } from "../api.js";
import { bars } from "../chart/bars.js";
import { curve } from "../chart/curve.js";
import { fill, h, path } from "../element.js";
import { failed, loading } from "../states.js";
import { bytes, percent, time } from "../units.js";
import { PARTS } from "../kinds.js";

const SHOWN = 16; // chosen: of more stages than that the fullest; a table has all
const LIMIT = "a device has";
const POINTS = 400; // over a step; chosen: a curve is some 900 pixels wide

export async function fits(id, { signal }) {
  const memory = await get(path`/v1/plans/${id}/memory`, { signal });
  const fullest = memory.stages.reduce((a, b) => (b.total_bytes > a.total_bytes ? b : a));
  const alone = memory.stages.length === 1;
  return h(
    "section", { "aria-labelledby": "fits" },
    h("h2", { id: "fits" }, "Does it fit?"),
    bars({
      rows: memory.ranks.map((own) => ({
        name: alone ? "every device" : `rank ${own.rank}`,
        parts: ofRank(own, memory.stages),
        total: `${own.at_most ? "at most " : ""}${bytes(own.total_bytes)}; ${own.margin_bytes < 0 ? `${bytes(-own.margin_bytes)} too much` : `${bytes(own.margin_bytes)} free`}`,
      })),
      kinds: PARTS, text: bytes, totals: 220, label: "Memory of a device by pipeline rank, in parts",
      limit: { amount: memory.ranks[0].capacity_bytes, name: LIMIT, colour: "--capacity" },
    }),
    h("p", { class: "muted" }, alone ? "Fullest at: " : `Fullest stage: ${fullest.stage}, at `, h("span", { class: "name" }, fullest.at || "every moment alike"), "."),
    memory.ranks.some((own) => own.at_most) ? h("p", { class: "muted" }, "Stages that share a rank are fullest at different moments: together they take at most this.") : null,
    hosts(memory),
    alone ? null : byStage(memory.stages),
    overTime(id, signal),
  );
}

// the reserve is the device's, not each stage's
function ofRank(rank, stages) {
  const parts = {};
  for (const number of rank.stages) {
    for (const [name, amount] of Object.entries(stages[number].parts)) {
      parts[name] = name === "reserved" ? amount : (parts[name] ?? 0) + amount;
    }
  }
  return parts;
}

// what the bar of the rank counts, beside what a simulated step holds
function reserved(number, ranks, stages) {
  const { stages: [first] } = ranks.find((own) => own.rank === number);
  return stages[first].parts.reserved;
}

function byStage(stages) {
  const fullest = new Set([...stages].sort((a, b) => b.total_bytes - a.total_bytes).slice(0, SHOWN));
  const { reserved, ...kinds } = PARTS;
  return h(
    "details", {},
    h("summary", {}, stages.length > SHOWN ? `The ${SHOWN} fullest of ${stages.length} stages` : "Stage by stage"),
    bars({
      rows: stages.filter((own) => fullest.has(own)).map((own) => ({ name: `stage ${own.stage}, rank ${own.rank}`, parts: own.parts })),
      kinds, text: bytes, label: "Memory of the fullest device by stage, in parts",
    }),
  );
}

function hosts(memory) {
  const most = memory.ranks.reduce((a, b) => (b.host_bytes > a.host_bytes ? b : a));
  return most.host_bytes
    ? h("p", {}, `Of the host's memory each device's share holds ${bytes(most.host_bytes)} of ${bytes(most.host_capacity_bytes)}.`)
    : null;
}

// simulated when somebody wants to see it: of a large plan that takes seconds
function overTime(id, signal) {
  const held = h("div");
  const details = h("details", {}, h("summary", {}, "Over one step, simulated"), held);
  details.addEventListener("toggle", async () => {
    if (!details.open || held.firstChild) return;
    fill(held, loading("the simulation of a step"));
    try {
      const { over_time: curves, ranks, stages } = await get(path`/v1/plans/${id}/memory`, { signal, query: { points: POINTS } });
      const colours = ["--axis-1", "--axis-0", "--axis-2", "--axis-3", "--axis-4", "--axis-5", "--axis-6", "--axis-7"];
      fill(held, curve({
        series: curves.slice(0, colours.length).map((own, at) => ({
          name: curves.length > 1 ? `rank ${own.rank}` : "a device",
          colour: colours[at],
          stepped: true,
          points: own.ns.map((ns, point) => [ns, own.static_bytes + own.saved_bytes[point] + own.working_bytes[point] + reserved(own.rank, ranks, stages)]),
        })),
        x: { name: "time in the step", text: time, zero: true },
        y: { name: "Memory of the fullest device of each rank, with what is kept free for the framework", text: bytes, zero: true, binary: true },
        marks: [{ y: ranks[0].capacity_bytes, name: `${LIMIT} ${bytes(ranks[0].capacity_bytes)}`, colour: "--capacity" }],
        label: "Memory over one simulated step",
      }));
    } catch (problem) {
      if (!signal.aborted) fill(held, failed(problem));
    }
  });
  return details;
}
