// Memory of a pipeline rank over a simulated step, in the parts of the bar.
import { get } from "../api.js";
import { areas } from "../chart/areas.js";
import { fill, h, link, path } from "../element.js";
import { PARTS } from "../kinds.js";
import { failed, loading } from "../states.js";
import { bytes, time } from "../units.js";

const POINTS = 400; // over a step; chosen: a curve is some 900 pixels wide

/** Open where the address has `memory`, the rank that is shown, and where a simulation is stored; memory: the answer without the curves. */
export function memoryOverTime(id, memory, { signal, query, keep }) {
  const held = h("div");
  const details = h("details", {}, h("summary", {}, "Over one step, simulated"), held);
  const wanted = query.get("memory");
  details.addEventListener("toggle", () => {
    if (details.open && !held.firstChild) load();
    if (!details.open) keep({ memory: null });
  });
  details.open = wanted !== null || memory.is_simulated;
  return details;

  async function load() {
    fill(held, loading("the simulation of a step"));
    try {
      const { over_time: curves, ranks } = await get(path`/v1/plans/${id}/memory`, { signal, query: { points: POINTS } });
      const fullest = ranks.reduce((a, b) => (b.total_bytes > a.total_bytes ? b : a)).rank;
      const chosen = curves.find((own) => String(own.rank) === wanted)?.rank ?? fullest;
      const drawn = h("div");
      const draw = (rank) => fill(drawn, chart(curves.find((own) => own.rank === rank), id));
      fill(held, curves.length > 1 ? picker(curves, chosen, (rank) => (keep({ memory: rank }), draw(rank))) : null, drawn);
      draw(chosen);
    } catch (problem) {
      if (!signal.aborted) fill(held, failed(problem));
    }
  }
}

function picker(curves, chosen, onPick) {
  return h(
    "label", { class: "no-print" }, "Pipeline rank",
    h("select", { onchange: (event) => onPick(Number(event.target.value)) },
      curves.map((own) => h("option", { value: own.rank, selected: own.rank === chosen }, `${own.rank}${own.peak ? `: ${bytes(own.peak.bytes)}` : ""}`))),
  );
}

function chart(curve, id) {
  const { ns, static_parts: resting, parts, reserved_bytes: reserved, capacity_bytes: capacity, peak } = curve;
  const layers = Object.entries(PARTS)
    .map(([key, look]) => ({ ...look, values: parts[key] ?? ns.map(() => resting[key] ?? 0) }))
    .filter((layer) => layer.values.some((value) => value > 0));
  return [
    areas({
      at: ns, end: curve.step_ns, layers,
      limit: { amount: capacity, name: `a device has ${bytes(capacity)}`, colour: "--capacity" },
      reserve: { ...PARTS.reserved, amount: reserved },
      peak: peak ? { at: peak.ns, amount: peak.bytes - reserved, text: `peak ${bytes(peak.bytes - reserved)}` } : null,
      x: { name: "time in the step", text: time }, y: { name: `Memory of the fullest device of rank ${curve.rank}`, text: bytes, binary: true },
      label: "Memory over one simulated step",
    }),
    peak
      ? h("p", {}, `Peak: ${bytes(peak.bytes - reserved)} in use`, reserved ? ` and ${bytes(reserved)} reserved are ${bytes(peak.bytes)}` : "", `, ${time(peak.ns)} after the begin of the step, in microbatch ${peak.microbatch}: `,
          h("span", { class: "name" }, peak.at.slice(0, peak.at.length - peak.op.length), link(path`/plans/${id}/graph` + `?${new URLSearchParams({ op: peak.op })}`, peak.op)), ".")
      : null,
  ];
}
