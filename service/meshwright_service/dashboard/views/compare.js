// Two plans beside each other: totals, then only the ops that differ.
import { get } from "../api.js";
import { bars } from "../chart/bars.js";
import { delta, strategy } from "../delta.js";
import { fill, h, link, path } from "../element.js";
import { PARTS, TIMES, timesOf } from "../kinds.js";
import { empty, failed, loading } from "../states.js";
import { table } from "../table.js";
import { ago, bytes, count, percent, short, time } from "../units.js";
import { isOverfull, verdict, warningTags } from "../verdict.js";

const SHOWN = 40; // rows of differences at first; chosen: a person reads the largest
const CAUSES = 2; // parts that a sentence names; chosen
const NAMES = ["graph", "topology", "setup", "calibration"];
const COSTS = ["strategy", "layout", "stage", "cost", "only in one"];

export async function show({ root, query, signal, go, title }) {
  title("Compare");
  const given = query.getAll("plan").filter(Boolean).slice(0, 2);
  const head = h("h1", {}, "Compare two plans");
  fill(root, head, loading("the plans"));
  const plans = await shelf(given, signal);
  const choice = chooser(given, plans, go);
  if (given.length < 2) {
    fill(root, head, choice, empty("Choose two plans", "Plans of one graph are compared op by op."));
    return;
  }
  fill(root, head, choice, loading("the comparison"));
  let found;
  try {
    found = await get("/v1/comparisons", { signal, query: { plan: given } });
  } catch (problem) {
    if (signal.aborted) return;
    fill(root, head, choice, failed(problem, problem.status === 404 ? null : () => show({ root, query, signal, go, title })));
    return;
  }
  title(`${found.first.name} against ${found.second.name}`);
  fill(root, head, choice, likelier(found), requested(found), totals(found, given.map((id) => plans.find((own) => own.id === id))), steps(found), memory(found), differences(found));
}

async function shelf(given, signal) {
  const { plans } = await get("/v1/plans", { signal, query: { page_size: 200 } });
  const known = new Set(plans.map((own) => own.id));
  const missing = given.filter((id) => !known.has(id)).map((id) => get(path`/v1/plans/${id}/overview`, { signal }).then((own) => own.entry, () => null));
  return [...plans, ...(await Promise.all(missing)).filter(Boolean)]; // the comparison tells of one that is deleted
}

function chooser(given, plans, go) {
  const address = (one, other) => `/compare?${new URLSearchParams([["plan", one], ["plan", other]].filter(([, id]) => id))}`;
  const pick = (label, at) => {
    const select = h("select", { id: `plan-${at}`, onchange: () => go(at ? address(given[0] ?? "", select.value) : address(select.value, given[1] ?? "")) },
      h("option", { value: "" }, "choose a plan"),
      plans.map((own) => h("option", { value: own.id, selected: own.id === given[at] }, `${clip(own.name || short(own.id))} · ${clip(own.topology_name)} · ${time(own.step_ns)}${isOverfull(own) ? " · does not fit" : ""} · ${short(own.id)} · ${ago(own.created_at)}`)));
    return h("span", { class: "row" }, h("label", { for: `plan-${at}` }, label), select);
  };
  return h("div", { class: "row compare-pick" }, pick("A", 0), pick("B", 1),
    h("button", { type: "button", disabled: given.length < 2, onclick: () => go(address(given[1], given[0])) }, "Swap"));
}

/** The faster plan: by how much, how likely, because of which parts, at which memory. */
function likelier({ first, second, second_shorter: likely, per_sample: perSample, changes = [] }) {
  const [a, b] = [first, second].map((own) => (perSample ? own.step_ns / own.batch : own.step_ns));
  if (!a || !b || Math.abs(a - b) <= 1e-9 * Math.max(a, b)) return null;
  const isSecond = b < a;
  const saved = 1 - Math.min(a, b) / Math.max(a, b);
  const causes = changes.filter(({ ns }) => ns < 0 === isSecond).slice(0, CAUSES).map(({ part, ns }) => `${time(Math.abs(ns))} less of ${part}`);
  const spare = (second.memory_total_bytes - first.memory_total_bytes) * (isSecond ? 1 : -1);
  return h("p", { class: "verdict-line" },
    h("strong", {}, `${isSecond ? "B" : "A"} ${perSample ? "takes less time for a sample" : "has the shorter step"}`), `, by ${percent(saved)}`,
    typeof likely === "number" ? `, with probability ${(isSecond ? likely : 1 - likely).toFixed(2)}` : null,
    causes.length ? `: ${causes.join(", ")}` : null, ".",
    spare ? ` It needs ${bytes(Math.abs(spare))} ${spare > 0 ? "more" : "less"} memory.` : null);
}

/** The options in which the requests differ. */
function requested({ requested: differing = [] }) {
  if (!differing.length) return null;
  return h("section", { "aria-labelledby": "requested" },
    h("h2", { id: "requested" }, "Requested differently"),
    table({
      label: "Requested differently", rows: differing,
      columns: [
        { title: "Option", value: (row) => row.option },
        { title: "A", value: (row) => h("span", { class: "name" }, shown(row.first)) },
        { title: "B", value: (row) => h("span", { class: "name" }, shown(row.second)) },
      ],
    }));
}

/** The value of an option; an id is shortened. */
function shown(value) {
  return /^[a-z]+_[0-9a-f]{16,}$/.test(value) ? short(value) : value;
}

/** entries: of the two plans in the list. */
function totals({ first, second }, entries) {
  const of = (plan, entry) => [verdict(entry), warningTags(entry.warnings), " ", link(path`/plans/${plan.plan}`, plan.name || short(plan.plan)), h("span", { class: "muted mono" }, ` ${short(plan.plan)}`)];
  const meshes = (plan) => [...new Set(plan.meshes.map((mesh) => mesh.axes.map((axis) => `${axis.name} ${axis.size}`).join(" × ") || "one device"))].join("; ");
  const words = [
    ...NAMES.map((name) => [name, short(first[name]), short(second[name])]).filter(([, a, b]) => a !== b),
    ["mesh", meshes(first), meshes(second)],
    ["schedule", first.schedule ?? "none", second.schedule ?? "none"],
    ["microbatches", count(first.microbatches), count(second.microbatches)],
    ["recompute", first.recompute.join(", ") || "none", second.recompute.join(", ") || "none"],
    ["ops", count(first.ops), count(second.ops)],
  ].map(([name, a, b]) => ({ name, a, b, difference: a === b ? h("span", { class: "muted" }, "=") : "differs" }));
  const [a, b] = [timesOf(first), timesOf(second)];
  const times = [["step", first.step_ns, second.step_ns], ...Object.entries(TIMES).map(([key, kind]) => [kind.name, a[key] ?? 0, b[key] ?? 0])]
    .filter(([, x, y]) => x || y).map(([name, x, y]) => ({ name, a: time(x), b: time(y), difference: delta(x, y, { text: time }) }));
  const parts = [["memory of a device", first.memory_total_bytes, second.memory_total_bytes], ...Object.entries(PARTS).map(([key, kind]) => [kind.name, first.memory_bytes[key] ?? 0, second.memory_bytes[key] ?? 0])]
    .filter(([, x, y]) => x || y).map(([name, x, y]) => ({ name, a: bytes(x), b: bytes(y), difference: delta(x, y, { text: bytes }) }));
  const columns = (kind) => [
    { title: kind, value: (row) => row.name },
    { title: "A", number: kind !== "What it is", value: (row) => row.a },
    { title: "B", number: kind !== "What it is", value: (row) => row.b },
    { title: "B against A", number: kind !== "What it is", value: (row) => row.difference },
  ];
  return h(
    "section", { "aria-label": "Totals" },
    h("div", { class: "row compare-names" }, h("span", {}, h("span", { class: "swatch one" }), " A ", of(first, entries[0])), h("span", {}, h("span", { class: "swatch other" }), " B ", of(second, entries[1]))),
    table({ label: "What they are", rows: words, columns: columns("What it is") }),
    h("div", { class: "columns three" },
      table({ label: "Time", rows: times, columns: columns("Time") }),
      table({ label: "Memory", rows: parts, columns: columns("Memory") })),
  );
}

function steps({ first, second }) {
  return bars({
    rows: [{ name: "A", parts: timesOf(first), total: time(first.step_ns) }, { name: "B", parts: timesOf(second), total: time(second.step_ns) }],
    kinds: TIMES, text: time, names: 30, label: "Both steps in parts",
  });
}

function memory({ first, second }) {
  return bars({
    rows: [{ name: "A", parts: first.memory_bytes }, { name: "B", parts: second.memory_bytes }],
    kinds: PARTS, text: bytes, names: 30, label: "Memory of both in parts",
    limit: first.memory_bytes.capacity === second.memory_bytes.capacity ? { amount: first.memory_bytes.capacity, name: "a device has", colour: "--capacity" } : null,
  });
}

function differences({ alike, differences: all }) {
  const held = h("div");
  const shown = new Set(COSTS);
  const boxes = COSTS.filter((kind) => all.some((own) => own.differing.includes(kind))).map((kind) =>
    h("label", {}, h("input", { type: "checkbox", checked: true, onchange: (event) => { if (event.target.checked) shown.add(kind); else shown.delete(kind); draw(SHOWN); } }), kind));
  draw(SHOWN);
  return h(
    "section", { "aria-labelledby": "differences" },
    h("h2", { id: "differences" }, "Ops that differ"),
    h("p", { class: "muted" }, `${count(alike)} ops differ in nothing. Repeats are one line; times are over one step on a device of their stage, of all repeats together.`),
    all.length ? [h("fieldset", { class: "row" }, h("legend", {}, "Show what differs in"), boxes), held] : h("p", {}, "No op differs."),
  );

  function draw(most) {
    const rows = all.filter((own) => own.differing.some((kind) => shown.has(kind)));
    fill(held,
      table({
        label: "Ops that differ", rows: rows.slice(0, most),
        columns: [
          { title: "Op", width: "21%", value: (own) => [h("code", { class: "name" }, own.label), own.count > 1 ? h("span", { class: "muted" }, ` ×${own.count}`) : null] },
          { title: "Differs in", value: (own) => own.differing.map((kind, at) => [at ? ", " : "", h("span", { class: "kind" }, kind)]) },
          { title: "A", width: "19%", value: (own) => side(own.first, own.second) },
          { title: "B", width: "19%", value: (own) => side(own.second, own.first) },
          { title: "Compute", number: true, value: (own) => apart(own, "compute_ns", time), sort: (own) => difference(own, "compute_ns") },
          { title: "Communication", number: true, value: (own) => apart(own, "communication_ns", time), sort: (own) => difference(own, "communication_ns") },
          { title: "Saved", number: true, value: (own) => apart(own, "saved_bytes", bytes), sort: (own) => difference(own, "saved_bytes") },
          { title: "Parameters", number: true, value: (own) => apart(own, "parameter_bytes", bytes), sort: (own) => difference(own, "parameter_bytes") },
        ],
      }),
      rows.length > most ? h("button", { type: "button", onclick: () => draw(Infinity) }, `Show all ${count(rows.length)}`) : null,
    );
  }
}

function side(own, other) {
  if (!own) return h("span", { class: "muted" }, "is not there");
  const [layout] = own.outputs;
  return [
    h("code", { class: "name" }, strategy(own)),
    other && other.outputs[0] !== layout ? h("div", { class: "muted mono name" }, layout) : null,
    other && String(other.stages) !== String(own.stages) ? h("div", { class: "muted" }, `stage ${spans(own.stages)}`) : null,
  ];
}

// 0, 1, 2, 5 as 0–2, 5
function spans(numbers) {
  const found = [];
  for (const own of numbers) {
    if (found.at(-1)?.[1] === own - 1) found.at(-1)[1] = own;
    else found.push([own, own]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}–${to}`)).join(", ");
}

function difference(own, field) {
  return (own.second?.[field] ?? 0) - (own.first?.[field] ?? 0);
}

function apart(own, field, text) {
  return delta(own.first?.[field] ?? 0, own.second?.[field] ?? 0, { text });
}

function clip(name) {
  return name.length > 40 ? `${name.slice(0, 39)}…` : name;
}
