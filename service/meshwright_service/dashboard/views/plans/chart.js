// The plans of the filter as dots: two figures against each other, chosen by a click or a rectangle.
import { get } from "../../api.js";
import { scatter } from "../../chart/scatter.js";
import { fill, h } from "../../element.js";
import { empty, failed, loading } from "../../states.js";
import { count, number, percent, short, time } from "../../units.js";
import { MOST_PLANS } from "../compare/address.js";

const FIGURES = {
  device_rate: { name: "throughput of a device", field: "device_rate", text: (value) => `${number(value)}/s`, base: 10 },
  throughput: { name: "throughput", field: "units_per_s", text: (value) => `${count(value)}/s`, base: 10 },
  step: { name: "step", field: "step_ns", text: time, less: true, base: 10 },
  headroom: { name: "memory free", field: "headroom", text: percent },
  utilization: { name: "MFU", field: "utilization", text: percent },
  devices: { name: "devices", field: "devices", text: count, less: true, base: 2 },
  batch: { name: "batch", field: "batch", text: count, base: 2 },
};
const KINDS = {
  fits: { name: "fits", colour: "--stored", shape: "circle" },
  not: { name: "does not fit", colour: "--capacity", shape: "diamond" },
};
const UP = "device_rate";
const ACROSS = "headroom";

/** {element, update(asked), mark()}: asked as of the filters; mark: after another choice of plans. */
export function plansChart({ query, keep, signal, chosen }) {
  const held = h("div");
  const says = h("p", { class: "muted", role: "status" });
  let axes = { y: known(query.get("y"), UP), x: known(query.get("x"), ACROSS) };
  let found = null;
  let asked = null;
  let shown = null; // the question whose answer is drawn
  const element = h("details", { open: query.get("chart") === "open", class: "plans-chart", ontoggle: toggled },
    h("summary", {}, "Chart"),
    h("div", { class: "row" }, axis("y", "Up"), axis("x", "Right"), says), held);
  return { element, update, mark: draw };

  function axis(name, label) {
    const id = `chart-${name}`;
    const select = h("select", { id, onchange: () => { axes = { ...axes, [name]: select.value }; keep({ [name]: select.value }); draw(); } },
      Object.entries(FIGURES).map(([key, figure]) => h("option", { value: key, selected: axes[name] === key }, figure.name)));
    return h("span", { class: "field" }, h("label", { for: id }, label), select);
  }

  function toggled() {
    keep({ chart: element.open ? "open" : null });
    if (asked) update(asked);
  }

  async function update(next) {
    asked = next;
    element.hidden = asked.noun !== "plans";
    const question = JSON.stringify(asked);
    if (!element.open || element.hidden || question === shown) return;
    shown = question;
    if (!found) fill(held, loading("the plans"));
    try {
      const answer = await get("/v1/plans/points", { signal, query: asked.query });
      if (shown !== question) return;
      found = answer;
      draw();
    } catch (problem) {
      if (signal.aborted) return;
      shown = null;
      fill(held, failed(problem, () => update(asked)));
    }
  }

  function draw() {
    if (!found || !element.open) return;
    const [y, x] = [FIGURES[axes.y], FIGURES[axes.x]];
    const selected = new Set(chosen.chosen());
    const points = found.points.filter((own) => hasPlace(own, y) && hasPlace(own, x)).map((own) => ({
      id: own.id, x: own[x.field], y: own[y.field], kind: own.headroom < 0 ? "not" : "fits", isChosen: selected.has(own.id),
      name: own.name || short(own.id), says: `${own.topology_name}, ${short(own.id)}`,
    }));
    says.textContent = told(found, points.length);
    if (!points.length) {
      fill(held, empty("No figures", "No plan of the filter has both figures."));
      return;
    }
    const focus = held.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    fill(held, scatter({
      points, kinds: KINDS, x, y, label: `${y.name} against ${x.name} of ${count(points.length)} plans`,
      onPick: ({ id }) => chosen.select(selected.has(id) ? chosen.chosen().filter((own) => own !== id) : [...chosen.chosen(), id]),
      onBrush: (within) => chosen.select(best(within, y).map(({ id }) => id)),
    }));
    if (focus !== null) held.querySelector(`[data-at="${focus}"]`)?.focus();
  }
}

/** Of more plans than can be compared those that are best by the figure. */
function best(points, figure) {
  const order = [...points].sort((one, other) => (figure.less ? one.y - other.y : other.y - one.y));
  return order.slice(0, MOST_PLANS);
}

function told({ points, total }, drawn) {
  const missing = points.length - drawn;
  return [
    total > points.length ? `The newest ${count(points.length)} of ${count(total)} plans.` : `${count(total)} plans.`,
    missing ? `${count(missing)} without these figures.` : "",
    `A rectangle selects the best ${MOST_PLANS} within it by the figure that is up.`,
  ].filter(Boolean).join(" ");
}

/** Whether a plan has the figure; on a logarithmic scale one above zero. */
function hasPlace(plan, { field, base }) {
  return typeof plan[field] === "number" && (!base || plan[field] > 0);
}

function known(key, otherwise) {
  return key in FIGURES ? key : otherwise;
}
