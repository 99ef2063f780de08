// A sweep: its points by throughput, devices, memory and price, followed until all have an answer.
import { get, send, save } from "../api.js";
import { may } from "../caller.js";
import { scatter } from "../chart/scatter.js";
import { ask } from "../confirmation.js";
import { fill, h, link, path } from "../element.js";
import { failed, loading } from "../states.js";
import { count, short } from "../units.js";
import { bestOf, rateOf, unitOf } from "./sweep/figures.js";
import { pointsTable } from "./sweep/points.js";
import { sweepState } from "./sweep/state.js";

const WAIT_S = 20; // chosen: one long poll
const AGAIN_MS = 1000; // chosen: after an answer that failed
const COLOURS = 6; // series of the palette
const SHAPES = ["circle", "square", "diamond"];

export async function show({ root, params, signal, go, title }) {
  const at = path`/v1/sweeps/${params.sweep}`;
  fill(root, loading("the sweep"));
  const [first, editable] = await Promise.all([get(at, { signal }), may("plan")]);
  let sweep = first;
  title(`Sweep of ${sweep.graph_name}`);
  const head = h("div");
  const chart = h("div");
  const best = h("div");
  const trouble = h("div");
  const list = pointsTable(sweep, { signal, go });
  list.classList.add("points");
  fill(root, head, trouble, best, chart, h("h2", {}, "Points"), list);
  draw();
  follow();

  async function follow() {
    while (!signal.aborted && sweep.state === "running") {
      try {
        sweep = await get(at, { signal, query: { wait: WAIT_S } });
        fill(trouble);
        draw();
      } catch (problem) {
        if (signal.aborted) return;
        fill(trouble, failed(problem));
        if (problem.status === 404) return;
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  }

  function draw() {
    if (signal.aborted) return;
    const hadFocus = head.contains(document.activeElement);
    const running = sweep.state === "running";
    const unfinished = sweep.rows.some((row) => ["cancelled", "failed", "deleted"].includes(row.state));
    fill(head,
      h("div", { class: "row spread" },
        h("h1", {}, "Sweep of ", h("span", { class: "name" }, sweep.graph_name || short(sweep.graph)), " ", sweepState(sweep)),
        h("div", { class: "row" },
          running && editable ? h("button", { type: "button", onclick: cancel }, "Cancel the sweep") : null,
          !running && unfinished && editable ? h("button", { type: "button", onclick: again }, "Plan the missing points") : null,
          h("button", { type: "button", onclick: download }, "CSV"))),
      h("p", { class: "row" },
        h("progress", { max: sweep.points, value: sweep.done, "aria-label": `${sweep.done} of ${sweep.points} points` }),
        h("span", { role: "status" }, `${count(sweep.done)} of ${count(sweep.points)} points have an answer`),
        link(path`/graphs/${sweep.graph}/sweep`, "another sweep of this graph")));
    if (hadFocus) (head.querySelector("button") ?? document.getElementById("view")).focus();
    fill(best, bestOf(sweep).map((line) => h("p", { class: "name" }, line)));
    fill(chart, drawn());
    list.update(numbered(sweep));
  }

  function drawn() {
    const unit = unitOf(sweep);
    const points = numbered(sweep).filter((row) => row.figures && rateOf(row) && row.figures.memory_bytes <= row.figures.capacity_bytes);
    if (points.length < 2) return null;
    const series = [...new Set(points.map(seriesOf))];
    const chart = scatter({
      points: points.map((row) => ({ x: row.figures.devices, y: rateOf(row), kind: seriesOf(row), hollow: !row.on_front, name: row.name, says: row.figures.degrees, plan: row.figures.plan })),
      kinds: Object.fromEntries(series.map((name, at) => [name, { name, colour: `--series-${at % COLOURS}`, shape: SHAPES[at % SHAPES.length] }])),
      front: points.filter((row) => row.on_front).map((row) => [row.figures.devices, rateOf(row)]).sort((a, b) => a[0] - b[0]),
      x: { name: "devices", text: count, base: 2 }, y: { name: `${unit} per second`, text: count, base: 10 },
      label: "Points by devices and throughput", onPick: (point) => go(path`/plans/${point.plan}`),
    });
    return [chart, h("p", { class: "muted" }, "Filled points are on the front: no other point has as high a throughput on as few devices.")];
  }

  function cancel() {
    ask({
      title: "Cancel the sweep?",
      body: h("p", {}, "The points that are planned stay. Searches that another sweep waits for go on."),
      keep: "Keep planning", sure: "Cancel the sweep", signal,
      act: async () => {
        sweep = (await send("POST", `${at}/cancel`, undefined, { signal })).body;
        draw();
      },
    });
  }

  async function again() {
    try {
      sweep = (await send("POST", "/v1/sweeps", { ...sweep.sweep, graph: sweep.graph }, { signal })).body;
      if (sweep.id !== params.sweep) return go(path`/sweeps/${sweep.id}`); // another planner, or another calibration
      draw();
      follow();
    } catch (problem) {
      if (!signal.aborted) fill(trouble, failed(problem));
    }
  }

  function download() {
    const text = [list.columns, ...list.records()].map((line) => line.map(quoted).join(",")).join("\n");
    save(new Blob([`${text}\n`], { type: "text/csv" }), `sweep-${sweep.graph_name || "points"}.csv`);
  }
}

function numbered(sweep) {
  return sweep.rows.map((row, at) => ({ ...row, at, name: nameOf(row.point) }));
}

/** The device of a preset, such as `h100`; the name of another topology. */
function seriesOf({ point }) {
  return point.topology.replace(/-\d+(x\d+)+$/, "");
}

function nameOf({ topology, ...rest }) {
  return [topology, ...Object.entries(rest).map(([name, value]) => `${name} ${typeof value === "number" ? count(value) : value}`)].join(", ");
}

function quoted(value) {
  const text = String(value ?? "");
  const safe = /^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // no formula for a spreadsheet
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
