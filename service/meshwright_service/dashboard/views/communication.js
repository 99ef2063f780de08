// Communication of a plan: what moves between the devices of its stages, how much, how long, over which links.
import { get } from "../api.js";
import { bars } from "../chart/bars.js";
import { fill, h, link, path } from "../element.js";
import { COLLECTIVES, named, plain } from "../kinds.js";
import { empty, loading } from "../states.js";
import { table } from "../table.js";
import { bytes, count, percent, time } from "../units.js";
import { planHead } from "./plan_head.js";

const FIRST = 20; // rows of the table at first; chosen
const BARS = 8; // bars of a chart, the longest; chosen
const TRAFFIC = { activation: "activations", parameter: "parameters", gradient: "gradients" };

export async function show({ root, params, signal, title }) {
  const id = params.plan;
  fill(root, planHead(id, "communication"), loading("the communication"));
  const [{ entry }, found] = await Promise.all([
    get(path`/v1/plans/${id}/overview`, { signal }),
    get(path`/v1/plans/${id}/communication`, { signal }),
  ]);
  title(`Communication of ${entry.name || "a plan"}`);
  const all = found.groups.map((own, at) => ({ ...own, at }));
  if (!all.length) {
    fill(root, planHead(id, "communication", { entry }), empty("No communication", "No device of a stage sends anything to another one."));
    return;
  }
  const held = h("div");
  draw(FIRST);
  fill(root, planHead(id, "communication", { entry }),
    h("p", {}, totals(found)),
    h("h2", {}, "By link"), chart(all, (own) => own.levels.join(" + ") || "one device", "Communication by link"),
    h("h2", {}, "By module"), chart(all, (own) => own.module || own.tensor, "Communication by module"),
    h("h2", {}, "Longest first"),
    h("p", { class: "muted" }, "Of one device, for a step, of all repeats together; in a pipeline the mean of the ranks. Counted: the part of the time that the objective includes. Transfers between pipeline stages are in the timeline."),
    held);

  function draw(most) {
    fill(held, table({
      label: "Communication", rows: all.slice(0, most),
      columns: [
        { title: "Tensor", value: (own) => [link(path`/plans/${id}/graph` + `?${new URLSearchParams({ op: own.op })}`, h("span", { class: "name" }, own.tensor)), own.count > 1 ? h("span", { class: "muted" }, ` ×${count(own.count)}`) : null, " ", own.reader ? h("div", { class: "muted name" }, `to ${own.reader}`) : null] },
        { title: "Traffic", value: (own) => TRAFFIC[own.traffic] ?? own.traffic },
        { title: "Collectives", value: (own) => own.collectives.map((kind, at) => [at ? ", " : "", h("span", { class: "kind" }, named(kind))]) },
        { title: "Axes", value: (own) => h("span", { class: "name" }, own.axes.join(" ")) },
        { title: "Links", value: (own) => h("span", { class: "name" }, own.levels.join(" + ")) },
        { title: "Largest call", number: true, value: (own) => bytes(own.call_bytes), sort: (own) => own.call_bytes },
        { title: "Calls", number: true, value: (own) => count(own.calls), sort: (own) => own.calls },
        { title: "Bytes", number: true, value: (own) => bytes(own.step_bytes), sort: (own) => own.step_bytes },
        { title: "Time", number: true, value: (own) => time(own.ns), sort: (own) => own.ns },
        { title: "Counted", number: true, value: (own) => time(own.counted_ns), sort: (own) => own.counted_ns },
      ],
    }), all.length > most ? h("button", { type: "button", onclick: () => draw(Infinity) }, `Show all ${count(all.length)}`) : null);
  }
}

function sum(parts) {
  return Object.values(parts).reduce((a, b) => a + b, 0);
}

function totals({ step_ns: stepNs, communication_ns: all, exposed_ns: exposed }) {
  const parts = Object.entries(all).filter(([, ns]) => ns > 0).map(([kind, ns], at) => `${at ? ", " : ""}${TRAFFIC[kind] ?? kind} ${time(ns)} (${time(exposed[kind] ?? 0)} exposed)`);
  return [`Communication takes ${time(sum(all))} of a step of ${time(stepNs)}; ${time(sum(exposed))} (${percent(sum(exposed) / stepNs)}) are exposed: `, parts, "."];
}

/** Time by a property of the groups and by collective, the longest first. */
function chart(all, keyOf, label) {
  const rows = new Map();
  for (const own of all) {
    const parts = rows.get(keyOf(own)) ?? rows.set(keyOf(own), {}).get(keyOf(own));
    const kind = own.collectives[0];
    parts[kind] = (parts[kind] ?? 0) + own.ns;
  }
  const sorted = [...rows].sort(([, a], [, b]) => sum(b) - sum(a)).slice(0, BARS);
  const kinds = [...new Set(all.map((own) => own.collectives[0]))];
  return bars({
    rows: sorted.map(([name, parts]) => ({ name: clip(name), parts, total: time(sum(parts)) })),
    kinds: Object.fromEntries(kinds.map((kind, at) => [kind, { name: named(kind), colour: COLLECTIVES[kind]?.colour ?? plain(at) }])),
    text: time, label, names: 300,
  });
}

function clip(name) {
  return name.length > 40 ? `…${name.slice(-39)}` : name;
}
