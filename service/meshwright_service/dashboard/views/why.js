// Why: for any op the strategies that it could have, each searched again with all others free.
import { get } from "../api.js";
import { delta, strategy } from "../delta.js";
import { fill, h, path } from "../element.js";
import { globOf, pattern } from "../repeats.js";
import { empty, failed, loading } from "../states.js";
import { table } from "../table.js";
import { bytes, change, count, percent, time } from "../units.js";
import { planHead } from "./plan_head.js";

const SECONDS = [5, 20, 60]; // chosen: of a search; more strategies of a large model are tried in more
const USUAL = 20; // seconds; chosen: the best strategies of a model of 80 layers
const VERDICTS = { chosen: "good", slower: "plain", simpler: "plain", "does not fit": "bad", "not allowed": "warn", "not solved": "plain" };
const TYPED_MS = 250; // chosen: after the last letter
const SHOWN = 12; // strategies at first; chosen: a person reads the best
const OFFERED = 30; // names; chosen

export async function show({ root, params, query, signal, keep, title }) {
  const id = params.plan;
  fill(root, planHead(id, "why"), loading("the plan"));
  const { entry } = await get(path`/v1/plans/${id}/overview`, { signal });
  title(`Why: ${entry.name || "a plan"}`);
  const names = h("datalist", { id: "ops" });
  const field = h("input", { id: "op", "data-search": true, list: "ops", required: true, maxlength: "512", spellcheck: "false", autocomplete: "off", placeholder: "model.layers.*.mlp.down_proj", value: query.get("op") ?? "", oninput: offer });
  const seconds = h("select", { id: "seconds" }, SECONDS.map((own) => h("option", { value: own, selected: String(own) === (query.get("seconds") ?? String(USUAL)) }, `${own} s`)));
  const held = h("div", { "aria-live": "polite" });
  const form = h(
    "form", { class: "row why", onsubmit: (event) => { event.preventDefault(); ask(); } },
    h("label", { for: "op" }, "Op, or a glob of ops"), field, names,
    h("label", { for: "seconds" }, "search for"), seconds,
    h("button", { class: "primary" }, "Explain"),
  );
  fill(root, planHead(id, "why", { entry }), form, held);
  let running = null;
  let timer = null;
  signal.addEventListener("abort", () => clearTimeout(timer));
  if (field.value) return ask();
  fill(held, empty("Which op?", "Every strategy that it could have is searched again with all other ops free, and judged as the plan was. The names stand in the graph; * means any part of one."), await costliest(id, signal));
  return undefined;

  function offer() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const text = field.value.replaceAll("*", "").trim();
      if (!text) return;
      const found = await get(path`/v1/plans/${id}/layout`, { signal, query: { search: text } }).catch(() => ({}));
      fill(names, [...new Set((found.found ?? []).map((own) => own.op))].slice(0, OFFERED).map((name) => h("option", { value: name })));
    }, TYPED_MS);
  }

  async function ask() {
    running?.abort();
    running = new AbortController();
    const mine = running;
    signal.addEventListener("abort", () => mine.abort());
    const op = field.value.trim();
    const most = Number(seconds.value);
    keep({ op, seconds: most === USUAL ? null : most });
    let rows = null; // of a shorter search: they stay in sight during a longer one
    try {
      for (const limit of SECONDS.filter((own) => own <= most)) {
        const found = await searchedFor(limit, op, mine, rows);
        const repeats = await repeatsOf(id, found, mine.signal);
        rows = explained(id, found, repeats);
        fill(held, rows);
        if (found.complete) break;
      }
    } catch (problem) {
      if (!mine.signal.aborted) fill(held, failed(problem, ask));
    }
  }

  /** The explanation within a number of seconds, with a progress bar above what is known. */
  async function searchedFor(limit, op, mine, rows) {
    const clock = h("progress", { max: limit, value: "0", "aria-label": "Time of the search" });
    const begun = performance.now();
    const ticking = setInterval(() => { clock.value = (performance.now() - begun) / 1e3; }, 200);
    const stop = () => {
      mine.abort();
      fill(held, rows ?? empty("Stopped", "The service finishes the search and keeps the result. Explain it again to read it."));
    };
    const says = rows ? `Searching for up to ${limit} s; the strategies so far are below` : "Searching the plan again with every other strategy of ";
    fill(held, h("div", { class: "state" }, h("p", {}, says, rows ? "" : h("code", { class: "name" }, op), " …"), clock, " ", h("button", { type: "button", onclick: stop }, "Stop")), rows);
    mine.signal.addEventListener("abort", () => clearInterval(ticking));
    try {
      return await get(path`/v1/plans/${id}/explain`, { signal: mine.signal, query: { op, seconds: limit } });
    } finally {
      clearInterval(ticking);
    }
  }
}

/** The costliest ops: mostly the question is about one of them. */
async function costliest(id, signal) {
  const { groups } = await get(path`/v1/plans/${id}/costliest-ops`, { signal });
  return [
    h("h2", {}, "Costliest ops"),
    table({
      label: "Costliest ops", rows: groups,
      columns: [
        { title: "Ops", value: (own) => [h("a", { href: `${path`/plans/${id}/why`}?${new URLSearchParams({ op: own.glob })}` }, h("code", { class: "name" }, own.ops)), own.count > 1 ? h("span", { class: "muted" }, ` ×${count(own.count)}`) : null] },
        { title: "Kind", value: (own) => h("code", {}, own.kind) },
        { title: "Strategy", value: (own) => h("code", { class: "name" }, strategy(own)) },
        { title: "Compute", number: true, value: (own) => time(own.compute_ns), sort: (own) => own.compute_ns },
        { title: "Communication", number: true, value: (own) => time(own.communication_ns), sort: (own) => own.communication_ns },
        { title: "Of all ops", number: true, value: (own) => percent(own.share), sort: (own) => own.share, says: "Share of the time of all ops" },
      ],
    }),
  ];
}

/** {glob, number}: of the ops that repeat the one that was searched alone; else null. */
async function repeatsOf(id, { groups }, signal) {
  const ops = groups.flatMap((group) => group.ops);
  const glob = ops.length === 1 ? globOf(ops[0]) : null;
  if (!glob) return null;
  const { matches = 0 } = await get(path`/v1/plans/${id}/layout`, { signal, query: { search: glob } });
  return matches > 1 ? { glob, number: matches } : null;
}

/** The ops that were searched, in a sentence. */
function searched(id, { glob, groups }, repeats) {
  const ops = groups.flatMap((group) => group.ops);
  if (ops.length === 1) {
    return h("p", {}, "Searched: ", h("code", { class: "name" }, ops[0]), " alone.",
      repeats ? [" It is one of ", count(repeats.number), " ops that match ", h("code", { class: "name" }, repeats.glob), ": ", h("a", { href: `${path`/plans/${id}/why`}?${new URLSearchParams({ op: repeats.glob })}` }, "explain all of them"), "."] : null);
  }
  return h("p", {}, "Searched: the ", count(ops.length), " ops that match ", h("code", { class: "name" }, glob), groups.length > 1 ? `, in ${count(groups.length)} groups of equal ops with one strategy; each group changes as a whole.` : ", which change together.");
}

function explained(id, found, repeats) {
  const { whole, memory } = found;
  return [
    searched(id, found, repeats),
    h("div", { class: "answers" },
      card(found.stage ? `Stage ${found.stage} alone` : "The plan now", time(whole.step_ns), `objective ${time(whole.objective_ns)}`),
      card("Memory", bytes(memory.used_bytes), `of ${bytes(memory.capacity_bytes)}, ${percent(memory.used_bytes / memory.capacity_bytes)}`),
      h("div", { class: "card wide" }, h("h2", {}, "Which constraint binds"), h("p", {}, memory.binds ? h("span", { class: "tag warn" }, "! memory binds") : h("span", { class: "tag good" }, "✓ memory does not bind")), h("p", {}, memory.why), memory.without_ns !== null && memory.without_ns !== undefined ? h("p", { class: "muted" }, `With as much memory as it liked, none below ${time(memory.without_ns)} (${change(memory.without_ns / whole.objective_ns - 1)}).`) : null),
    ),
    found.complete ? null : h("p", { class: "warn" }, `${found.seconds} s were not enough for all; a longer search has more.`),
    (found.notes ?? []).length ? h("ul", { class: "muted" }, found.notes.map((note) => h("li", { class: "name" }, note))) : null,
    found.groups.map((group) => groupOf(id, found, group, repeats)),
  ];
}

function card(title, big, below) {
  return h("div", { class: "card" }, h("h2", {}, title), h("p", { class: "big" }, big), h("p", { class: "muted" }, below));
}

/** What a pin of a group holds for: [[words, globs]], the narrower first. */
function targets(found, group, repeats) {
  if (group.ops.length === 1) {
    return repeats ? [["Plan this op with it", group.ops], [`Plan all ${count(repeats.number)} with it`, [repeats.glob]]] : [["Plan with it", group.ops]];
  }
  const globs = found.groups.length === 1 ? [found.glob] : group.ops;
  return [["Plan the first with it", [group.ops[0]]], [`Plan all ${count(group.ops.length)} with it`, globs]];
}

function groupOf(id, found, group, repeats) {
  const label = pattern(group.ops);
  const factors = (own) => Object.entries(own.strategy).filter(([, axes]) => axes.length).map(([factor, axes]) => `${factor}=${axes.join("+")}`).join(",");
  const address = (own, globs) => `${path`/plans/${id}/what-if`}?${new URLSearchParams(globs.map((glob) => ["pin", `${glob}:${factors(own)}`]))}`;
  const actions = (own) => h("div", { class: "row" }, targets(found, group, repeats).map(([says, globs]) => h("a", { class: "button", href: address(own, globs), "aria-label": `${says}: ${strategy(own)}` }, says)));
  const used = group.alternatives.filter((own) => own.verdict !== "not solved" && own.verdict !== "not allowed");
  const rest = group.alternatives.filter((own) => !used.includes(own));
  const what = (own) => (own.whole ? delta(found.whole.step_ns, own.whole.step_ns, { text: time }) : h("span", { class: "muted" }, "–"));
  const columns = [
    { title: "Strategy", width: "16%", value: (own) => [h(own.verdict === "chosen" ? "strong" : "span", {}, h("code", { class: "name" }, strategy(own))), h("div", { class: "muted" }, words(own, group.factors))] },
    { title: "Verdict", value: (own) => h("span", { class: `tag ${VERDICTS[own.verdict]}` }, own.verdict) },
    { title: "Step against now", number: true, value: what, sort: (own) => own.whole?.step_ns },
    { title: "Memory against now", number: true, value: (own) => (own.whole ? delta(found.whole.memory_bytes, own.whole.memory_bytes, { text: bytes }) : "–"), sort: (own) => own.whole?.memory_bytes },
    { title: "Alone: compute", number: true, value: (own) => time(own.compute_ns), sort: (own) => own.compute_ns },
    { title: "Own moves", number: true, value: (own) => time(own.communication_ns), sort: (own) => own.communication_ns },
    { title: "Others change", number: true, value: (own) => (own.others === null || own.others === undefined ? "–" : count(own.others)), sort: (own) => own.others },
    { title: "Why", width: "30%", value: (own) => h("span", { class: "name" }, own.why) },
    { title: "", value: (own) => (own.verdict === "chosen" || own.verdict === "not allowed" || Object.keys(own.partial ?? {}).length ? "" : actions(own)) },
  ];
  return h(
    "section", {},
    h("h2", {}, h("code", { class: "name" }, label), group.ops.length > 1 ? h("span", { class: "muted" }, ` ×${count(group.ops.length)}`) : null),
    h("p", { class: "muted" }, h("code", {}, group.kind), group.rule ? [", rule ", h("code", { class: "name" }, group.rule)] : ", no rule: it runs replicated"),
    (group.pins ?? []).map((own) => h("p", { class: "name" }, h("span", { class: "tag warn" }, "! pinned"), " ", h("code", {}, own.pin), ` ${own.why}`)),
    best(`Strategies of ${label}`, used, columns),
    rest.length ? h("details", {}, h("summary", {}, `${count(rest.length)} more, not solved or not allowed`), table({ label: `More strategies of ${label}`, rows: rest.slice(0, 200), columns: columns.filter((own) => !["Step against now", "Memory against now", "Others change"].includes(own.title)) })) : null,
  );
}

/** A strategy in words: the batch over node; columns over gpu0 gpu1. */
function words({ strategy: own = {} }, factors = {}) {
  const cut = Object.entries(own).filter(([, axes]) => axes.length).map(([factor, axes]) => `${factors[factor] ?? factor} over ${axes.join(" ")}`);
  return cut.join("; ") || "every device computes all of it";
}

function best(label, rows, columns) {
  const held = h("div");
  draw(SHOWN);
  return held;

  function draw(most) {
    fill(held, table({ label, rows: rows.slice(0, most), columns }), rows.length > most ? h("button", { type: "button", onclick: () => draw(Infinity) }, `Show all ${count(rows.length)}`) : null);
  }
}
