// The simulated step: a lane for every stream of every rank, to be zoomed and walked.
import { download, get } from "../api.js";
import { legend } from "../chart/legend.js";
import { fill, h, path } from "../element.js";
import { loading } from "../states.js";
import { table } from "../table.js";
import { lanesOf } from "../timeline/lanes.js";
import { laneViewer } from "../timeline/viewer.js";
import { bytes, percent, time } from "../units.js";
import { planHead } from "./plan_head.js";

export async function show({ root, params, query, signal, keep, title }) {
  const id = params.plan;
  const head = h("div", {}, planHead(id, "timeline"));
  fill(root, head, loading("the simulation of a step; of a large plan it takes some seconds"));
  const simulated = Promise.all([get(path`/v1/plans/${id}/timeline`, { signal }), get(path`/v1/plans/${id}/simulation`, { signal })]);
  simulated.catch(() => {}); // awaited below
  const { entry, overview } = await get(path`/v1/plans/${id}/overview`, { signal });
  fill(head, planHead(id, "timeline", { entry }));
  const [trace, simulation] = await simulated;
  title(`Timeline of ${entry.name || "a plan"}`);
  const found = lanesOf(trace);
  const selected = h("p", { class: "selected", role: "status" }, "Nothing is selected.");
  const viewer = laneViewer(found, {
    label: "Simulated step by rank and stream", at: query.get("at"), signal,
    onSelect: (own) => fill(selected, describe(own)),
    onMove: (at) => keep({ at, pass: null }),
  });
  const name = (entry.name || "plan").replaceAll(/[^\w.-]+/g, "_").slice(0, 60);
  fill(
    root,
    head,
    h("p", {}, `One step, simulated task by task: ${time(simulation.step_ns)}, where the plan predicts ${time(entry.step_ns)} in closed form. ${trace.otherData.devices[0].toUpperCase()}${trace.otherData.devices.slice(1)}.`),
    merged(trace.otherData["microbatches shown as passes alone"] ?? []),
    h("div", { class: "row" },
      legend(found.kinds),
      viewer.buttons,
      h("button", { type: "button", onclick: () => download(path`/v1/plans/${id}/timeline`, `${name}.trace.json`, { signal }) }, "Download the Chrome trace"),
    ),
    selected, viewer.element,
    h("p", { class: "muted" }, "Drag to move; click, then scroll to zoom. Hatched: compute waits, for other ranks (bubble) or for communication."),
    overlap(simulation),
    waits(simulation, overview.cost.memory_bytes),
  );
  const pass = passOf(found.lanes, query.get("pass"));
  if (pass) viewer.canvas.show(pass);
}

function merged(apart) {
  return apart.length ? h("p", { class: "muted" }, `Microbatches ${apart[0]} to ${apart.at(-1)} are fainter: each pass is one slice, and on links so are tasks with small gaps between them. Their tasks are too many for a page.`) : null;
}

/** The slice of a pass in the notation of schedules: stage, letter, microbatch, as in 3F12. */
function passOf(lanes, text) {
  const [, stage, name] = /^(\d+)([A-Z]\d+)$/.exec(text ?? "") ?? [];
  for (const lane of stage === undefined ? [] : lanes) {
    const slice = lane.slices.find((own) => own.cat === "pass" && own.label === name && own.args.stage === Number(stage));
    if (slice) return { lane, slice };
  }
  return null;
}

function describe(found) {
  if (!found) return "Nothing is selected.";
  const { slice, lane } = found;
  const { args } = slice;
  return [
    h("code", { class: "name" }, slice.label),
    ` · ${time(slice.dur * 1e3)} from ${time(slice.ts * 1e3)} · ${lane.name}`,
    args.stage !== undefined ? ` · stage ${args.stage}` : "",
    args.microbatch !== undefined && slice.cat !== "pass" ? ` · microbatch ${args.microbatch}` : "",
    args.microbatches ? ` · links busy for ${time(args.busy_us * 1e3)} of it` : "",
    args.axes ? ` · over ${args.axes}` : "",
    args.bytes ? ` · ${bytes(args.bytes)}` : "",
    args.waited_us > 0 ? ` · compute waits ${time(args.waited_us * 1e3)} for it` : "",
  ];
}

/** How much of the communication on every link runs beside compute. */
function overlap({ ranks }) {
  const uses = new Map();
  for (const { links } of ranks) {
    for (const { link, busy_ns: busy, exposed_ns: exposed } of links) {
      const own = uses.get(link) ?? uses.set(link, { link, busy: 0, exposed: 0, ranks: 0 }).get(link);
      own.busy += busy;
      own.exposed += exposed;
      own.ranks += 1;
    }
  }
  const rows = [...uses.values()].map((own) => ({ ...own, hidden: 1 - own.exposed / own.busy }));
  if (!rows.length) return null;
  return [
    h("h2", {}, "Overlap"),
    table({
      label: "Overlap", caption: "Communication of a device by link, mean of the ranks that use it", rows,
      columns: [
        { title: "Link", value: (own) => (own.link === "pipeline" ? "transfers between stages" : own.link) },
        { title: "Busy", number: true, value: (own) => time(own.busy / own.ranks), sort: (own) => own.busy / own.ranks },
        { title: "Compute waits", number: true, value: (own) => time(own.exposed / own.ranks), sort: (own) => own.exposed / own.ranks },
        { title: "Hidden", number: true, value: (own) => percent(own.hidden), sort: (own) => own.hidden },
      ],
    }),
  ];
}

/** memory: of the plan's fullest device; every device keeps the same share of itself free. */
function waits(found, memory) {
  const most = (own) => own.peak_bytes + Math.round((own.capacity_bytes * memory.reserved) / memory.capacity);
  const share = (ns) => `${time(ns)} (${percent(ns / found.step_ns)})`;
  const waited = (own) => Object.values(own.exposed_ns).reduce((a, b) => a + b, 0);
  return h(
    "details", {}, h("summary", {}, "What is waited for"),
    table({
      label: "Ranks", caption: "The step of one device of every rank; its parts add up to the step", rows: found.ranks,
      columns: [
        { title: "Rank", number: true, value: (own) => own.rank },
        { title: "Compute", number: true, value: (own) => share(own.compute_ns), sort: (own) => own.compute_ns },
        { title: "Waits", number: true, value: (own) => share(waited(own)), sort: waited },
        { title: "Bubble", number: true, value: (own) => share(own.bubble_ns), sort: (own) => own.bubble_ns },
        { title: "Peak memory", says: "with the reserve for the framework", number: true, value: (own) => bytes(most(own)), sort: most },
        { title: "at", number: true, value: (own) => time(own.peak_ns) },
      ],
    }),
    table({
      label: "Waits", caption: "Collectives that compute waits for longest, over the step and all ranks", rows: found.exposures,
      columns: [
        { title: "Of", value: (own) => h("code", { class: "name" }, own.name) },
        { title: "What", value: (own) => own.what },
        { title: "Waited for", number: true, value: (own) => time(own.waited_ns), sort: (own) => own.waited_ns },
        { title: "Takes", number: true, value: (own) => time(own.ns), sort: (own) => own.ns },
      ],
    }),
  );
}
