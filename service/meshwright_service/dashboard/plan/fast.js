// How fast: the step in parts, against its bound, and against what was measured.
import { bars } from "../chart/bars.js";
import { h, link, path } from "../element.js";
import { table } from "../table.js";
import { ago, bytes, change, count, moment, percent, time } from "../units.js";
import { TIMES, timesOf } from "../kinds.js";

export function fast({ overview, observations, entry }) {
  const { cost } = overview;
  const hidden = Object.entries(cost.communication_ns).filter(([, ns]) => ns > 0);
  return h(
    "section", { "aria-labelledby": "fast" },
    h("h2", { id: "fast" }, "How fast is it?"),
    bars({
      rows: [{ name: "one step", parts: timesOf(cost), total: time(cost.step_ns) }],
      kinds: TIMES, text: time, label: "The step in parts", names: 80,
    }),
    hidden.length
      ? h("p", {}, "Communication runs beside compute where it can: ", hidden.map(([kind, ns], at) => [
          at ? "; " : "", `${TIMES[kind]?.name.replace("waits for ", "") ?? kind} take ${time(ns)}, of which ${time(cost.exposed_ns[kind] ?? 0)} (${percent((cost.exposed_ns[kind] ?? 0) / ns)}) are waited for`,
        ]), ".")
      : null,
    overview.buckets ? h("p", { class: "muted" }, `${count(overview.collectives)} collectives of gradients and parameters run as ${count(overview.buckets)}.`) : null,
    overview.repeated_work > 0.0005 ? h("p", {}, `${percent(overview.repeated_work)} of the arithmetic is repeated on several devices.`) : null,
    overview.kinds.length ? h("p", {}, "Ops that take most time: ", overview.kinds.map((kind, at) => `${at ? ", " : ""}${kind.kind} ${percent(kind.share)}`), ".") : null,
    observed(overview, observations, entry),
  );
}

function observed(overview, observations, entry) {
  if (!observations.length) {
    return h("p", { class: "muted" }, "No training job has reported a step of this plan yet. By the calibration ", link(path`/calibrations/${entry.calibration ?? overview.calibration}`, overview.calibration_name || "of the planner"), ".");
  }
  return [
    h("h3", {}, "Predicted against observed"),
    table({
      label: "Observations", rows: observations,
      columns: [
        { title: "When", value: (own) => h("time", { datetime: own.created_at, title: moment(own.created_at) }, ago(own.created_at)) },
        { title: "Measured step", number: true, value: (own) => time(own.observation.step_ns), sort: (own) => own.observation.step_ns },
        { title: "Predicted step", number: true, value: () => time(overview.cost.step_ns) },
        { title: "Measured against predicted", number: true, value: (own) => change(own.ratio - 1), sort: (own) => own.ratio },
        { title: "Peak memory", number: true, value: (own) => bytes(own.observation.memory_bytes) },
        { title: "Stack", value: (own) => h("span", { class: "name" }, own.observation.stack || "not said") },
      ],
    }),
  ];
}
