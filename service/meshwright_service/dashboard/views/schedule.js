// The pipeline schedule: the passes of every pipeline rank over a step, and the bubble.
import { get } from "../api.js";
import { legend } from "../chart/legend.js";
import { fill, h, link, path } from "../element.js";
import { empty, loading } from "../states.js";
import { table } from "../table.js";
import { passLanes } from "../timeline/passes.js";
import { laneViewer } from "../timeline/viewer.js";
import { count, percent, time } from "../units.js";
import { planHead } from "./plan_head.js";

const MOST = 16; // chosen: ranks whose table is open at first
const SAID = { F: "forward of", B: "backward of", I: "backward for inputs of", W: "backward for weights of" };

export async function show({ root, params, query, signal, keep, title, go }) {
  const id = params.plan;
  fill(root, planHead(id, "schedule"), loading("the schedule"));
  const [{ entry, overview }, schedule] = await Promise.all([
    get(path`/v1/plans/${id}/overview`, { signal }),
    get(path`/v1/plans/${id}/schedule`, { signal }),
  ]);
  title(`Schedule of ${entry.name || "a plan"}`);
  const head = planHead(id, "schedule", { entry });
  if (!schedule.ranks.length) {
    fill(root, head, empty("One pipeline rank", "All devices run the same passes, so there is no schedule and no bubble."), h("p", {}, link(path`/plans/${id}/timeline`, "The timeline of a step")));
    return;
  }
  const found = passLanes(schedule);
  const selected = h("p", { class: "selected", role: "status" }, "Nothing is selected.");
  const inTimeline = ({ name }) => path`/plans/${id}/timeline` + `?pass=${name}`;
  const viewer = laneViewer(found, {
    label: "Pipeline schedule by rank", at: query.get("at"), signal,
    onSelect: (own) => fill(selected, described(own, inTimeline)),
    onOpen: ({ slice }) => slice.pass && go(inTimeline(slice.pass)),
    onMove: (at) => keep({ at }),
  });
  fill(
    root, head,
    h("p", {}, summary(schedule, overview)),
    h("div", { class: "row" }, legend(found.kinds), viewer.buttons),
    selected, viewer.element,
    h("p", { class: "muted" }, "Boxes have the number of the microbatch", overview.uniform.stages_per_rank > 1 ? ", with room also stage and pass, as 3F12; later stages of a rank are fainter. " : ". ", "Drag to move; click, then scroll to zoom. Times are those of the plan in closed form; the timeline simulates the step task by task."),
    h("h2", {}, "By rank"),
    schedule.ranks.length > MOST ? h("details", {}, h("summary", {}, `The ${count(schedule.ranks.length)} ranks`), ranks(schedule)) : ranks(schedule),
  );
}

function summary({ kind, microbatches, step_ns: stepNs, bubble_share: share, ranks: all }, { cost }) {
  const stages = Math.max(...all.map((own) => own.stages.length));
  return [
    h("b", {}, kind), `, ${count(all.length)} pipeline ranks${stages > 1 ? ` with ${count(stages)} stages each` : ""}, ${count(microbatches)} microbatches: a step takes ${time(stepNs)}. `,
    `The bubble is ${percent(share)} of the time of all ranks, and ${percent(cost.bubble_ns / cost.step_ns)} (${time(cost.bubble_ns)}) of the rank that works longest.`,
  ];
}

function described(found, inTimeline) {
  if (!found) return "Nothing is selected.";
  const { slice, lane } = found;
  const { pass } = slice;
  return [
    pass ? [h("code", {}, pass.name), `: ${SAID[pass.letter]} microbatch ${pass.microbatch} on stage ${pass.stage}`] : slice.label,
    ` · rank ${lane.number} · ${time(slice.dur * 1e3)} from ${time(slice.ts * 1e3)}`,
    pass ? [" · ", link(inTimeline(pass), "open in the timeline")] : null,
  ];
}

function ranks({ ranks: all }) {
  return table({
    label: "Ranks", caption: "The step of one device of every rank; its parts add up to the step", rows: all,
    columns: [
      { title: "Rank", number: true, value: (own) => own.rank, sort: (own) => own.rank },
      { title: "Stages", value: (own) => own.stages.join(", ") },
      { title: "Passes", number: true, value: (own) => count(own.starts_ns.length), sort: (own) => own.starts_ns.length },
      { title: "In passes", number: true, value: (own) => time(own.passes_ns), sort: (own) => own.passes_ns },
      { title: "Waits for parameters", number: true, value: (own) => time(own.begin_ns), sort: (own) => own.begin_ns },
      { title: "Gradients and optimizer", number: true, value: (own) => time(own.end_ns), sort: (own) => own.end_ns },
      { title: "Bubble", number: true, value: (own) => `${time(own.bubble_ns)} (${percent(own.bubble_share)})`, sort: (own) => own.bubble_ns },
    ],
  });
}
