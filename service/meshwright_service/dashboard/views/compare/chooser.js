// The choice of the plans of a comparison.
import { get } from "../../api.js";
import { h, path } from "../../element.js";
import { ago, short, time } from "../../units.js";
import { isOverfull } from "../../verdict.js";
import { comparisonAddress, MOST_PLANS } from "./address.js";

const LETTERS = "ABCDEFGH";

/** The name of the plan at a place of a comparison. */
export function letter(at) {
  return LETTERS[at];
}

/** The newest plans, and those of the address that are not among them. */
export async function listOf(given, signal) {
  const { plans } = await get("/v1/plans", { signal, query: { page_size: 200 } });
  const known = new Set(plans.map((own) => own.id));
  const missing = given.filter((id) => !known.has(id)).map((id) => get(path`/v1/plans/${id}/overview`, { signal }).then((own) => own.entry, () => null));
  return [...plans, ...(await Promise.all(missing)).filter(Boolean)]; // the comparison tells of one that is deleted
}

/** A field for each plan and one for a further plan. */
export function chooser(given, plans, { go, baseline }) {
  const fields = given.length < 2 ? 2 : given.length;
  const to = (ids) => go(comparisonAddress(ids, baseline));
  const pick = (at) => {
    const select = h("select", { id: `plan-${at}`, onchange: () => to(replaced(given, at, select.value)) },
      h("option", { value: "" }, at < fields ? "choose a plan" : "no further plan"),
      plans.map((own) => h("option", { value: own.id, selected: own.id === given[at] }, titleOf(own))));
    return h("span", { class: "row" }, h("label", { for: `plan-${at}` }, at < fields ? letter(at) : "Add"), select,
      given.length > 2 && at < fields ? h("button", { type: "button", "aria-label": `Leave out ${letter(at)}`, onclick: () => to(given.filter((_, own) => own !== at)) }, "×") : null);
  };
  return h("div", { class: "row compare-pick" },
    Array.from({ length: fields }, (_, at) => pick(at)),
    given.length >= 2 && given.length < MOST_PLANS ? pick(given.length) : null,
    given.length <= 2 ? h("button", { type: "button", disabled: given.length < 2, onclick: () => to([given[1], given[0]]) }, "Swap") : null);
}

function replaced(given, at, id) {
  const ids = [...given];
  ids[at] = id;
  return ids.filter(Boolean);
}

function titleOf(plan) {
  return `${clip(plan.name || short(plan.id))} · ${clip(plan.topology_name)} · ${time(plan.step_ns)}${isOverfull(plan) ? " · does not fit" : ""} · ${short(plan.id)} · ${ago(plan.created_at)}`;
}

function clip(name) {
  return name.length > 40 ? `${name.slice(0, 39)}…` : name;
}
