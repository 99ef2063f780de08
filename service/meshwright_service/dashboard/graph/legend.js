// What the graph's colours mean: axes on what ops make, collectives on edges that move something.
import { legend } from "../chart/legend.js";
import { h } from "../element.js";
import { COLLECTIVES } from "../kinds.js";

export const HUES = 8; // axes that have one of their own

/** The colour of each axis, in the order of the meshes; from the ninth on they come again. */
export function coloursOf(meshes) {
  const names = [...new Set(meshes.flatMap((mesh) => Object.keys(mesh)))];
  return Object.fromEntries(names.map((name, at) => [name, `--axis-${at % HUES}`]));
}

/** colours: of axes; edges: those that are drawn now. */
export function graphLegend(colours, edges) {
  const names = Object.keys(colours);
  const again = names.slice(HUES);
  const axes = names.slice(0, HUES).map((name, at) => ({
    name: `cut over ${[name, ...again.filter((_, other) => other % HUES === at)].join(" or ")}`, colour: colours[name],
  }));
  const moved = new Set(edges.flatMap((edge) => (edge.moved ?? []).map((own) => own.collective)));
  const known = Object.entries(COLLECTIVES).filter(([kind]) => moved.has(kind)).map(([, own]) => own);
  const others = [...moved].filter((kind) => !(kind in COLLECTIVES)).map((kind) => ({ name: kind.replaceAll("_", " "), colour: "--ink-2" }));
  return [
    h("div", { role: "group", "aria-label": "Colours of boxes" },
      legend([...axes, { name: "whole on every device", colour: "--replicated" }]),
      again.length ? h("p", { class: "muted" }, `Of ${names.length} axes ${again.length} share a colour with one of the first ${HUES}; a box's own are named when it is selected.`) : null),
    moved.size ? h("div", { role: "group", "aria-label": "Colours of edges" }, legend([...known, ...others].map((own) => ({ ...own, mark: 2 })))) : null,
  ];
}
