// Plans to be compared: the address keeps which.
import { fill, h } from "../../element.js";
import { short } from "../../units.js";
import { comparisonAddress, MOST_PLANS } from "../compare/address.js";

/** {bar, box(plan), compare(), chosen(), select(ids)}; beyond the most plans the first is left out. */
export function selection({ query, keep, go, onChange = () => null }) {
  let chosen = query.getAll("selected").slice(0, MOST_PLANS);
  const bar = h("div", { class: "row selection", role: "status" });
  draw();
  return { bar, box, compare, chosen: () => chosen, select };

  function box(plan) {
    return h("input", { type: "checkbox", "aria-label": `Select ${plan.name || short(plan.id)} to compare`, "data-plan": plan.id, onchange: (event) => toggle(plan.id, event.target.checked), ...(chosen.includes(plan.id) ? { checked: true } : {}) });
  }

  function toggle(id, on) {
    const others = chosen.filter((own) => own !== id);
    select(on ? [...others, id] : others);
  }

  function select(ids) {
    chosen = ids.slice(-MOST_PLANS);
    document.querySelectorAll("input[data-plan]").forEach((own) => {
      own.checked = chosen.includes(own.dataset.plan);
      own.toggleAttribute("checked", own.checked);
    });
    keep({ selected: chosen });
    draw();
    onChange(chosen);
  }

  function draw() {
    fill(bar,
      chosen.length < 2 ? h("span", { class: "muted" }, chosen.length ? "One selected; one more to compare" : `Select 2 to ${MOST_PLANS} plans to compare them`) : null,
      chosen.length > 1 ? h("a", { class: "button", href: comparisonAddress(chosen) }, chosen.length === 2 ? "Compare the two" : `Compare the ${chosen.length}`) : null,
      chosen.length ? h("button", { type: "button", onclick: () => select([]) }, "Select none") : null);
  }

  function compare() {
    if (chosen.length > 1) go(comparisonAddress(chosen));
  }
}
