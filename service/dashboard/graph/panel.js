// What is selected, in words and numbers: an op, a module, or what moves on an edge.
import { strategy } from "../delta.js";
import { h, path } from "../element.js";
import { bytes, count, time } from "../units.js";

export function boxPanel(plan, box) {
  const all = (box.times ?? 1) > 1 ? `, all ${count(box.times)}` : "";
  return [
    h("h2", {}, h("span", { class: "name" }, box.op ?? box.id)),
    h("p", {},
      box.op_kind ? [h("code", {}, box.op_kind), box.stage !== undefined ? ` · stage ${box.stage ?? 0}` : ""] : `${count(box.ops)} ops`,
      (box.times ?? 1) > 1 ? `, drawn once for ${count(box.times)}` : "",
    ),
    h("dl", { class: "facts" },
      box.strategy ? [h("dt", {}, "Strategy"), h("dd", {}, h("code", { class: "name" }, strategy({ strategy: box.strategy })))] : null,
      h("dt", {}, "Compute"), h("dd", {}, `${time(box.compute_ns)} a step${all}`),
      h("dt", {}, "Communication"), h("dd", {}, `${time(box.communication_ns)} a step${all}`),
      box.saved_bytes ? [h("dt", {}, "Saved"), h("dd", {}, `${bytes(box.saved_bytes)} a microbatch`)] : null,
      box.parameter_bytes ? [h("dt", {}, "Parameters"), h("dd", {}, `${bytes(box.parameter_bytes)} on a device, with gradients and optimizer state`)] : null,
    ),
    tensors("Reads", box.read ?? []),
    tensors("Makes", box.made ?? []),
    parameters(box.parameters ?? []),
    box.op ? h("p", {}, h("a", { class: "button", href: `${path`/plans/${plan}/why`}?${new URLSearchParams({ op: box.op })}` }, "Why this strategy?")) : null,
  ];
}

export function edgePanel(edge, names) {
  return [
    h("h2", {}, "What goes from ", h("span", { class: "name" }, names(edge.source)), " to ", h("span", { class: "name" }, names(edge.target))),
    h("ul", {}, edge.tensors.map((name) => h("li", { class: "name" }, h("code", {}, name))), further(edge.more_tensors)),
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

function tensors(title, all) {
  if (!all.length) return null;
  return [
    h("h3", {}, title),
    h("ul", {}, all.map((own) => h("li", { class: "name" }, h("code", {}, own.tensor), h("div", { class: "muted" }, said(own))))),
  ];
}

function said({ axes, partial = [] }) {
  if (!axes) return "any device can make or load any part";
  const cut = axes.map((own, dim) => (own.length ? `dim ${dim} over ${own.join(" ")}` : null)).filter(Boolean);
  const sums = partial.length ? `partial sums over ${partial.join(" ")}` : null;
  return [...cut, sums].filter(Boolean).join("; ") || "whole on every device";
}

function parameters(all) {
  if (!all.length) return null;
  return [
    h("h3", {}, "Parameters at rest"),
    all.map((own) => h("dl", { class: "facts" },
      h("dt", {}, "Name"), h("dd", { class: "name" }, h("code", {}, own.tensor)),
      h("dt", {}, "Value"), h("dd", {}, h("code", { class: "name" }, own.value)),
      own.gradient ? [h("dt", {}, "Gradient"), h("dd", {}, h("code", { class: "name" }, own.gradient === own.value ? "the same" : own.gradient))] : null,
      own.optimizer ? [h("dt", {}, "Optimizer"), h("dd", {}, h("code", { class: "name" }, own.optimizer === own.value ? "the same" : own.optimizer))] : null,
      h("dt", {}, "Takes"), h("dd", {}, bytes(own.resting_bytes)))),
  ];
}
