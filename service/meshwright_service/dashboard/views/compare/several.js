// More than two plans: a table with one column for each plan.
import { get } from "../../api.js";
import { delta } from "../../delta.js";
import { h, link, path } from "../../element.js";
import { bytes, count, number, percent, short, time } from "../../units.js";
import { verdict, warningTags } from "../../verdict.js";
import { comparisonAddress } from "./address.js";
import { letter } from "./chooser.js";

const GROUPS = { speed: "Speed", step: "Parts of the step", memory: "Memory", size: "Size" };
const TEXTS = { ns: time, bytes, share: percent, count, per_s: (value) => `${number(value)}/s` };

/** The table of the plans of an address. */
export async function severalPlans({ given, plans, query, signal, go }) {
  const wanted = query.get("baseline");
  const baseline = given.includes(wanted) ? wanted : given[0];
  const made = await get("/v1/comparisons/table", { signal, query: { plan: given, baseline } });
  const groups = [
    ["Requested differently", made.requested.map((row) => words(row, made))],
    ["Chosen", made.chosen.map((row) => words(row, made))],
    ...Object.entries(GROUPS).map(([group, name]) => [name, made.figures.filter((row) => row.group === group).map((row) => figure(row, made))]),
  ].filter(([, rows]) => rows.length);
  return [
    h("p", { class: "muted" }, "● marks the best value of a row, among the plans that fit. Smaller figures are the difference from the baseline."),
    h("div", { class: "scroll" },
      h("table", { "aria-label": "Plans side by side", class: "several" },
        h("thead", {}, h("tr", {}, h("td", {}), made.plans.map((plan, at) => h("th", { scope: "col" }, head(plan, at, plans.find((own) => own.id === plan.plan)))))),
        h("tbody", {}, h("tr", {}, h("th", { scope: "row" }, "Baseline"), made.plans.map((plan, at) => h("td", {}, base(plan, at, made.baseline === at))))),
        groups.map(([name, rows]) => h("tbody", {}, h("tr", {}, h("th", { scope: "rowgroup", colspan: made.plans.length + 1, class: "group" }, name)), rows)))),
  ];

  function base({ plan }, at, isBaseline) {
    return h("input", { type: "radio", name: "baseline", "aria-label": `Baseline ${letter(at)}`, checked: isBaseline, onchange: () => go(comparisonAddress(given, plan)) });
  }
}

function head({ plan, name }, at, entry) {
  return [
    h("div", {}, letter(at), " ", link(path`/plans/${plan}`, name || short(plan))),
    h("div", { class: "muted mono" }, short(plan)),
    entry ? h("div", {}, verdict(entry), warningTags(entry.warnings)) : null,
  ];
}

function words({ name, values }, { baseline }) {
  return h("tr", {}, h("th", { scope: "row" }, name),
    values.map((value) => h("td", {}, h("span", { class: value === values[baseline] ? "name" : "name other-value" }, /^[a-z]+_[0-9a-f]{16,}$/.test(value) ? short(value) : value))));
}

function figure({ name, unit, better, values, changes, best }, { baseline }) {
  const text = TEXTS[unit];
  return h("tr", {}, h("th", { scope: "row" }, name),
    values.map((value, at) => h("td", { class: "number" },
      best.includes(at) ? h("span", { class: "good", role: "img", "aria-label": "best" }, "● ") : null, text(value),
      at === baseline || !changes[at] ? null : h("div", { class: "change" }, better ? delta(values[baseline], value, { text, less: better === "less" }) : h("span", { class: "muted" }, `${changes[at] > 0 ? "+" : "−"}${text(Math.abs(changes[at]))}`)))));
}
