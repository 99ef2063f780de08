// The layouts of one tensor: its blocks with the ranks that hold them, at rest and after each collective.
import { get } from "../api.js";
import { fill, h, link, path } from "../element.js";
import { named } from "../kinds.js";
import { empty, loading } from "../states.js";
import { bytes, count, time } from "../units.js";
import { planHead } from "./plan_head.js";

const PASSES = { forward: "Forward", backward: "Backward, of the gradient", step: "Once a step, of the gradient and the parameter" };

export async function show({ root, params, query, signal, title }) {
  const id = params.plan;
  const name = query.get("name") ?? "";
  fill(root, planHead(id, "graph"), loading("the layouts of the tensor"));
  if (!name) {
    const { entry } = await get(path`/v1/plans/${id}/overview`, { signal });
    fill(root, planHead(id, "graph", { entry }), empty("Which tensor?", "The names of tensors beside ", link(path`/plans/${id}/graph`, "the graph"), " lead to their blocks on the devices."));
    return;
  }
  const asked = new URLSearchParams({ tensor: name, ...(query.get("stage") ? { stage: query.get("stage") } : {}) });
  const [{ entry }, found] = await Promise.all([
    get(path`/v1/plans/${id}/overview`, { signal }),
    get(`${path`/v1/plans/${id}/tensor-layouts`}?${asked}`, { signal }),
  ]);
  title(`${found.tensor} of ${entry.name || "a plan"}`);
  const same = (own) => own.layout === found.value.layout;
  fill(root, planHead(id, "graph", { entry }),
    h("h2", { class: "name" }, found.tensor),
    h("p", {}, `${shape(found.shape)} elements`, found.stage || entry.stages > 1 ? `, stage ${found.stage}` : "", ", on the mesh ",
      h("span", { class: "name" }, found.mesh.axes.map((axis) => `${axis.name}=${axis.size}`).join(" × ") || "of one device"), ". Numbers in the blocks are ranks."),
    found.tensor === name ? null : h("p", { class: "muted" }, h("code", { class: "name" }, name), " is a view of it."),
    h("h3", {}, "At rest"),
    h("div", { class: "blocks-row" },
      grid("Value", found.value),
      found.gradient ? grid(same(found.gradient) ? "Gradient, as the value" : "Gradient", found.gradient) : null,
      found.optimizer ? grid(same(found.optimizer) ? "Optimizer state, as the value" : "Optimizer state", found.optimizer) : null),
    found.paths?.length ? found.paths.map((own) => changes(id, own, found)) : h("p", { class: "muted" }, "Nothing moves: it is read as it lies."),
  );
}

function changes(id, { reader, readers = 1, direction, traffic, changes: all }, found) {
  const op = reader && readers === 1 ? link(`${path`/plans/${id}/graph`}?${new URLSearchParams({ op: reader })}`, h("code", { class: "name" }, reader)) : reader ? h("code", { class: "name" }, reader) : "all readers";
  const began = direction === "forward" ? [grid("At rest", found.value)] : [];
  return h("section", {},
    h("h3", {}, PASSES[direction], direction === "backward" ? ", from " : direction === "forward" ? ", to " : ", of ", op, readers > 1 ? ` ×${count(readers)}` : ""),
    h("div", { class: "blocks-row" },
      began,
      all.map((own) => [
        h("p", { class: "change" }, h("span", { "aria-hidden": "true" }, "→ "), h("strong", {}, named(own.kind)), own.axes.length ? [" over ", h("span", { class: "name" }, own.axes.join(" "))] : "",
          h("br"), h("span", { class: "muted" }, own.payload_bytes ? `${bytes(own.payload_bytes)}, ${time(own.ns)}` : "no traffic")),
        grid(`After the ${named(own.kind)}`, own.after),
      ])),
    h("p", { class: "muted" }, traffic === "parameter" ? "Traffic of parameters." : traffic === "gradient" ? "Traffic of gradients." : "Traffic of activations."));
}

/** Rows are the parts of the first cut, columns those of the others. */
function grid(title, blocks) {
  const [first, ...others] = blocks.cuts;
  const partial = blocks.partial ?? [];
  const notes = [
    first ? `rows: ${cut(first)}` : "whole on every device",
    others.length ? `columns: ${others.map(cut).join(", then ")}` : null,
    partial.length ? `partial sums over ${partial.join(" ")}` : null,
    `a device has ${shape(blocks.shape)}`,
  ];
  const more = blocks.columns - (blocks.devices[0]?.length ?? 0);
  return h("figure", { class: "blocks" },
    h("figcaption", {}, title),
    h("div", { class: "scroll" }, h("table", { "aria-label": `${title}: blocks`, class: partial.length ? "partial" : null }, h("tbody", {},
      blocks.devices.map((row) => h("tr", {}, row.map((text) => h("td", {}, partial.length ? "Σ " : "", text.replaceAll("-", "–"))), more > 0 ? h("td", { class: "more" }, "…") : null)),
      blocks.rows > blocks.devices.length ? h("tr", {}, h("td", { class: "more", colspan: blocks.devices[0].length + (more > 0 ? 1 : 0) }, `… ${count(blocks.rows)} rows`)) : null,
    ))),
    h("p", { class: "muted" }, notes.filter(Boolean).join("; "), more > 0 ? `; ${count(blocks.columns)} columns` : "", "."));
}

function cut({ dim, axes, ways }) {
  return `dim ${dim} in ${count(ways)} over ${axes.join(" ")}`;
}

function shape(lengths) {
  return lengths.length ? lengths.map(count).join(" × ") : "one";
}
