// The plan's graph: modules that open, repeats folded, colour by the axis that cuts what an op makes.
import { get } from "../api.js";
import { fill, h, path, s } from "../element.js";
import { Camera } from "../graph/camera.js";
import { painted } from "../graph/paint.js";
import { coloursOf, graphLegend } from "../graph/legend.js";
import { boxPanel, edgePanel } from "../graph/panel.js";
import { search } from "../graph/search.js";
import { press } from "../keys.js";
import { failed, loading } from "../states.js";
import { planHead } from "./plan_head.js";

const NONE = "."; // the name of no module: nothing is open, and it is said
const FEW = 8; // boxes; chosen: with fewer the largest modules are opened at first
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export async function show({ root, params, query, signal, keep, title }) {
  const id = params.plan;
  fill(root, planHead(id, "graph"), loading("the graph"));
  const wanted = query.getAll("open");
  const [{ entry }, first] = await Promise.all([
    get(path`/v1/plans/${id}/overview`, { signal }),
    query.has("open") ? layoutOf(id, wanted, signal) : layoutOf(id, [], signal, FEW),
  ]);
  title(`Graph of ${entry.name || "a plan"}`);
  const axes = coloursOf(entry.meshes);
  const legend = h("div", { class: "row graph-legend" });
  const layer = s("g");
  const svg = s("svg", { class: "graph", role: "application", tabindex: "0", "aria-label": "Graph of the plan; arrow keys go from box to box, Enter opens" },
    s("defs", {}, s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse" }, s("path", { d: "M0 0L8 4L0 8z" }))), layer);
  const panel = h("aside", { class: "card panel", "aria-label": "Selected", "aria-live": "polite" });
  const trouble = h("div");
  fill(
    root,
    planHead(id, "graph", { entry }),
    h("div", { class: "row graph-tools" },
      search(id, (own) => reach(own), signal),
      h("button", { type: "button", onclick: foldAll }, "Fold all"),
      h("button", { type: "button", onclick: () => fit() }, "All in sight"),
    ),
    legend,
    trouble,
    h("div", { class: "graph-page" }, svg, panel),
  );

  let layout = first;
  let boxes = byId(first);
  let sight = null;
  let chosen = query.get("op");
  const size = () => ({ width: svg.clientWidth, height: svg.clientHeight });
  const camera = new Camera(moved);
  camera.begin(layout, size());
  paint();
  fill(legend, graphLegend(axes, layout.edges));
  if (chosen && boxes.has(chosen)) select(chosen, true);
  else describe();
  bind();

  function moved() {
    layer.setAttribute("transform", camera.transform);
    const now = camera.sight(size());
    const { width, height } = size();
    const inner = { left: -camera.x / camera.scale, top: -camera.y / camera.scale, right: (width - camera.x) / camera.scale, bottom: (height - camera.y) / camera.scale };
    if (!sight || sight.scale !== camera.scale || inner.left < sight.left || inner.top < sight.top || inner.right > sight.right || inner.bottom > sight.bottom) paint(now);
  }

  function paint(now = camera.sight(size())) {
    sight = { ...now, scale: camera.scale };
    layer.setAttribute("transform", camera.transform);
    fill(layer, ...painted(layout, axes, now, camera.scale).flat(Infinity));
    mark();
  }

  function mark() {
    layer.querySelector(".chosen")?.classList.remove("chosen");
    if (chosen) layer.querySelector(`[data-box="${CSS.escape(chosen)}"]`)?.classList.add("chosen");
  }

  function fit() {
    camera.fit(layout, size());
  }

  function select(box, centre = false) {
    chosen = box;
    keep({ op: box });
    mark();
    describe();
    if (centre && boxes.has(box)) camera.centre(boxes.get(box), size());
  }

  function describe() {
    const box = boxes.get(chosen);
    fill(panel, box ? boxPanel(id, box, layout.edges) : [h("h2", {}, "Nothing is selected"), h("p", { class: "muted" }, "Click a box or an edge. A module opens with a click on it; ×32 stands for so many that are planned alike.")]);
  }

  async function open(now, { about, choose } = {}) {
    const before = boxes.get(about);
    try {
      layout = await layoutOf(id, now, signal);
    } catch (problem) {
      if (!signal.aborted) fill(trouble, failed(problem));
      return;
    }
    fill(trouble);
    boxes = byId(layout);
    fill(legend, graphLegend(axes, layout.edges));
    const after = boxes.get(about);
    if (before && after) {
      camera.x += (before.x - after.x) * camera.scale; // what was clicked stays where it is
      camera.y += (before.y - after.y) * camera.scale;
    }
    keep({ open: layout.open?.length ? layout.open : NONE });
    paint();
    if (choose) select(choose, true);
    else describe();
  }

  function toggle(box) {
    const own = boxes.get(box);
    if (!own || own.kind !== "module") return select(box);
    select(box);
    const now = new Set(layout.open ?? []);
    if (own.is_open) for (const other of now) if (other === box || other.startsWith(`${box}.`)) now.delete(other);
    if (!own.is_open) now.add(box);
    return open([...now], { about: box });
  }

  async function foldAll() {
    await open([]);
    camera.begin(layout, size());
  }

  function reach({ box, open: above }) {
    return open([...new Set([...(layout.open ?? []), ...above])], { choose: box });
  }

  function bind() {
    const listen = (target, type, does, options) => target.addEventListener(type, does, { signal, ...options });
    let held = null;
    listen(svg, "pointerdown", (event) => {
      held = { x: event.clientX, y: event.clientY, moved: false, target: event.target };
    });
    listen(svg, "pointermove", (event) => {
      if (!held) return;
      const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
      if (!held.moved && Math.hypot(dx, dy) < 4) return;
      if (!held.moved) svg.setPointerCapture(event.pointerId);
      Object.assign(held, { x: event.clientX, y: event.clientY, moved: true });
      camera.pan(dx, dy);
    });
    listen(svg, "pointerup", () => {
      const was = held;
      held = null;
      if (!was || was.moved) return;
      const { box = was.target.closest("[data-head]")?.dataset.head } = was.target.closest("[data-box]")?.dataset ?? {};
      const edge = was.target.closest("[data-edge]")?.dataset.edge;
      if (edge !== undefined) fill(panel, edgePanel(id, layout.edges[edge], (own) => boxes.get(own)?.label ?? own));
      else if (box !== undefined) toggle(box);
    });
    listen(svg, "wheel", (event) => {
      if (document.activeElement !== svg && !event.ctrlKey) return;
      event.preventDefault();
      const at = svg.getBoundingClientRect();
      camera.zoom(event.deltaY > 0 ? 0.85 : 1.18, { x: event.clientX - at.left, y: event.clientY - at.top });
    }, { passive: false });
    listen(svg, "keydown", (event) => {
      if (event.key === "Enter" && chosen) {
        event.preventDefault();
        toggle(chosen);
      } else if (STEPS[event.key]) {
        event.preventDefault();
        if (event.shiftKey) camera.pan(-STEPS[event.key][0] * 80, -STEPS[event.key][1] * 80);
        else go(STEPS[event.key]);
      }
    });
    listen(window, "resize", () => paint());
    const middle = () => ({ x: size().width / 2, y: size().height / 2 });
    press({
      "+": ["zoom in", () => camera.zoom(1.25, middle())],
      "-": ["zoom out", () => camera.zoom(0.8, middle())],
      0: ["all in sight", fit],
      Enter: ["open or fold the selected module", () => svg.focus()],
    }, signal);
  }

  // to the nearest box in a direction; across it counts double
  function go([dx, dy]) {
    const from = boxes.get(chosen);
    const all = layout.boxes.filter((box) => !box.is_open);
    if (!from) return select(all[0]?.id, true);
    const middle = (box) => [box.x + box.width / 2, box.y + (box.is_open ? 10 : box.height / 2)];
    const [x, y] = middle(from);
    let best = null;
    for (const box of all) {
      const [bx, by] = middle(box);
      const along = (bx - x) * dx + (by - y) * dy;
      if (box.id === chosen || along <= 1) continue;
      const far = along + 2 * Math.abs((bx - x) * dy + (by - y) * dx);
      if (!best || far < best.far) best = { far, id: box.id };
    }
    if (best) select(best.id, true);
    return undefined;
  }
}

/** boxes: of an address that says nothing of open modules, the number that the service makes visible. */
async function layoutOf(id, open, signal, boxes) {
  const layout = await get(path`/v1/plans/${id}/layout`, { signal, query: { open, boxes } });
  return { edges: [], boxes: [], ...layout };
}

function byId({ boxes }) {
  return new Map(boxes.map((box) => [box.id, box]));
}
