// What all pages of one plan begin with: its name, what it runs on, and the way to its other pages.
import { h, link, path } from "../element.js";
import { ago, moment, short } from "../units.js";
import { verdict, warningTags } from "../verdict.js";

const TABS = [
  ["", "Overview"],
  ["graph", "Graph"],
  ["why", "Why"],
  ["communication", "Communication"],
  ["schedule", "Schedule"],
  ["timeline", "Timeline"],
  ["front", "Alternatives"],
  ["what-if", "What if"],
  ["launch", "Launch"],
];

/** current: the last part of the page's path; entry: of the plan, if the page has it; warnings: of its overview. */
export function planHead(id, current, { entry, title, warnings = [] } = {}) {
  const tabs = TABS.map(([name, says]) =>
    h("a", { href: path`/plans/${id}` + (name && `/${name}`), "aria-current": name === current ? "page" : null }, says),
  );
  return h(
    "div", { class: "plan-head" },
    h("h1", { class: "name" }, title ?? entry?.name ?? short(id)),
    h(
      "p", { class: "muted" },
      entry ? ["on ", link(path`/topologies/${entry.topology}`, h("span", { class: "clip", title: entry.topology_name }, entry.topology_name || short(entry.topology))), " · "] : null,
      h("span", { class: "mono", title: id }, short(id)),
      entry ? [" · ", h("time", { datetime: entry.created_at, title: moment(entry.created_at) }, ago(entry.created_at))] : null,
      entry ? [" · ", verdict(entry)] : null,
      warningTags(warnings),
      entry?.key_name ? [" · by ", h("span", { class: "name" }, entry.key_name)] : null,
    ),
    h("nav", { class: "tabs", "aria-label": "Pages of this plan" }, tabs),
  );
}
