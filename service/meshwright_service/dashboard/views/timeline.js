// The simulated step: a lane for every stream of every rank, to be zoomed and walked.
import { download, get } from "../api.js";
import { legend } from "../chart/legend.js";
import { fill, h, path } from "../element.js";
import { press } from "../keys.js";
import { failed, loading } from "../states.js";
import { table } from "../table.js";
import { Canvas } from "../timeline/canvas.js";
import { lanesOf } from "../timeline/lanes.js";
import { bytes, percent, time } from "../units.js";
import { planHead } from "./plan_head.js";

export async function show({ root, params, query, signal, keep, title }) {
  const id = params.plan;
  fill(root, planHead(id, "timeline"), loading("the simulation of a step; of a large plan it takes some seconds"));
  const [{ entry, overview }, trace] = await Promise.all([
    get(path`/v1/plans/${id}/overview`, { signal }),
    get(path`/v1/plans/${id}/timeline`, { signal }),
  ]);
  title(`Timeline of ${entry.name || "a plan"}`);
  const step_ns = trace.otherData.step_ms * 1e6;
  const found = lanesOf(trace);
  const said = h("p", { class: "selected", role: "status" }, "Nothing is selected.");
  const element = h("canvas", { class: "timeline", tabindex: "0", role: "application", "aria-label": "Simulated step by rank and stream; the keys are listed under ?" });
  const canvas = new Canvas(element, found, (own) => fill(said, describe(own)));
  const apart = trace.otherData["microbatches shown as passes alone"] ?? [];
  fill(
    root,
    planHead(id, "timeline", { entry }),
    h("p", {}, `One step, simulated task by task: ${time(step_ns)}, where the plan predicts ${time(entry.step_ns)} in closed form. ${trace.otherData.devices[0].toUpperCase()}${trace.otherData.devices.slice(1)}.`),
    apart.length ? h("p", { class: "muted" }, `Of microbatches ${apart[0]} to ${apart.at(-1)} only the passes are shown; there are too many tasks for a page.`) : null,
    h("div", { class: "row" },
      legend(found.kinds),
      h("button", { type: "button", onclick: () => canvas.zoom(0.5) }, "Zoom in"),
      h("button", { type: "button", onclick: () => canvas.zoom(2) }, "Zoom out"),
      h("button", { type: "button", onclick: () => canvas.move(0, found.end_us) }, "Whole step"),
      h("button", { type: "button", onclick: () => download(path`/v1/plans/${id}/timeline`, `${(entry.name || "plan").replaceAll(/[^\w.-]+/g, "_").slice(0, 60)}.trace.json`, { signal }) }, "Download the Chrome trace"),
    ),
    said, element,
    h("p", { class: "muted" }, "Drag to move; click, then scroll to zoom. Gaps in compute are waits or bubble: what is waited for, below."),
    waits(id, overview.cost.memory_bytes, signal),
  );
  const [from, to] = (query.get("at") ?? "").split("-").map(Number);
  if (to > from) canvas.move(from, to - from);
  bind(element, canvas, signal, () => keep({ at: canvas.span < found.end_us * 0.999 ? `${canvas.from.toFixed(2)}-${canvas.to.toFixed(2)}` : null }));
  canvas.draw();
}

function bind(element, canvas, signal, moved) {
  const listen = (target, type, does, options) => target.addEventListener(type, does, { signal, ...options });
  listen(element, "wheel", (event) => {
    if (document.activeElement !== element) return;
    event.preventDefault();
    canvas.zoom(event.deltaY > 0 ? 1.25 : 0.8, canvas.ts(event.offsetX));
    moved();
  }, { passive: false });
  let held = null;
  listen(element, "pointerdown", (event) => {
    held = { x: event.offsetX, from: canvas.from, moved: false };
    element.setPointerCapture(event.pointerId);
  });
  listen(element, "pointermove", (event) => {
    if (held) {
      held.moved ||= Math.abs(event.offsetX - held.x) > 3;
      if (held.moved) canvas.move(held.from - ((event.offsetX - held.x) / canvas.wide) * canvas.span, canvas.span);
      return;
    }
    const found = canvas.under(event.offsetX, event.offsetY);
    element.title = found ? found.slice.name : "";
  });
  listen(element, "pointerup", (event) => {
    if (held && !held.moved) canvas.select(canvas.under(event.offsetX, event.offsetY));
    held = null;
    moved();
  });
  listen(window, "resize", () => canvas.draw());
  listen(matchMedia("(prefers-color-scheme: dark)"), "change", () => canvas.repaint());
  const themes = new MutationObserver(() => canvas.repaint());
  themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  signal.addEventListener("abort", () => themes.disconnect());
  const then = (does) => () => {
    does();
    moved();
  };
  press({
    w: ["zoom in", then(() => canvas.zoom(0.7))],
    s: ["zoom out", then(() => canvas.zoom(1 / 0.7))],
    a: ["earlier", then(() => canvas.pan(-0.2))],
    d: ["later", then(() => canvas.pan(0.2))],
    0: ["whole step", then(() => canvas.move(0, canvas.end))],
    ArrowLeft: ["slice before", () => canvas.step(-1, 0)],
    ArrowRight: ["next slice", () => canvas.step(1, 0)],
    ArrowUp: ["lane above", () => canvas.step(0, -1)],
    ArrowDown: ["lane below", () => canvas.step(0, 1)],
    f: ["zoom to the selected slice", then(() => canvas.selected && canvas.move(canvas.selected.slice.ts - canvas.selected.slice.dur, canvas.selected.slice.dur * 3))],
  }, signal);
}

function describe(found) {
  if (!found) return "Nothing is selected.";
  const { slice, lane } = found;
  const { args } = slice;
  return [
    h("code", { class: "name" }, slice.name),
    ` · ${time(slice.dur * 1e3)} from ${time(slice.ts * 1e3)} · ${lane.name}`,
    args.stage !== undefined ? ` · stage ${args.stage}` : "",
    args.microbatch !== undefined && slice.cat !== "pass" ? ` · microbatch ${args.microbatch}` : "",
    args.axes ? ` · over ${args.axes}` : "",
    args.bytes ? ` · ${bytes(args.bytes)}` : "",
    args.waited_us > 0 ? ` · compute waits ${time(args.waited_us * 1e3)} for it` : "",
  ];
}

// another simulation: when somebody wants to know
/** memory: of the plan's fullest device; every device keeps the same share of itself free. */
function waits(id, memory, signal) {
  const held = h("div");
  const details = h("details", {}, h("summary", {}, "What is waited for"), held);
  details.addEventListener("toggle", async () => {
    if (!details.open || held.firstChild) return;
    fill(held, loading("the simulation"));
    try {
      const found = await get(path`/v1/plans/${id}/simulation`, { signal });
      const most = (own) => own.peak_bytes + Math.round((own.capacity_bytes * memory.reserved) / memory.capacity);
      const share = (rank, ns) => `${time(ns)} (${percent(ns / found.step_ns)})`;
      fill(
        held,
        table({
          label: "Ranks", caption: "The step of one device of every rank; its parts add up to the step", rows: found.ranks,
          columns: [
            { title: "Rank", number: true, value: (own) => own.rank },
            { title: "Compute", number: true, value: (own) => share(own, own.compute_ns), sort: (own) => own.compute_ns },
            { title: "Waits", number: true, value: (own) => share(own, Object.values(own.exposed_ns).reduce((a, b) => a + b, 0)), sort: (own) => Object.values(own.exposed_ns).reduce((a, b) => a + b, 0) },
            { title: "Bubble", number: true, value: (own) => share(own, own.bubble_ns), sort: (own) => own.bubble_ns },
            { title: "Peak memory", says: "with what is kept free for the framework", number: true, value: (own) => bytes(most(own)), sort: most },
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
    } catch (problem) {
      if (!signal.aborted) fill(held, failed(problem));
    }
  });
  return details;
}

