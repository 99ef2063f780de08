// What else could have been the plan: time against memory, and why each is not it.
import { get } from "../api.js";
import { scatter } from "../chart/scatter.js";
import { delta } from "../delta.js";
import { fill, h, link, path } from "../element.js";
import { empty, loading } from "../states.js";
import { table } from "../table.js";
import { bytes, short, time } from "../units.js";
import { isOverfull, overfull } from "../verdict.js";
import { planHead } from "./plan_head.js";

const KINDS = {
  chosen: { name: "this plan", colour: "--chosen", shape: "diamond", large: true },
  stored: { name: "another stored plan", colour: "--stored", shape: "square" },
  considered: { name: "considered", colour: "--considered", shape: "circle" },
  "found before": { name: "found before it", colour: "--found-before", shape: "circle" },
};
// of the form of what-ifs, by their places in a request
const FIELDS = { "pipeline.ranks": "pipeline", "pipeline.schedule": "schedule", "pipeline.stages_per_rank": "stages-per-rank", "setup.microbatches": "microbatches", "setup.copies": "copies", "recompute.policy": "recompute" };
const FIRST = 10; // rows of the table at first; chosen

export async function show({ root, params, signal, title }) {
  const id = params.plan;
  fill(root, planHead(id, "front"), loading("the alternatives"));
  const [{ entry }, found] = await Promise.all([
    get(path`/v1/plans/${id}/overview`, { signal }),
    get(path`/v1/plans/${id}/alternatives`, { signal }),
  ]);
  title(`Alternatives of ${entry.name || "a plan"}`);
  const numbered = found.points.map((own, at) => ({ ...own, at, capacity_bytes: found.capacity_bytes }));
  const chosen = numbered.find((own) => own.kind === "chosen");
  const drawn = numbered.filter((own) => own.step_ns !== null && own.step_ns !== undefined && own.memory_bytes);
  const list = rows(id, numbered, chosen);
  fill(
    root,
    planHead(id, "front", { entry }),
    h("h2", {}, "Time against memory"),
    drawn.length > 1
      ? scatter({
          points: drawn.map((own) => ({ at: own.at, x: own.memory_bytes, y: own.step_ns, kind: own.kind, name: own.name, says: isOverfull(own) ? `Does not fit: ${own.why}` : own.why, hollow: own.estimated })),
          kinds: KINDS,
          front: drawn.filter((own) => own.on_front).map((own) => [own.memory_bytes, own.step_ns]).sort((a, b) => a[0] - b[0]),
          limit: { x: found.capacity_bytes, name: "a device has" },
          x: { name: "memory of a device", text: bytes, binary: true }, y: { name: "Step", text: time },
          label: "Alternatives by memory and time", onPick: (point) => list.reach(point.at),
        })
      : empty("Nothing to draw", "The search looked at nothing else with a memory of its own, and no other plan of this graph on this cluster is stored."),
    drawn.some((own) => own.estimated) ? h("p", { class: "muted" }, "Hollow points are estimates: these configurations were not planned to the end.") : null,
    h("h2", {}, "The best, and why the others are not the plan"),
    list.node,
  );
}

function query(asks) {
  const said = Object.entries(asks).flatMap(([part, fields]) => Object.entries(fields).map(([name, value]) => [FIELDS[`${part}.${name}`], value ?? ""])); // null: the default
  return new URLSearchParams(said).toString();
}

function rows(id, points, chosen) {
  const held = h("div");
  draw(FIRST);
  return { node: held, reach };

  function draw(most) {
    const shown = points.filter((own, at) => at < most || own === chosen);
    fill(held, table({
      label: "Alternatives", rows: shown,
      columns: [
        { title: "What", value: (own) => h("span", { class: "name", "data-at": own.at, tabindex: "-1" }, own.plan && own.kind !== "chosen" ? link(path`/plans/${own.plan}`, own.name || short(own.plan)) : own.kind === "chosen" ? h("strong", {}, own.name) : own.name) },
        { title: "Kind", value: (own) => KINDS[own.kind].name },
        { title: "Step", number: true, value: (own) => [own.estimated ? "≈ " : "", time(own.step_ns)], sort: (own) => own.step_ns },
        { title: "Against the plan", number: true, value: (own) => (own === chosen || !own.step_ns ? "" : delta(chosen.step_ns, own.step_ns, { text: time })) },
        { title: "Memory", number: true, value: (own) => bytes(own.memory_bytes), sort: (own) => own.memory_bytes },
        { title: "Front", value: (own) => (isOverfull(own) ? overfull() : own.on_front ? h("span", { class: "tag good" }, "on it") : "") },
        { title: "Why it is not the plan", value: (own) => [h("span", { class: "name" }, own.why), own.plan && own.kind === "stored" ? [" ", link(`/compare?${new URLSearchParams([["plan", id], ["plan", own.plan]])}`, "compare")] : null, own.asks ? [" ", link(path`/plans/${id}/what-if?` + query(own.asks), "plan it")] : null] },
      ],
    }), points.length > shown.length ? h("button", { type: "button", onclick: () => draw(Infinity) }, `Show all ${points.length}`) : null);
  }

  function reach(at) {
    if (!held.querySelector(`[data-at="${at}"]`)) draw(Infinity);
    const found = held.querySelector(`[data-at="${at}"]`);
    found.focus();
    found.scrollIntoView({ block: "center" });
  }
}
