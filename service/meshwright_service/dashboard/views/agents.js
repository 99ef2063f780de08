// Agents: who is there, what they measure now, and how old their last profile is.
import { get } from "../api.js";
import { fill, h, link, path } from "../element.js";
import { prose } from "../prose.js";
import { empty, failed } from "../states.js";
import { table } from "../table.js";
import { ago, count, moment, percent, rate, short } from "../units.js";
import { wish } from "./agents/wish.js";
import { aged } from "./topology/profiles.js";

const AGAIN_MS = 3000; // chosen: between two looks at who is alive

export async function show({ root, signal, go, title }) {
  title("Agents");
  const list = h("div", {});
  const shown = new Map(); // by id: what of an agent changes
  fill(
    root,
    h("h1", {}, "Agents"),
    h("p", { class: "muted" }, "Processes on the cluster that measure it when they are asked. They ask the service for work; it never calls them."),
    list,
  );
  let { agents } = await get("/v1/agents", { signal, query: { page_size: 200 } });
  draw();
  look();

  function draw() {
    shown.clear();
    if (!agents.length) {
      fill(list, empty("No agent yet", "Begin one on the cluster: ", h("code", {}, "meshwright agent --serve --server URL -o FOLDER"), "."));
      return;
    }
    const anyone = agents.some((own) => own.state === "alive");
    fill(list, anyone ? wish(agents, { signal, go }) : h("p", { class: "warn" }, "Nobody is alive who could measure."), agents.map(card));
    for (const own of agents) refresh(own);
  }

  function card(own) {
    const parts = { state: h("span", {}), facts: h("dl", { class: "facts" }) };
    shown.set(own.id, parts);
    const { agent } = own;
    return h(
      "section", { class: "card agent", "aria-label": agent.name },
      h("h2", {}, h("span", { class: "name" }, agent.name), " ", parts.state),
      parts.facts,
      agent.levels?.length ? levels(agent.levels) : null,
      agent.notes?.length ? h("ul", {}, agent.notes.map((note) => h("li", {}, prose(note)))) : null,
    );
  }

  function refresh(own) {
    const { state, facts } = shown.get(own.id);
    const { agent } = own;
    fill(state, h("span", { class: `tag ${own.state === "alive" ? "good" : "bad"}` }, own.state), " ", h("span", { class: "muted" }, `heard of ${ago(own.heard_at)}`));
    fill(facts, [
      ["Devices", [`${count(agent.devices)} × `, h("span", { class: "name" }, agent.device), ` over ${agent.backend}`]],
      ["Hosts", h("span", { class: "name" }, `${count(agent.hosts.length)}: ${agent.hosts.slice(0, 8).join(", ")}${agent.hosts.length > 8 ? ", …" : ""}`)],
      ["Measures", own.measuring ? link(path`/jobs/${own.measuring}`, "a job ", h("code", {}, short(own.measuring)), own.progress ? `, ${own.progress}` : "") : h("span", { class: "muted" }, "nothing now")],
      ["Last profile", own.calibration ? [link(path`/calibrations/${own.calibration}`, h("code", {}, short(own.calibration))), ", ", aged(own.measured_at)] : h("span", { class: "muted" }, "none yet")],
      ["Registered", moment(own.created_at)],
    ].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  }

  async function look() {
    while (!signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      if (signal.aborted || document.hidden) continue;
      try {
        const found = (await get("/v1/agents", { signal, query: { page_size: 200 } })).agents;
        await Promise.all(found.map((own) => progress(own)));
        const before = agents;
        agents = found;
        const same = before.length === found.length && found.every((own, at) => own.id === before[at].id && own.state === before[at].state);
        if (same) for (const own of found) refresh(own);
        else draw();
      } catch (problem) {
        if (!signal.aborted) fill(list, failed(problem, () => show({ root, signal, go, title })));
        return;
      }
    }
  }

  async function progress(own) {
    if (!own.measuring) return;
    const { progress: far } = await get(path`/v1/jobs/${own.measuring}`, { signal });
    own.progress = far ? `${far.phase}, ${percent(far.total ? far.done / far.total : 0)}` : null;
  }
}

function levels(found) {
  return table({
    label: "Levels as the machine says", rows: found,
    columns: [
      { title: "Level", value: (own) => h("span", { class: "name" }, own.name) },
      { title: "Units", number: true, value: (own) => count(own.size) },
      { title: "Link", value: (own) => h("span", { class: "name" }, own.link) },
      { title: "A device", number: true, value: (own) => rate(own.bytes_per_s) },
      { title: "By", value: (own) => h("span", { class: "name" }, own.source) },
    ],
  });
}
