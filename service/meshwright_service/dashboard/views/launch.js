// Launch: every way to train with a plan, a tab each. What a file does not say of the plan stands before the file.
import { get } from "../api.js";
import { fill, h, path } from "../element.js";
import { failed, loading } from "../states.js";
import { tabList } from "../tabs.js";
import { planHead } from "./plan_head.js";
import { exportPanel } from "./launch/export_panel.js";
import { runtimePanel } from "./launch/runtime_panel.js";

const PAUSE_MS = 150; // chosen: a tab that an arrow only passes is not computed
const GROUPS = [["runtimes", "Programs"], ["frameworks", "Frameworks"], ["layouts", "Layouts"], ["graphs", "Graph files"]];

export async function show({ root, params, query, signal, keep, title }) {
  const id = params.plan;
  fill(root, planHead(id, "launch"), loading("the ways to launch the plan"));
  const [{ entry }, guide] = await Promise.all([
    get(path`/v1/plans/${id}/overview`, { signal }),
    get(path`/v1/plans/${id}/launch`, { signal }),
  ]);
  title(`Launch ${entry.name || "plan"}`);
  const panel = h("div", { id: "launch-panel", class: "launch-panel", tabindex: -1 });
  const groups = GROUPS.map(([group, says]) => ({
    title: says,
    tabs: guide.ways.filter((way) => way.group === group).map(({ name, title: says }) => ({ name, title: says, mark: name === guide.target ? "target" : null })),
  }));
  const tabs = tabList({ label: "Ways to launch the plan", groups, panel, onSelect: (name) => { keep({ target: name }); drawn(name); } });
  let leaving = new AbortController();
  signal.addEventListener("abort", () => leaving.abort(), { once: true });
  const wanted = query.get("target") ?? guide.target ?? "torch";
  const first = guide.ways.some(({ name }) => name === wanted) ? wanted : "torch";
  fill(root, planHead(id, "launch", { entry }), searchedFor(guide), tabs.element, panel);
  tabs.select(first);
  await drawn(first, 0);

  async function drawn(name, pause = PAUSE_MS) {
    leaving.abort();
    leaving = new AbortController();
    const own = leaving.signal;
    const way = guide.ways.find((other) => other.name === name);
    fill(panel, loading(way.title));
    await new Promise((resolve) => setTimeout(resolve, pause));
    if (own.aborted) return;
    try {
      const made = way.export ? await exportPanel({ way, entry, guide, signal: own }) : runtimePanel({ way, entry });
      if (!own.aborted) fill(panel, made);
    } catch (problem) {
      if (!own.aborted) fill(panel, failed(problem, problem.status >= 400 && problem.status < 500 ? null : () => drawn(name, 0)));
    }
  }
}

function searchedFor({ target, ways }) {
  const title = ways.find(({ name }) => name === target)?.title;
  return h("p", { class: "muted" }, target
    ? ["The plan was searched for ", h("strong", {}, title), ": its file states all of the plan."]
    : "The plan was searched without a target. The runtimes carry out any plan; a file of a framework states what the options of the framework can.");
}
