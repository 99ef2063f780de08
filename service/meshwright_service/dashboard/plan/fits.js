// Does it fit: memory of every stage against what its devices have, split into parts, and over time.
import { get } from "../api.js";
import { bars } from "../chart/bars.js";
import { h, path } from "../element.js";
import { PARTS } from "../kinds.js";
import { bytes } from "../units.js";
import { memoryOverTime } from "./memory_over_time.js";

const SHOWN = 16; // chosen: of more stages than that the fullest; a table has all
const LIMIT = "a device has";

export async function fits(id, { signal, query, keep }) {
  const memory = await get(path`/v1/plans/${id}/memory`, { signal });
  const fullest = memory.ranks.reduce((a, b) => (b.total_bytes > a.total_bytes ? b : a));
  const alone = memory.stages.length === 1;
  return h(
    "section", { "aria-labelledby": "fits" },
    h("h2", { id: "fits" }, "Does it fit?"),
    bars({
      rows: memory.ranks.map((own) => ({
        name: alone ? "every device" : `rank ${own.rank}`,
        parts: own.parts,
        total: `${own.at_most ? "at most " : ""}${bytes(own.total_bytes)}; ${own.margin_bytes < 0 ? `${bytes(-own.margin_bytes)} too much` : `${bytes(own.margin_bytes)} free`}`,
      })),
      kinds: PARTS, text: bytes, totals: 220, label: "Memory of a device by pipeline rank, in parts",
      limit: { amount: memory.ranks[0].capacity_bytes, name: LIMIT, colour: "--capacity" },
    }),
    h("p", { class: "muted" }, alone ? "Peak: " : `Peak, of rank ${fullest.rank}: `, h("span", { class: "name" }, fullest.at || "the same all the time"), "."),
    memory.ranks.some((own) => own.at_most) ? h("p", { class: "muted" }, "Stages that share a rank have their peaks at different moments: together they take at most this.") : null,
    hosts(memory),
    alone ? null : byStage(memory.stages),
    memoryOverTime(id, memory, { signal, query, keep }),
  );
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
