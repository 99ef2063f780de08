// Plans beside each other: of two the verdict, totals and what differs; of more a table.
import { get } from "../api.js";
import { bars } from "../chart/bars.js";
import { waterfall } from "../chart/waterfall.js";
import { delta } from "../delta.js";
import { fill, h, link, path } from "../element.js";
import { PARTS, TIMES, timesOf } from "../kinds.js";
import { empty, failed, loading } from "../states.js";
import { table } from "../table.js";
import { bytes, count, percent, short, time } from "../units.js";
import { verdict, warningTags } from "../verdict.js";
import { plansOf } from "./compare/address.js";
import { chooser, listOf } from "./compare/chooser.js";
import { differences } from "./compare/differences.js";
import { modules } from "./compare/modules.js";
import { severalPlans } from "./compare/several.js";

const CAUSES = 2; // parts that a sentence names; chosen
const NAMES = ["graph", "topology", "setup", "calibration"];

export async function show({ root, query, signal, go, title }) {
  title("Compare");
  const given = plansOf(query);
  const head = h("h1", {}, given.length > 2 ? `Compare ${given.length} plans` : "Compare two plans");
  fill(root, head, loading("the plans"));
  const comparison = given.length === 2 ? get("/v1/comparisons", { signal, query: { plan: given } }) : null;
  comparison?.catch(() => {}); // awaited below
  const plans = await listOf(given, signal);
  const choice = chooser(given, plans, { go, baseline: query.get("baseline") });
  if (given.length < 2) {
    fill(root, head, choice, empty("Choose two plans", "Plans of one graph are compared op by op. More than two are a table."));
    return;
  }
  fill(root, head, choice, loading("the comparison"));
  try {
    const parts = await (given.length > 2 ? severalPlans({ given, plans, query, signal, go }) : twoPlans({ given, plans, comparison, title }));
    fill(root, head, choice, parts);
  } catch (problem) {
    if (signal.aborted) return;
    fill(root, head, choice, failed(problem, problem.status === 404 ? null : () => show({ root, query, signal, go, title })));
  }
}

async function twoPlans({ given, plans, comparison, title }) {
  const found = await comparison;
  title(`${found.first.name} against ${found.second.name}`);
  const entries = given.map((id) => plans.find((own) => own.id === id));
  return [likelier(found), requested(found), totals(found, entries), changes(found), steps(found), memory(found), modules(found), differences(found)];
}

/** The waterfall from the step of A to that of B. */
function changes({ first, second, changes: parts = [], per_sample: perSample }) {
  if (!parts.length || !parts[0].kind) return null;
  const over = perSample ? "a sample" : "a step";
  const of = (plan) => (perSample && plan.batch ? plan.step_ns / plan.batch : plan.step_ns);
  return h(
    "section", { "aria-labelledby": "waterfall" },
    h("h2", { id: "waterfall" }, `From A to B, for ${over}`),
    waterfall({
      from: { name: "A", amount: of(first) }, to: { name: "B", amount: of(second) }, text: time, label: `Time of ${over}, from A to B`,
      changes: parts.map(({ part, kind, ns, until_ns: until = 0 }) => ({ name: part, colour: TIMES[kind]?.colour ?? "--series-plain", amount: ns, until })),
    }));
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
