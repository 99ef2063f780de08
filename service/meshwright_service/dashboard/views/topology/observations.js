// Observed steps of the plans of a cluster beside their predictions: by software stack, over time, one by one.
import { ratios } from "../../chart/ratios.js";
import { fill, h, link, path } from "../../element.js";
import { plain } from "../../kinds.js";
import { empty } from "../../states.js";
import { table } from "../../table.js";
import { ago, bytes, count, moment, short, time } from "../../units.js";

const SHOWN = 20; // rows at first; chosen
const FEW = 3; // chosen: fewer observations tell no spread

export function observations({ stacks, observations: steps, total }) {
  return h(
    "section", { "aria-labelledby": "observations" },
    h("h2", { id: "observations" }, "Observed steps"),
    steps.length
      ? [
          h("p", { class: "muted" }, "Training jobs reported these steps. A step says how far a prediction is off, and not which device or link is the cause: it measures no link."),
          chart(stacks, steps), h("h3", {}, "By stack"), byStack(stacks), h("h3", {}, "One by one"), oneByOne(steps, total),
        ]
      : empty("No step is reported", "A training job reports its step with ", h("code", {}, "POST /v1/plans/{plan}/observations"), "."));
}

function chart(stacks, steps) {
  const names = [...new Set(stacks.map((own) => own.stack))];
  return ratios({
    label: `Observed over predicted steps of ${count(steps.length)} observations`,
    series: names.map((name, at) => ({ name: titled(name), colour: plain(at) })),
    date: (value) => moment(new Date(value).toISOString()),
    points: steps.map((own) => ({ at: Date.parse(own.created_at), ratio: own.ratio, interval: own.interval, series: names.indexOf(own.stack), says: `${titled(own.stack)}: ${times(own.ratio)}, ${moment(own.created_at)}` })),
  });
}

function byStack(stacks) {
  return table({
    label: "Observed steps by stack", rows: stacks,
    columns: [
      { title: "Stack", value: (own) => h("span", { class: "clip", title: titled(own.stack) }, titled(own.stack)) },
      { title: "Plans by", says: "the calibration of the plans", value: (own) => link(path`/calibrations/${own.calibration}`, short(own.calibration)) },
      { title: "Observations", number: true, value: (own) => count(own.observations) },
      { title: "Median", says: "observed over predicted", number: true, value: (own) => times(own.median) },
      { title: "Spread", says: "the lowest and the highest", number: true, value: (own) => (own.observations < FEW ? h("span", { class: "tag warn" }, "too few for a spread") : `${times(own.lowest)} to ${times(own.highest)}`) },
      { title: "Outside the interval", says: "of 80 % of published steps", number: true, value: (own) => `${count(own.outside)} of ${count(own.observations)}` },
      { title: "Calibration", value: (own) => (own.anchored
        ? [link(path`/calibrations/${own.anchored}`, `anchored to ${count(own.observations)} ${own.observations === 1 ? "step" : "steps"}`), " ", h("a", { class: "button", href: path`/plans/${own.plan}/what-if?calibration=${own.anchored}` }, "Plan again with this calibration")]
        : "–") },
    ],
  });
}

function oneByOne(steps, total) {
  const held = h("div");
  draw(SHOWN);
  return held;

  function draw(most) {
    const shown = steps.slice(0, most);
    fill(held,
      table({
        label: "Observations", rows: shown,
        columns: [
          { title: "Reported", value: (own) => h("time", { datetime: own.created_at, title: moment(own.created_at) }, ago(own.created_at)) },
          { title: "Plan", value: (own) => link(path`/plans/${own.plan}`, h("span", { class: "clip" }, own.plan_name || short(own.plan))) },
          { title: "Stack", value: (own) => h("span", { class: "clip", title: titled(own.stack) }, titled(own.stack)) },
          { title: "Steps", number: true, value: (own) => count(own.steps) },
          { title: "Predicted", number: true, value: (own) => time(own.predicted_step_ns) },
          { title: "Observed", number: true, value: (own) => time(own.step_ns) },
          { title: "Ratio", number: true, value: (own) => [times(own.ratio), own.outside ? [" ", h("span", { class: "tag warn" }, "outside the 80 % interval")] : null] },
          { title: "Memory predicted", says: "without the reserve", number: true, value: (own) => (own.memory_bytes ? bytes(own.predicted_memory_bytes) : "–") },
          { title: "Memory observed", number: true, value: (own) => (own.memory_bytes ? `${bytes(own.memory_bytes)} (${times(own.memory_bytes / own.predicted_memory_bytes)})` : "–") },
        ],
      }),
      steps.length > most ? h("button", { type: "button", onclick: () => draw(Infinity) }, `Show all ${count(steps.length)}`) : null,
      total > steps.length ? h("p", { class: "muted" }, `The newest ${count(steps.length)} of ${count(total)} observations.`) : null);
  }
}

function times(ratio) {
  return `×${ratio.toFixed(2)}`;
}

function titled(stack) {
  return stack || "no stack named";
}
