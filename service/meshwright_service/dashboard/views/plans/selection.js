// Two plans to be compared: the address keeps which.
import { fill, h, path } from "../../element.js";
import { short } from "../../units.js";

/** {bar, box(plan), compare()}; a third pushes the first out. */
export function selection({ query, keep, go }) {
  let chosen = query.getAll("selected").slice(0, 2);
  const bar = h("div", { class: "row selection", role: "status" });
  draw();
  return { bar, box, compare };

  function box(plan) {
    return h("input", { type: "checkbox", "aria-label": `Select ${plan.name || short(plan.id)} to compare`, "data-plan": plan.id, onchange: (event) => toggle(plan.id, event.target.checked), ...(chosen.includes(plan.id) ? { checked: true } : {}) });
  }

  function toggle(id, on) {
    chosen = chosen.filter((own) => own !== id);
    if (on) chosen = [...chosen, id].slice(-2);
    document.querySelectorAll("input[data-plan]").forEach((own) => {
      own.checked = chosen.includes(own.dataset.plan);
      own.toggleAttribute("checked", own.checked);
    });
    keep({ selected: chosen });
    draw();
  }

  function draw() {
    fill(bar,
      chosen.length === 0 ? h("span", { class: "muted" }, "Select two plans to compare them") : null,
      chosen.length === 1 ? h("span", { class: "muted" }, "One selected; one more to compare") : null,
      chosen.length === 2 ? h("a", { class: "button", href: address() }, "Compare the two") : null);
  }

  function address() {
    return path`/compare?plan=${chosen[0]}&plan=${chosen[1]}`;
  }

  function compare() {
    if (chosen.length === 2) go(address());
  }
}
