// What is selected, in words and numbers: an op, a module, or what moves on an edge.
import { strategy } from "../delta.js";
import { h, link, path } from "../element.js";
import { COLLECTIVES } from "../kinds.js";
import { globOf } from "../repeats.js";
import { table } from "../table.js";
import { bytes, count, time } from "../units.js";

/** edges: those that are drawn, of which some lead to the box or from it. */
export function boxPanel(plan, box, edges) {
  const all = (box.times ?? 1) > 1 ? `, all ${count(box.times)}` : "";
  return [
    h("h2", {}, h("span", { class: "name" }, box.op ?? box.id)),
    h("p", {},
      box.op_kind ? [h("code", {}, box.op_kind), box.stage !== undefined ? ` · stage ${box.stage ?? 0}` : ""] : `${count(box.ops)} op${box.ops === 1 ? "" : "s"}`,
      (box.times ?? 1) > 1 ? `, drawn once for ${count(box.times)}` : "",
    ),
    h("dl", { class: "facts" },
      box.strategy ? [h("dt", {}, "Strategy"), h("dd", {}, h("code", { class: "name" }, strategy({ strategy: box.strategy })))] : null,
      h("dt", {}, "Compute"), h("dd", {}, `${time(box.compute_ns)} a step${all}`),
      h("dt", {}, "Communication"), h("dd", {}, `${time(box.communication_ns)} a step${all}`),
      box.saved_bytes ? [h("dt", {}, "Saved"), h("dd", {}, `${bytes(box.saved_bytes)} a microbatch`)] : null,
      box.parameter_bytes ? [h("dt", {}, "Parameters"), h("dd", {}, `${bytes(box.parameter_bytes)} on a device, with gradients and optimizer state`)] : null,
    ),
    moves("Moves to it", edges.filter((edge) => edge.target === box.id)),
    moves("Moves from it", edges.filter((edge) => edge.source === box.id)),
    tensors(plan, box, "Reads", box.read ?? []),
    tensors(plan, box, "Makes", box.made ?? []),
    parameters(plan, box),
    box.op ? h("p", { class: "row" }, whyLinks(plan, box)) : null,
  ];
}

/** The question about the op, and of a box that stands for repeats first about all of them. */
function whyLinks(plan, { op, times = 1 }) {
  const to = (asked, ...says) => h("a", { class: "button", href: `${path`/plans/${plan}/why`}?${new URLSearchParams({ op: asked })}` }, says);
  const glob = times > 1 ? globOf(op) : null;
  if (!glob) return to(op, "Why this strategy?");
  return [to(glob, "Why this strategy? All of ", h("code", { class: "name" }, glob)), to(op, "Why? ", h("code", { class: "name" }, op), " alone")];
}

/** The name of a tensor, which leads to its blocks on the devices. */
function tensorLink(plan, tensor, stage) {
  const query = new URLSearchParams({ name: tensor, ...(stage === undefined ? {} : { stage }) });
  return link(`${path`/plans/${plan}/tensor`}?${query}`, h("code", {}, tensor));
}

export function edgePanel(plan, edge, names) {
  return [
    h("h2", {}, "What goes from ", h("span", { class: "name" }, names(edge.source)), " to ", h("span", { class: "name" }, names(edge.target))),
    h("ul", {}, edge.tensors.map((name) => h("li", { class: "name" }, tensorLink(plan, name))), further(edge.more_tensors)),
    edge.moved?.length
      ? [h("h3", {}, "Redistributed on the way"),
         h("ul", { class: "moves" }, edge.moved.map((own) => h("li", {},
           h("strong", {}, own.collective), own.axes.length ? ` over ${own.axes.join(" ")}` : "", `, ${own.direction === "step" ? "once a step" : own.direction}: `,
           own.payload_bytes ? `${bytes(own.payload_bytes)}, ` : "", time(own.ns), h("div", { class: "muted name" }, own.tensor))), further(edge.more_moved)),
         h("p", { class: "muted" }, `Together ${time(edge.ns ?? 0)} over a step.`)]
      : h("p", { class: "muted" }, "Nothing moves: it is read as it lies."),
  ];
}

function further(more) {
  return more ? h("li", { class: "muted" }, `and ${count(more)} more`) : null;
}

const WHEN = { forward: "forward", backward: "backward", step: "once a step" };

/** Communication by collective and pass; an edge's own time is of all that it does in a step. */
function moves(title, edges) {
  const kinds = new Map();
  for (const { collective, direction, payload_bytes: payload, ns } of edges.flatMap((edge) => edge.moved ?? [])) {
    const key = `${collective} ${direction}`;
    const own = kinds.get(key) ?? { collective, direction, number: 0, payload: 0, ns: 0 };
    kinds.set(key, { ...own, number: own.number + 1, payload: own.payload + payload, ns: own.ns + ns });
  }
  if (!kinds.size) return null;
  const together = edges.reduce((all, edge) => all + (edge.moved?.length ? edge.ns ?? 0 : 0), 0);
  const more = edges.reduce((all, edge) => all + (edge.more_moved ?? 0), 0);
  return [
    h("h3", {}, title),
    table({
      label: title, rows: [...kinds.values()].sort((a, b) => b.ns - a.ns),
      columns: [
        { title: "Collective", value: (own) => `${own.number > 1 ? `${count(own.number)} × ` : ""}${COLLECTIVES[own.collective]?.name ?? own.collective}` },
        { title: "Pass", value: (own) => WHEN[own.direction] ?? own.direction },
        { title: "Payload", number: true, value: (own) => (own.payload ? bytes(own.payload) : "–") },
        { title: "Time", says: "of each once", number: true, value: (own) => time(own.ns) },
      ],
    }),
    h("p", { class: "muted" }, `Together ${time(together)} over a step${more ? `, with ${count(more)} more that take less and are not counted above` : ""}.`),
  ];
}

function tensors(plan, { stage }, title, all) {
  if (!all.length) return null;
  return [
    h("h3", {}, title),
    h("ul", {}, all.map((own) => h("li", { class: "name" }, own.axes ? tensorLink(plan, own.tensor, stage) : h("code", {}, own.tensor), h("div", { class: "muted" }, said(own))))),
  ];
}

function said({ axes, partial = [] }) {
  if (!axes) return "any device can make or load any part";
  const cut = axes.map((own, dim) => (own.length ? `dim ${dim} over ${own.join(" ")}` : null)).filter(Boolean);
  const sums = partial.length ? `partial sums over ${partial.join(" ")}` : null;
  return [...cut, sums].filter(Boolean).join("; ") || "whole on every device";
}

function parameters(plan, { stage, parameters: all = [] }) {
  if (!all.length) return null;
  return [
    h("h3", {}, "Parameters at rest"),
    all.map((own) => h("dl", { class: "facts" },
      h("dt", {}, "Name"), h("dd", { class: "name" }, tensorLink(plan, own.tensor, stage)),
      h("dt", {}, "Value"), h("dd", {}, h("code", { class: "name" }, own.value)),
      own.gradient ? [h("dt", {}, "Gradient"), h("dd", {}, h("code", { class: "name" }, own.gradient === own.value ? "the same" : own.gradient))] : null,
      own.optimizer ? [h("dt", {}, "Optimizer"), h("dd", {}, h("code", { class: "name" }, own.optimizer === own.value ? "the same" : own.optimizer))] : null,
      h("dt", {}, "Takes"), h("dd", {}, bytes(own.resting_bytes)))),
  ];
}
