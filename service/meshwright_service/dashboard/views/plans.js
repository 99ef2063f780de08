// The shelf: searches under way, and plans, newest first, both kept up to date while one looks.
import { get } from "../api.js";
import { may } from "../caller.js";
import { fill, h, link } from "../element.js";
import { press } from "../keys.js";
import { empty, failed, loading } from "../states.js";
import { ago } from "../units.js";
import { filters } from "./plans/filters.js";
import { plansChart } from "./plans/chart.js";
import { columnChooser } from "./plans/columns.js";
import { CHOICES, DEFAULTS, plansTable } from "./plans/plans_table.js";
import { selection } from "./plans/selection.js";
import { ended, underWay } from "./plans/searches.js";

const SOON_MS = 1000; // chosen: between two looks while something is searched
const LATER_MS = 3000; // chosen: the same while nothing is
const OPEN = ["queued", "running"];

export async function show({ root, query, signal, go, keep, title }) {
  title("Plans");
  const live = h("div");
  const away = h("p", { class: "away warn", role: "status", hidden: true });
  const list = h("div", { class: "shelf" }, loading("plans"));
  const pager = h("nav", { class: "row pager", "aria-label": "Pages" });
  const chosen = selection({ query, keep, go, onChange: () => chart.mark() });
  const chart = plansChart({ query, keep, signal, chosen });
  const columns = columnChooser({ columns: CHOICES, defaults: DEFAULTS, query, keep, onChange: () => { shown = null; return listed(); } });
  let page = query.get("page");
  let sort = query.get("sort") ?? "";
  let shown = null; // the table of the list
  let open = null; // ids of the jobs that were under way at the last look
  let asking = 0;
  let plansAt = 0;

  const mayEdit = may("plan");
  const filter = filters({ query, signal, onChange: filtered });
  fill(root,
    h("div", { class: "row spread" }, h("h1", {}, "Plans"), chosen.bar),
    away, live, filter.form, chart.element, columns.element, list, pager);
  press({
    c: ["compare the plans that are selected", () => chosen.compare()],
    x: ["select the plan of the row", () => document.activeElement.closest?.("tr")?.querySelector("input[type=checkbox]")?.click()],
  }, signal);
  await look({ first: true });
  again();
  const clock = setInterval(() => root.querySelectorAll("time[data-ago]").forEach((own) => (own.textContent = ago(own.dateTime))), LATER_MS);
  signal.addEventListener("abort", () => clearInterval(clock));

  function filtered(values) {
    page = null;
    shown = null;
    keep({ ...values, page: null });
    return listed();
  }

  async function onSort(next) {
    sort = next;
    page = null;
    shown = null;
    keep({ sort, page: null });
    await listed();
    list.querySelector('th:is([aria-sort="ascending"], [aria-sort="descending"]) button')?.focus();
  }

  function again() {
    const timer = setTimeout(async () => {
      if (!document.hidden) await look({});
      if (!signal.aborted) again();
    }, open?.size ? SOON_MS : LATER_MS);
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  }

  async function look({ first = false }) {
    try {
      const plans = first ? listed() : null;
      const { jobs } = await get("/v1/jobs", { signal, query: { state: OPEN, page_size: 100 } });
      const now = new Set(jobs.map((job) => job.id));
      const changed = open === null || open.size !== now.size || [...now].some((id) => !open.has(id));
      open = now;
      underWay(live, jobs, { go, signal, onCancel: () => look({}) });
      if (first) await plans;
      else if (changed || performance.now() - plansAt > LATER_MS) await listed();
      away.hidden = true;
    } catch (error) {
      if (signal.aborted) return;
      if (first) throw error;
      away.textContent = `${error.title ?? "The service does not answer"}: this page tries again.`;
      away.hidden = false;
    }
  }

  async function listed() {
    const own = ++asking; // an answer that a later question has overtaken is dropped
    const asked = filter.asked();
    try {
      const found = await get(asked.path, { signal, query: { ...asked.query, page_token: page, page_size: 50, sort: asked.noun === "plans" ? sort : null } });
      if (own !== asking || signal.aborted) return;
      const editable = await mayEdit;
      if (own !== asking || signal.aborted) return;
      plansAt = performance.now();
      draw(asked, found, editable);
      chart.update(asked);
    } catch (error) {
      if (signal.aborted || own !== asking) return;
      if (error.status === 0 && shown) throw error;
      shown = null;
      fill(list, failed(error, () => { page = null; return listed(); }));
      fill(pager);
    }
  }

  function draw(asked, found, editable) {
    const rows = found[asked.noun];
    if (!rows.length) {
      shown = null;
      fill(list, filter.isEmpty() && !page ? nothing() : empty("Nothing here is so", "Take a filter away, or ", h("button", { type: "button", onclick: filter.clear }, "clear all filters"), "."));
    } else if (shown?.noun === asked.noun && shown.page === page) {
      shown.table.update(rows);
    } else {
      const make = asked.noun === "plans" ? plansTable : ended;
      shown = { noun: asked.noun, page, table: make(rows, { go, signal, chosen, editable, remote: { sort, onSort }, columns: columns.shown() }) };
      fill(list, shown.table);
    }
    const held = document.activeElement?.closest?.(".pager") ? document.activeElement.textContent : null;
    const [first, next] = sort && asked.noun === "plans" ? ["First", "Next"] : ["Newest", "Older"];
    fill(pager, page ? h("a", { class: "button", href: filter.address(null) }, first) : null,
      found.next_page_token ? h("a", { class: "button", href: filter.address(found.next_page_token), rel: "next" }, next) : null);
    if (held) [...pager.children].find((own) => own.textContent === held)?.focus();
  }
}

function nothing() {
  return empty("No plan yet", "Ask for one: of a ", link("/graphs", "graph"), " that is stored, or ", h("code", {}, "meshwright plan GRAPH --topology NAME --server URL"), " or ", h("code", {}, "POST /v1/plan"), ".");
}
