// What stands in red before a file or a program, and the click that shows it all the same.
import { fill, h, link, path } from "../../element.js";
import { bytes, count } from "../../units.js";
import { isOverfull } from "../../verdict.js";

const MOST = 30; // chosen: losses in the list

/** shown() once the plan fits, or somebody asks for it all the same. */
export function whereFits(entry, shown) {
  if (!isOverfull(entry)) return shown();
  const place = h("div");
  const over = entry.memory_bytes - entry.capacity_bytes;
  return [
    box("This plan does not fit",
      h("p", {}, `A device needs ${bytes(entry.memory_bytes)} and has ${bytes(entry.capacity_bytes)}: ${bytes(over)} too much. Training runs out of memory.`),
      h("p", { class: "row" }, h("button", { type: "button", onclick: (event) => { event.target.disabled = true; fill(place, shown()); } }, "Show it all the same"), link(path`/plans/${entry.id}/what-if`, "Change the request"))),
    place,
  ];
}

/** The losses of a file, and what can be done about them. */
export function lossBox({ title, losses, actions }) {
  const shown = losses.slice(0, MOST);
  return box(title,
    h("ul", { "aria-label": "Losses" }, shown.map(lossItem)),
    losses.length > MOST ? h("p", { class: "muted" }, `and ${count(losses.length - MOST)} more kinds.`) : null,
    h("p", { class: "row" }, actions));
}

/** The reasons why a runtime does not carry out a plan. */
export function refusedBox(title, reasons) {
  return box(`${title} does not carry out this plan`, h("ul", {}, reasons.map((own) => h("li", { class: "name" }, own))));
}

function lossItem({ what, names, count: number }) {
  if (!names.length) return h("li", { class: "name" }, what);
  return h("li", { class: "name" },
    h("strong", {}, names.join(", ")),
    number > 1 ? h("span", { class: "muted" }, ` ×${count(number)}`) : null,
    `: ${what}`);
}

function box(title, ...content) {
  return h("div", { class: "state failed", role: "alert" }, h("strong", {}, title), content);
}
